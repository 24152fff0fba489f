"""Commands run in the test's process, on a façade that answers what the test says or on a small demo home."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tapebook.api
from tapebook.api import app
from tapebook.surfaces.cli import horizons, main, output

Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """`run("trades", "btc-5m")` gives the exit code, stdout and stderr."""

    def run_command(*words: str) -> Ran:
        code = main(words)
        out, err = capfd.readouterr()
        return code, out, err

    return run_command


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands print as on a terminal of 80 columns, or as many as COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output, "is_screen", lambda: True)
    monkeypatch.setattr(horizons, "is_screen", lambda: True)


@pytest.fixture
def facade(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A façade without methods: a test adds those its command calls. `asked` is the home that was opened."""
    book = SimpleNamespace(asked=None, close=lambda: None)

    def open_home(home: Path) -> SimpleNamespace:
        book.asked = home
        return book

    book.module = SimpleNamespace(open=open_home)
    monkeypatch.setitem(sys.modules, "tapebook.api.app", book.module)
    monkeypatch.setattr(tapebook.api, "app", book.module)
    return book


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home as `tapebook init` leaves it; only to be copied."""
    folder = tmp_path_factory.mktemp("init") / "home"
    app.init(folder)
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> str:
    """A new home for one test."""
    return str(shutil.copytree(made, tmp_path / "home"))


@pytest.fixture(scope="session")
def home(demo_hour: Path) -> str:
    """A home with an hour of a demo in it; tests only read it."""
    return str(demo_hour)


@pytest.fixture
def demo(home: str, tmp_path: Path) -> str:
    """A copy of that home, for one test to change."""
    return str(shutil.copytree(home, tmp_path / "home"))
