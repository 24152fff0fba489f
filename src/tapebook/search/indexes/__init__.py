"""Searches over documents: a new file here is a new slot, found by its name."""
