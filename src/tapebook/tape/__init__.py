"""The tape: what the market did, kept as rows with two times.

takes:  observations from a source
gives:  mids, bars, liquidity and funding as of any moment and watermark
never:  knows agents, reads a clock, rewrites what was known
"""
