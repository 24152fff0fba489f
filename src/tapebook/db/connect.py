"""A place becomes a database: a path opens SQLite, a `postgresql://` URL opens PostgreSQL."""

from tapebook.db.port import Database
from tapebook.errors import HomeError


def connect(place: str, *, durable: bool = True, create: bool = True, large_pages: bool = False) -> Database:
    """Opens a database. `durable` decides whether a commit survives a power cut: True for the book, False for the tape.
    `large_pages` suit a file of SQLite that is written in large transactions; one that is there keeps those it has.

    Drivers are imported here and not above: PostgreSQL's is an extra.
    """
    if place.startswith(("postgresql://", "postgres://")):
        return _connect_postgres(place, durable=durable)
    from tapebook.db.sqlite import SqliteDatabase

    return SqliteDatabase(place, durable=durable, create=create, large_pages=large_pages)


def _connect_postgres(url: str, *, durable: bool) -> Database:
    try:
        from tapebook.db.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        raise HomeError("PostgreSQL needs its driver: pip install 'tapebook[postgres]'") from error
    return PostgresDatabase(url, durable=durable)
