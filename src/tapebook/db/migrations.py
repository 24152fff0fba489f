"""Forward-only migrations: numbered `.sql` files, each applied once, in one transaction with its record.

A store names its files by a package: `tapebook.log` has `migrations/0001_log.sql`, and so on.
Several packages may share one database; each counts for itself.
"""

from importlib import resources

from tapebook.db.port import Database
from tapebook.db.queries import Queries
from tapebook.domain.canonical import sha256_hex
from tapebook.errors import Damaged

_QUERIES = Queries.load("tapebook.db", "migrations.sql")

_RECORD_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    package TEXT NOT NULL,
    file TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (package, file)
) WITHOUT ROWID
"""


def migrate(db: Database, packages: tuple[str, ...]) -> list[str]:
    """Brings a database up to date; returns the files that were applied now."""
    db.script(_RECORD_TABLE)
    applied: list[str] = []
    for package in packages:
        for file, sql in _files(package):
            if _apply(db, package=package, file=file, sql=sql):
                applied.append(f"{package}/{file}")
    return applied


def _files(package: str) -> list[tuple[str, str]]:
    folder = resources.files(package).joinpath("migrations")
    found = [(entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted(found)


def _apply(db: Database, *, package: str, file: str, sql: str) -> bool:
    fingerprint = sha256_hex(sql.encode())
    # Looked up before locking: opening an up-to-date home must not wait for whoever is writing in it.
    recorded = _recorded(db, package, file)
    if recorded is None:
        with db.transaction():
            # Recorded before it is applied: a second process waits here for the first, and then has nothing to do.
            if db.one(_QUERIES.record, package=package, file=file, sha256=fingerprint) is not None:
                db.script(sql)
                return True
        recorded = _recorded(db, package, file)
    if recorded != fingerprint:
        where = f"migration {package}/{file}"
        raise Damaged(f"{where} was changed after it was applied; install the version that made this home")
    return False


def _recorded(db: Database, package: str, file: str) -> str | None:
    row = db.one(_QUERIES.recorded, package=package, file=file)
    return row[0] if row else None
