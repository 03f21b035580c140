"""The papers' experiments, one file a paper; `flows/reproduce.py` runs them."""
