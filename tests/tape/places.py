"""A database with the tape's tables on both engines; a test module imports the fixture, and the two it stands on."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.db import Database, connect, migrate
from tapebook.tape.store import MIGRATIONS
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty tape."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (MIGRATIONS,))
        yield opened
