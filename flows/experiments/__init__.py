"""The papers' experiments, a file a paper. `flows/experiment.py` runs them."""
