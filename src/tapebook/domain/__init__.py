"""The nouns of tapebook: frozen values, no I/O, no clock.

takes:  nothing but numbers and text
gives:  money, instants, canonical bytes, and the typed facts every room exchanges
never:  reads a file, a database, the environment or the time
"""
