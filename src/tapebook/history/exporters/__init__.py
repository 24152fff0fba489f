"""Writers of bars, one file per suffix."""
