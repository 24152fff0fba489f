"""The providers, one per file; an engine and a setting name them by the file's name."""
