"""One `Tapebook` in many threads: reads give what one thread reads, and writes take turns."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.api import app, open_home
from tapebook.api.open_home import MOST_READERS
from tapebook.domain.agent import AgentProfile
from tapebook.errors import HomeError, StoreFailed
from tapebook.home import make_home
from tests.db.places import copy_home_to_server
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres

THREADS = 40
KINDS_A_THREAD = 6
AGENTS = ("btc-5m", "alts-15m")

Read = Callable[[app.Tapebook], Any]

# Each takes other rooms, and other caches in them.
READS: dict[str, Read] = {
    "context": lambda tb: [(tb.context("btc-5m", "BTC").sha256, tb.context("alts-15m", "SOL").sha256)],
    "runs": lambda tb: [tb.runs(most=15), tb.run(tb.runs("btc-5m", most=1)[0]["run_id"])],
    "trades": lambda tb: [tb.trades(agent) for agent in AGENTS],
    "orders": lambda tb: tb.orders(most=50),
    "search": lambda tb: tb.recall.search("what to do after a loss").to_dict(),
    "market": lambda tb: [tb.market(symbol) for symbol in ("BTC", "ETH")],
    "horizons": lambda tb: tb.horizons.show("btc-5m"),
    "experience": lambda tb: [tb.experience.show(agent) for agent in AGENTS],
    "agents": lambda tb: [tb.agents(), *(tb.agent(agent) for agent in AGENTS)],
    "replay": lambda tb: tb.replay(tb.runs("alts-15m", most=1)[0]["run_id"]),
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, demo_hour: Path) -> Path:
    """A home with an hour of a demo and two documents in it."""
    parent = tmp_path_factory.mktemp("threads")
    folder, notes = parent / "home", parent / "notes"
    if request.param == "postgres":
        copy_home_to_server(demo_hour, folder, request.getfixturevalue("module_postgres"))
    else:
        shutil.copytree(demo_hour, folder)
    notes.mkdir()
    (notes / "loss.md").write_text("# After a loss\n\nWait an hour before the next trade.\n", "utf-8")
    (notes / "feed.md").write_text("# When the feed disconnects\n\nOpen nothing until it is back.\n", "utf-8")
    with app.open(folder) as tb:
        tb.recall.add(notes)
    return folder


@pytest.fixture
def book(home: Path) -> Iterator[app.Tapebook]:
    """That home, opened."""
    with app.open(home) as tb:
        yield tb


def _bytes(read: Read, tb: app.Tapebook) -> bytes:
    return msgspec.json.encode(read(tb))


def test_many_threads_read_what_one_thread_reads(book: app.Tapebook) -> None:
    alone = {name: _bytes(read, book) for name, read in READS.items()}
    assert all(len(answer) > 2 for answer in alone.values()), "an answer is empty, so it proves nothing"
    begin = threading.Barrier(THREADS)

    def read_all(number: int) -> dict[str, bytes]:
        begin.wait()
        # Every thread begins with another read, so that all kinds are under way at once.
        names = list(READS)[number % len(READS) :] + list(READS)[: number % len(READS)]
        return {name: _bytes(READS[name], book) for name in names[:KINDS_A_THREAD]}

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(read_all, range(THREADS)))
    different = {name for answer in answers for name in answer if answer[name] != alone[name]}
    assert not different and {name for answer in answers for name in answer} == set(READS)


def test_a_reader_sees_what_was_written_and_cannot_write(book: app.Tapebook) -> None:
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(book.agents).result()
        book.add_agent("late", {"watch": "ETH"})
        after = [row["name"] for row in pool.submit(book.agents).result()]
        assert after == sorted([*(row["name"] for row in before), "late"])

        def write_with_a_reader() -> None:
            with book._home.read() as rooms:
                rooms.book.save_agent(AgentProfile(name="thief", watchlist=("BTC",)), at=rooms.clock.now())

        with pytest.raises(StoreFailed):
            pool.submit(write_with_a_reader).result()
    assert "thief" not in {row["name"] for row in book.agents(removed=True)}


def test_writes_of_many_threads_take_turns(book: app.Tapebook) -> None:
    names = [f"agent-{number:02}" for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda name: book.add_agent(name, {"watch": "BTC"}), names))
        reads = list(pool.map(lambda _: book.runs(most=3), range(16)))
    assert [each.version for each in saved] == [1] * 16 and len({msgspec.json.encode(each) for each in reads}) == 1
    assert set(names) <= {row["name"] for row in book.agents()} and book.verify() == []


def test_more_threads_than_readers_wait_for_one(book: app.Tapebook) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def read(_number: int) -> None:
        nonlocal inside, most
        with book._home.read():
            with lock:
                inside += 1
                most = max(most, inside)
            # A read inside a read has the same rooms: it waits for nobody.
            assert book.agents()
            with lock:
                inside -= 1

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(read, range(3 * THREADS)))
    assert 1 <= most <= MOST_READERS


def test_a_reader_that_does_not_open_leaves_its_place(book: app.Tapebook, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise HomeError("gone")

    with ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(open_home, "Rooms", refuse)
            for _ in range(MOST_READERS + 1):
                with pytest.raises(HomeError, match="gone"):
                    pool.submit(book.agents).result(timeout=30)
        assert pool.submit(book.agents).result(timeout=30) == book.agents()


def test_a_closed_home_says_so(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    with app.open(tmp_path / "home") as tb:
        pass
    tb.close()
    for call in (tb.runs, tb.agents, lambda: tb.observe("BTC", prices=1.0), tb.now):
        with pytest.raises(HomeError, match="was closed: open it again"):
            call()
