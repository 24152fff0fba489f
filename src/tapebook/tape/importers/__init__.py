"""Readers of files with market history, and what makes facts of their rows."""
