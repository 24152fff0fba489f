"""The lab: makes again and explains what was decided.

takes:  stored runs, finished backtests, outcomes of trades
gives:  proof in hashes, differences line by line, what was learned
never:  changes a run; the only thing it writes into a book is experience that somebody imports
"""
