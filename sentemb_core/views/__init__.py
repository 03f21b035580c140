"""Views: the tokenised forms of a text that a training step compares."""
