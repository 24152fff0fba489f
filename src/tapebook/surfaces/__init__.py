"""Where people and programs meet tapebook: the command line, the HTTP API, and MCP for chat agents.

takes:  words, flags and requests
gives:  tables for people, JSON for programs, one-line errors with an exit code
never:  computes, opens a database, imports a room: it calls the façade
"""
