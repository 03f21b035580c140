"""A retriever: vectors, words and tokens of texts as one score (its parts and their fusion)."""
