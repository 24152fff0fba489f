"""Old decisions leave for the archive by month, and whoever asks for them does not notice."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tapebook.archive import SpooledArchive
from tapebook.clock import VirtualClock
from tapebook.desk import librarian
from tapebook.desk.librarian import Librarian, OldRunArchiver
from tapebook.domain.units import DAY, MINUTE, parse_instant
from tapebook.errors import StoreFailed
from tapebook.lab.explain import explain_run
from tapebook.lab.replay import replay_runs
from tapebook.tick.prepare import gather_situation
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply

FEBRUARY, MARCH = (parse_instant(f"2026-{month}-01T00:00:00Z") for month in ("02", "03"))
LEFT = "SELECT COUNT(*) FROM log_events WHERE kind IN ('run.decided', 'marks.observed')"


class Winter:
    """A desk that traded a little from January to March, and held most of the time."""

    def __init__(self, floor: Desk, *, told: dict[str, object] | None = None) -> None:
        self.floor, self.rooms = floor, floor.rooms
        self.agent = floor.hire()
        if told is None:
            self._live()
        self.ids = self.rooms.book.run_ids(most=100)
        self.told = self.now() if told is None else told

    def _live(self) -> None:
        floor = self.floor
        for number in range(26):
            price = 100 + number % 7
            floor.quote(BTC=price, ETH=10)
            said = {3: reply("open", "long", 500), 9: reply("close"), 12: "nonsense"}.get(number % 13, reply("hold"))
            floor.say(self.agent, said)
            floor.later(5 * MINUTE, BTC=price, ETH=10)
            floor.work(self.agent)
            floor.later(3 * DAY - 5 * MINUTE)

    def now(self) -> dict[str, object]:
        """All that is told of every decision, and the whole log."""
        events = list(self.rooms.log.events(self.rooms.book.stream(self.agent.id)))
        return {
            "runs": [self.rooms.book.run(run_id) for run_id in self.ids],
            "explained": [explain_run(self.rooms, run) for each in self.ids if (run := self.rooms.book.run(each))],
            "log": events,
            "moments": [self.rooms.book.seq_as_of(self.agent.id, event.known_at) for event in events],
            "then": [
                gather_situation(self.rooms, self.agent, "BTC", as_of=run.as_of, watermarks=run.watermarks)
                for each in self.ids[::9]
                if (run := self.rooms.book.run(each))
            ],
        }

    def rows(self) -> int:
        """How many events that may leave are still rows."""
        return int(self.rooms.book_db.all(sql(LEFT))[0][0])

    def reopened(self) -> Rooms:
        """The home as another process sees it."""
        return Rooms(self.rooms.home, clock=VirtualClock(self.floor.clock.now()))


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, dict[str, object]]:
    """A home for copies, when it ends, and what is told of it."""
    home = tmp_path_factory.mktemp("winter") / "home"
    with desk(home) as floor:
        told = Winter(floor).told
        return home, floor.clock.now(), told


@pytest.fixture
def winter(lived: tuple[Path, int, dict[str, object]], tmp_path: Path) -> Iterator[Winter]:
    home, now, told = lived
    shutil.copytree(home, tmp_path / "home")
    with desk(tmp_path / "home") as floor:
        floor.clock.advance(now)
        yield Winter(floor, told=told)


def leave(rooms: Rooms) -> int:
    """Moves all that is old enough."""
    old = OldRunArchiver(rooms.archive, rooms.log, rooms.clock, config=rooms.config)
    while old.archive_step():
        pass
    return old.left


def test_months_leave_and_every_answer_is_what_it_was(winter: Winter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librarian, "EVENTS_PER_STEP", 25)
    before = winter.rows()
    assert leave(winter.rooms) > 20
    assert winter.rows() < before / 2
    assert winter.now() == winter.told
    assert winter.floor.is_whole()
    report = replay_runs(winter.rooms, winter.ids)
    assert (report.checked, report.equal) == (len(winter.ids), len(winter.ids))
    with closing(winter.reopened()) as other:
        assert [other.book.run(run_id) for run_id in winter.ids] == winter.told["runs"]
        assert leave(other) == 0
    # A pack is of one month.
    spans = winter.rooms.book_db.all(sql("SELECT first_known_at, known_at FROM log_packs ORDER BY first_seq"))
    assert len(spans) > 2
    assert not any(first < month <= last for first, last in spans for month in (FEBRUARY, MARCH))


def test_what_placed_something_stays_and_so_does_the_month_under_way(winter: Winter) -> None:
    leave(winter.rooms)
    kept = winter.rooms.book_db.all(sql("SELECT kind, MIN(known_at) FROM log_events GROUP BY kind"))
    kinds = {"order.intended", "fill.observed", "ledger.posted", "trade.opened", "trade.closed"}
    assert kinds <= {row[0] for row in kept}
    with_orders = {order.order.run_id for order in winter.rooms.book.orders(working=False, most=100)}
    stayed = {seq for (seq,) in winter.rooms.book_db.all(sql("SELECT seq FROM log_events WHERE kind = 'run.decided'"))}
    for run_id, seq, as_of in winter.rooms.book_db.all(sql("SELECT run_id, seq, as_of FROM decision_runs")):
        assert (seq in stayed) == (run_id in with_orders or as_of >= MARCH)


def test_a_month_leaves_so_many_days_after_its_end(tmp_path: Path) -> None:
    with desk(tmp_path / "home", settings="[retention]\nruns_days = 10\n") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        floor.say(agent, reply("hold"))
        old = OldRunArchiver(floor.rooms.archive, floor.rooms.log, floor.rooms.clock, config=floor.rooms.config)
        floor.clock.advance(FEBRUARY + 10 * DAY - 1)
        assert not old.archive_step() and old.left == 0
        floor.clock.advance(FEBRUARY + 10 * DAY)
        assert old.archive_step() and not old.archive_step()
        # The decision, and what the account was worth then if it was valued.
        assert old.left >= 1 and floor.is_whole()


@pytest.mark.parametrize("lost", ["created", "not created", "changed"])
def test_nothing_leaves_before_the_archive_gave_it_back(
    winter: Winter, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    before, create = winter.rows(), SpooledArchive.create

    def fails(self: SpooledArchive, key: str, content: bytes) -> None:
        if lost == "created":
            create(self, key, content)
        if lost != "changed":
            raise StoreFailed("the disk is full")
        create(self, key, content[:-1])

    monkeypatch.setattr(SpooledArchive, "create", fails)
    monkeypatch.setattr(librarian, "elapsed_seconds", lambda: 0.0)
    role = Librarian(winter.rooms)
    role._due = 1.0
    assert not role.turn() and role.problem is not None and "old decisions stay in the book" in role.problem
    assert winter.rows() == before and winter.now() == winter.told
    monkeypatch.undo()
    if lost != "changed":
        assert leave(winter.rooms) > 20 and winter.now() == winter.told


def test_the_librarian_moves_them_a_step_at_a_time(winter: Winter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librarian, "EVENTS_PER_STEP", 10)
    role, turns = Librarian(winter.rooms), 0
    role.turn()
    while role.turn():
        turns += 1
    assert turns > 5 and "archived" in role.progress_line() and role.problem is None
    assert winter.now() == winter.told
