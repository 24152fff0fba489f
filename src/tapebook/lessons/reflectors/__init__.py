"""The reflectors, one per file; the name in an agent's profile is the file's name."""
