"""History: files of market data in and out.

takes:  files of bars, rates, marks and recorded streams; bars of the tape
gives:  facts with the moment each counts as known, problems and findings; files that can be imported again
never:  stores a row it had to guess, overwrites a file that was not named
"""
