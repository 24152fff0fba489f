"""Homes that ran undisturbed, made once for all workers; a test that writes takes a copy."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tapebook.api import app
from tests.once import made_once
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
def told(tmp_path_factory: pytest.TempPathFactory) -> Tellers:
    """`told(story)` is the home of a story after all its hours; only to be read."""
    base = tmp_path_factory.getbasetemp()

    @cache
    def tell(story: desk.StoryName) -> Path:
        return made_once(base, f"desk-{story}", lambda folder: desk.trade(folder / "home", story=story)) / "home"

    return tell


@pytest.fixture(scope="session")
def recorded(told: Tellers) -> Path:
    """The small desk's home after all its hours; only to be read."""
    return told("trends")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Servers:
    """`server(store)` is where the books of that store are: nothing for SQLite, a URL for PostgreSQL."""
    return lambda store: str(request.getfixturevalue("postgres_dsn")) if store == "PostgreSQL" else ""


@pytest.fixture
def copied(recorded: Path, place: Path) -> Path:
    """A copy of that home, to do anything with."""
    return shutil.copytree(recorded, place / "copy")


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, app.DemoReport]:
    """A demo that nobody disturbed, and its report; only to be read."""

    def make(folder: Path) -> None:
        report = app.demo(folder / "home", seconds=storm.SECONDS, seed=storm.SEED)
        (folder / "report").write_bytes(msgspec.json.encode(report))

    made = made_once(tmp_path_factory.getbasetemp(), "demo-shown", make)
    report = msgspec.json.decode((made / "report").read_bytes(), type=app.DemoReport)
    return made / "home", msgspec.structs.replace(report, home=str(made / "home"))
