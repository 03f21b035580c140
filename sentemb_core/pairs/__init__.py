"""Pair sources: which two texts of a document are taken to mean the same."""
