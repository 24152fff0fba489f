"""The Python API: what every surface and every program that imports the library calls.

takes:  names, times and settings as people write them; `as_of` defaults to now.
gives:  values in people's units.
never:  computes what a room can compute.
"""
