"""The offline stand-in market: seeded, in process, endless.

takes:  a seed, a start hour and a list of symbols
gives:  steps every five seconds, each with the observations a source would have delivered by then
never:  reads the time, the environment, a file or a socket; two runs with one seed are equal to the byte
"""
