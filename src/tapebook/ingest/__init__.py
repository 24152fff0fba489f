"""Ingestion: what a source delivers is committed to the tape, and the tape is kept in order.

takes:  a source, a clock, the settings of retention and quarantine.
gives:  rows of the tape, derived features, hourly bars, old rows in the archive, recorded gaps.
never:  knows decisions or accounts; of the book it reads watchlists and, for a tape that was lost, how far it was read.
"""
