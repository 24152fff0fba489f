"""Backtests: the same tick as live, over the tape, in virtual time.

takes:  an agent, a range of the tape, a limit of money for models
gives:  a home with its own book, checkpoints by chunk, and a result that is the same bytes every time
never:  writes the home it was asked in, draws a page or a table, or asks a model beyond its limit
"""
