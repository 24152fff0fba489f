"""The library: documents of agents and of the home, and their upkeep.

takes:  the log, files of the workspace and of added folders.
gives:  versions of documents in the book, an index that is up to date, search results.
never:  trades, or changes an agent.
"""
