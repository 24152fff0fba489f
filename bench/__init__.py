"""Benchmarks: figures against a floor that is measured in the same run. Nothing here asserts wall time."""
