"""Settings: what people write in tapebook.toml, in the environment and in the profiles of agents.

takes:  files, flags and environment variables.
gives:  frozen values with defaults, or one line that names the file, the line and the remedy.
never:  opens a database, imports a room.
"""
