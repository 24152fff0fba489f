"""The tape: what the market did, stored as rows with two times, and features derived from them.

takes:  observations from a source or a file
gives:  mids, bars, books, funding and features as of any moment and watermark
never:  knows agents, reads a clock, rewrites what was known
"""
