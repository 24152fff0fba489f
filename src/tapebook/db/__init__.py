"""One small face for two databases: SQLite by default, PostgreSQL by URL.

takes:  named queries from `.sql` files, numbered migrations
gives:  rows as tuples, one write transaction at a time, errors by what the caller must do
never:  knows a table
"""

from tapebook.db.connect import connect
from tapebook.db.migrations import migrate
from tapebook.db.port import Database, Row
from tapebook.db.queries import Queries, Query

__all__ = ["Database", "Queries", "Query", "Row", "connect", "migrate"]
