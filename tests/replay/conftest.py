"""Homes that ran undisturbed, made once per worker; a test that writes takes a copy."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tapebook.api import app
from tests.replay import desk, storm

Tellers = Callable[[desk.StoryName], Path]
Servers = Callable[[str], str]


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """A folder for homes."""
    with tempfile.TemporaryDirectory(prefix="tapebook-") as folder:
        yield Path(folder)


@pytest.fixture
def place(workshop: Path) -> Iterator[Path]:
    """An empty folder for one test."""
    with tempfile.TemporaryDirectory(dir=workshop) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def recorded(workshop: Path) -> Path:
    """The small desk's home after all its hours; only to be read."""
    home = workshop / "desk"
    desk.trade(home)
    return home


@pytest.fixture(scope="session")
def told(recorded: Path, workshop: Path) -> Tellers:
    """`told(story)` is the home of a story after all its hours; only to be read."""
    homes: dict[desk.StoryName, Path] = {"trends": recorded}

    def tell(story: desk.StoryName) -> Path:
        if story not in homes:
            homes[story] = workshop / story
            desk.trade(homes[story], story=story)
        return homes[story]

    return tell


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Servers:
    """`server(store)` is where the books of that store are: nothing for SQLite, a URL for PostgreSQL."""
    return lambda store: str(request.getfixturevalue("postgres_dsn")) if store == "PostgreSQL" else ""


@pytest.fixture
def copied(recorded: Path, place: Path) -> Path:
    """A copy of that home, to do anything with."""
    return shutil.copytree(recorded, place / "copy")


@pytest.fixture(scope="session")
def shown(workshop: Path) -> tuple[Path, app.DemoReport]:
    """A demo that nobody disturbed, and its report; only to be read."""
    home = workshop / "demo"
    report = app.demo(home, seconds=storm.SECONDS, seed=storm.SEED)
    return home, report
