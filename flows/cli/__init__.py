"""The verbs of `python -m flows`, their settings, and what they print."""
