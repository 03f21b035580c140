"""Methods: each way to train is a value made of parts; see README.md for the papers."""
