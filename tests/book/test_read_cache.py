"""A book that has answered for a long time says what a new one says, whoever wrote meanwhile."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tapebook.book.store import Book
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.desk.demo import VirtualDesk
from tapebook.domain.units import MINUTE
from tapebook.errors import StaleWriter
from tapebook.home import make_home
from tapebook.log import Draft, Log, ReadCache, Stream
from tapebook.wiring import PROJECTIONS
from tests.replay import desk
from tests.tape.test_retention import Killed

READS = ("account", "closed_trades", "last_run", "orders_under_way", "session", "set_back_after")


class Doubting:
    """A book beside which a new one is asked the same, and must say the same."""

    def __init__(self, warm: Book, fresh: Any) -> None:
        self._warm, self._fresh = warm, fresh
        self.asked: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._warm, name)
        if name not in READS:
            return found

        def compared(*given: Any, **terms: Any) -> Any:
            self.asked[name] = self.asked.get(name, 0) + 1
            said = found(*given, **terms)
            assert said == getattr(self._fresh(), name)(*given, **terms), (name, given, terms)
            return said

        return compared


@pytest.mark.parametrize("story", ["trends", "limits", "crash"])
def test_a_warm_book_says_what_a_new_one_says(story: desk.StoryName, tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    with desk.opened(home) as (rooms, clock):
        book = rooms.book

        def fresh() -> Book:
            return Book(
                Log(rooms.book_db, PROJECTIONS, clock=clock, fetch=rooms.archive.get), rooms.book_db, owner="local"
            )

        doubting = Doubting(book, fresh)
        rooms.book = doubting  # type: ignore[assignment, misc]
        steps = desk.steps_after(rooms.tape.head()[1], story)
        VirtualDesk(rooms, desk.deployments(rooms, story), clock).run_steps(
            steps, until=desk.START + MINUTE * 60, after_step=lambda: None
        )
        assert doubting.asked.keys() == set(READS) and doubting.asked["session"] > 25


def test_what_an_append_that_failed_seemed_to_write_is_not_kept(tmp_path: Path) -> None:
    """In the transaction its events can be read; another writer takes their numbers afterwards."""
    stream, place = Stream("o", "a"), str(tmp_path / "book.db")
    with closing(connect(place)) as db:
        migrate(db, ("tapebook.log",))
        ours, theirs = (Log(db, [], clock=VirtualClock(5)) for _ in range(2))
        cache = ReadCache(ours, {"x", "y"})

        def newest() -> str | None:
            seq = ours.head(stream).seq
            return cache.read("key", stream, seq=seq, read=lambda: _kind(ours, stream, seq))

        ours.append(stream, [Draft("z", 1, "{}")], expected_seq=0)
        assert newest() == "z"
        with pytest.raises(Killed), ours.one_transaction():
            ours.append(stream, [Draft("x", 1, "{}")], expected_seq=1)
            assert newest() == "x"
            raise Killed
        theirs.append(stream, [Draft("y", 1, "{}")], expected_seq=1)
        assert newest() == "y"
        theirs.append(stream, [Draft("z", 1, "{}"), Draft("x", 1, "{}")], expected_seq=2)
        assert newest() == "x"
        with pytest.raises(StaleWriter):
            ours.append(stream, [Draft("y", 1, "{}")], expected_seq=2)
        assert newest() == "x"


def _kind(log: Log, stream: Stream, seq: int) -> str | None:
    event = log.event(stream, seq)
    return event.kind if event else None
