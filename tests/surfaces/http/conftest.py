"""A small demo home that is served in the test's process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.surfaces.http.server import create_app


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with some minutes of a demo; only to be read or copied."""
    folder = tmp_path_factory.mktemp("http") / "home"
    app.demo(folder, seconds=0.75, seed=7)
    return folder


@pytest.fixture(scope="module")
def book(demo_home: Path) -> Iterator[app.Tapebook]:
    """That home, opened."""
    with app.open(demo_home) as tb:
        yield tb


@pytest.fixture(scope="module")
def client(book: app.Tapebook) -> Iterator[TestClient]:
    """A program that calls it."""
    with TestClient(create_app(book), base_url="http://localhost:8017") as made:
        yield made
