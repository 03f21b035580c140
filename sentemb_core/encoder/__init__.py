"""Sentences to vectors: the encoder, its poolings, how it starts, encodes, and rests on disk."""
