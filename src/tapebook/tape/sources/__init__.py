"""The sources, one package each; its `create` gives a `Source`."""
