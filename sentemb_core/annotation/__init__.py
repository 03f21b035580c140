"""Intra-document clustering (mutual, section 3): arrays, and the files of a corpus on disk."""
