"""Intra-document clustering: which sentences of one document mean the same (mutual, 3.2)."""
