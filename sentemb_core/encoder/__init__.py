"""The encoder: how a name becomes an encoder, encodes sentences, and is saved and loaded."""
