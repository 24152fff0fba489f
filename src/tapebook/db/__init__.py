"""Storage: one small interface for two databases (SQLite by default, PostgreSQL by URL), and durable files.

takes:  named queries from `.sql` files, numbered migrations, the content of files
gives:  rows as tuples, one write transaction at a time, errors by what the caller must do
never:  knows a table
"""

from tapebook.db.database import Database, Queries, Query, Row, connect, migrate, migrated_packages

__all__ = ["Database", "Queries", "Query", "Row", "connect", "migrate", "migrated_packages"]
