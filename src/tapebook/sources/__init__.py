"""Sources: adapters that watch a market, one package each; its `create` gives a `Source` (`tape/source.py`).

takes:  frames and answers of an exchange
gives:  observations, gaps and problems, handed to a sink
never:  commits, reads the tape, raises because of one bad frame
"""
