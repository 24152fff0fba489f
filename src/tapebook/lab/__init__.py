"""The lab: replays and measures what the loop did.

takes:  stored runs
gives:  proof, in hashes and numbers
never:  writes the book it examines
"""
