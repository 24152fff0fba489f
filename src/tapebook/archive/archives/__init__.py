"""The archives, one per file; the scheme of the place picks the file."""
