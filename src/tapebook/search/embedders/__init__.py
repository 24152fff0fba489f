"""Texts to vectors: a new file here is a new embedder, found by its name."""
