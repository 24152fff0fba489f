"""Databases with the tables of layers, of both kinds."""

import pytest

from tapebook.db import Database, connect, migrate
from tapebook.horizons.store import MIGRATIONS
from tapebook.log.store import MIGRATIONS as LOG


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Database:
    """An empty database of each kind."""
    made = connect(":memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    request.addfinalizer(made.close)
    migrate(made, (LOG, MIGRATIONS))
    return made
