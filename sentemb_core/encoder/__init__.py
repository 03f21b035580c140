"""The encoder: how it starts by a name, encodes sentences, and is saved and loaded."""
