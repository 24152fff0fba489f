"""A place becomes a database."""

import sys
from contextlib import closing
from pathlib import Path

import pytest

from tapebook.db import connect
from tapebook.errors import HomeError


def test_path_opens_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a b?c%20d#ü.db"
    with closing(connect(str(path))) as db:
        assert db.description.startswith("SQLite 3.") and str(path) in db.description
    assert path.exists()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_url_opens_postgres(empty_postgres: str, scheme: str) -> None:
    with closing(connect(empty_postgres.replace("postgresql", scheme, 1))) as db:
        assert db.description.startswith("PostgreSQL ")


def test_missing_driver_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tapebook.db.postgres", None)
    with pytest.raises(HomeError, match=r"pip install 'tapebook\[postgres\]'"):
        connect("postgresql://localhost/none")
