"""The offline stand-in market: seeded, endless, in process or behind a server that speaks the exchange's wire format.

takes:  a seed, a start hour and a list of symbols
gives:  steps every five seconds, each with the observations a source would have delivered by then; over loopback too
never:  reads the time, the environment or a file; two runs with one seed are equal to the byte
"""
