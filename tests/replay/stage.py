"""Where homes are made, copied and cleared away: in a folder, with the book in it or in a PostgreSQL database.

A copy of a home with its book on a server is a copy of the folder and of the database.
"""

import os
import re
import secrets
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tapebook.settings.config import FILE, TEMPLATE, load_config


class Stage:
    """A folder for homes; with `dsn`, their books are databases of that server."""

    def __init__(self, place: Path, dsn: str = "") -> None:
        self.place = place
        # Where all tests run on a server, homes that are copied have their books there too: a database has a copy.
        self.dsn = dsn or os.environ.get("TAPEBOOK_STORE", "")

    def make(self, name: str) -> Path:
        """A new home without anything in it."""
        home = self.place / name
        home.mkdir(parents=True)
        (home / FILE).write_text(TEMPLATE, "utf-8")
        if self.dsn:
            self._admin(f'CREATE DATABASE "{self._point_at_database(home)}"')
        return home

    def copy(self, base: Path, name: str) -> Path:
        """A home that holds what another holds."""
        home = shutil.copytree(base, self.place / name)
        if self.dsn:
            source = _database(base)
            self._admin(f'CREATE DATABASE "{self._point_at_database(home)}" TEMPLATE "{source}" STRATEGY FILE_COPY')
        return home

    def remove(self, home: Path) -> None:
        """Clears a home away."""
        # One that was not made here has its book where its own settings say.
        if self.dsn and "://" in load_config(home, {}).store.book:
            self._admin(f'DROP DATABASE "{_database(home)}" WITH (FORCE)')
        shutil.rmtree(home)

    def clear(self) -> None:
        """Clears all homes away."""
        for home in sorted(self.place.iterdir()):
            if (home / FILE).exists():
                self.remove(home)

    def _point_at_database(self, home: Path) -> str:
        name = f"tapebook_{secrets.token_hex(8)}"
        url = urlsplit(self.dsn)._replace(path=f"/{name}").geturl()
        text = (home / FILE).read_text("utf-8")
        (home / FILE).write_text(re.sub(r'^book = ".*"', f'book = "{url}"', text, flags=re.MULTILINE), "utf-8")
        return name

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(statement.encode())


def _database(home: Path) -> str:
    return urlsplit(load_config(home, {}).store.book).path.lstrip("/")
