"""Intra-document clustering: which sentences of one document mean the same (seed 000, 3.2)."""
