"""What moved in a home: by whichever process, in any thread, and nothing when nothing did."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tapebook.api import app, changes
from tapebook.api.open_home import MOST_READERS
from tapebook.domain.market import Mid
from tapebook.domain.units import E8
from tapebook.errors import BadInput
from tapebook.home import make_home
from tapebook.settings.config import FILE
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home without agents."""
    home = tmp_path_factory.mktemp("changes") / "home"
    make_home(home)
    if request.param == "postgres":
        url = request.getfixturevalue("module_postgres")
        (home / FILE).write_text(f'[store]\nbook = "{url}"\ntape = "{url}"\n', "utf-8")
    return home


@pytest.fixture
def book(folder: Path) -> Iterator[app.Tapebook]:
    """That home, opened."""
    with app.open(folder) as tb:
        yield tb


def test_what_moved_is_told_by_stream_and_kind(book: app.Tapebook, tmp_path: Path) -> None:
    before = book.heads()
    book.add_agent("feed", {"watch": "BTC"})
    book.halt("feed")
    (tmp_path / "note.md").write_text("# After a loss\n\nWait an hour.\n", "utf-8")
    book.recall.add(tmp_path)
    found = book.changes(before)
    moved = {each.stream: each for each in found.moved}
    assert moved["owner"].kinds == {"agent.saved": 1, "desk.halted": 1} and moved["owner"].agent is None
    assert moved["owner"].until - moved["owner"].after == 2 and "documents" in moved
    assert found.heads == book.heads() and book.changes(found.heads).moved == []
    # A stream that is not named counts from its beginning.
    assert {each.after for each in book.changes({}).moved} == {0}
    assert "tape" not in found.heads


def test_the_tape_counts_where_it_is_named(book: app.Tapebook) -> None:
    before = book.heads(tape=True)
    with book._home.write() as rooms:
        rooms.tape.commit([Mid("BTC", rooms.clock.now(), 100 * E8)])
    (moved,) = book.changes(before).moved
    assert (moved.stream, moved.until - moved.after, moved.kinds) == ("tape", 1, {})
    assert book.changes(book.heads()).moved == []


def test_whoever_waits_sees_what_another_process_writes(book: app.Tapebook, folder: Path) -> None:
    """More threads wait than there are readers, and all of them are told."""
    before, words = book.heads(), ["halt", "--reason", "by another process", "--home", str(folder)]
    with ThreadPoolExecutor(2 * MOST_READERS) as pool:
        waiting = [pool.submit(book.changes, before, wait_seconds=60) for _ in range(2 * MOST_READERS)]
        subprocess.run([sys.executable, "-m", "tapebook", *words], check=True, capture_output=True)
        told = [each.result(timeout=60) for each in waiting]
    assert {(moved.stream, *moved.kinds.items()) for each in told for moved in each.moved} == {
        ("owner", ("desk.halted", 1))
    }


def test_nothing_is_told_when_nothing_moved(book: app.Tapebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks a few times, and reads no event."""
    looks: list[float] = []
    monkeypatch.setattr("tapebook.api.changes.time.sleep", looks.append)
    seconds = iter([0.0, 0.1, 0.4, 0.9, 1.2])
    monkeypatch.setattr(changes, "elapsed_seconds", lambda: next(seconds))
    with book._home.read() as rooms:
        monkeypatch.setattr(rooms.log, "kinds_between", None)
        found = book.changes(book.heads(), wait_seconds=1.0)
    assert found.moved == [] and looks == pytest.approx([0.25, 0.25, 0.1])


def test_nonsense_is_refused(book: app.Tapebook) -> None:
    for seconds in (-1.0, float("inf"), float("nan")):
        with pytest.raises(BadInput, match="wait_seconds"):
            book.changes({}, wait_seconds=seconds)


def test_waiting_ends_with_the_home(folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with app.open(folder) as tb:
            before = tb.heads()
            waiting = pool.submit(tb.changes, before, wait_seconds=600)
            assert not waiting.done()
        assert waiting.result(timeout=60).moved == []
