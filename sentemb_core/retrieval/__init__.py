"""Finding texts: by words (BM25) and by vectors (exact search)."""
