"""Real worker processes beside each other: what is taken over is decided once, and what is shared is shared once."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.db.places import sql
from tests.desk.busy_desk import Hand, assert_once_each, await_idle, furnish, list_due, opened, settle
from tests.replay.stage import Stage

PAIRS = 180


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A place for a home with its book in each store."""
    dsn = str(request.getfixturevalue("postgres_dsn")) if request.param == "PostgreSQL" else ""
    stage = Stage(tmp_path, dsn)
    yield stage
    stage.clear()


def test_stopped_worker_is_taken_over_and_writes_nothing_when_it_wakes(stage: Stage) -> None:
    home = settle(stage, pairs=10, lease_seconds=1.0)
    sleeper = Hand(home, thinks=1.0)
    sleeper.await_question()
    sleeper.process.send_signal(signal.SIGSTOP)
    begun = as_of_by_run(home, "work")
    other = Hand(home, thinks=0.1)
    await_idle(home)
    worked = other.leave()
    before = events(home)
    # Whoever took over asked the same questions: nobody chose another moment.
    assert len(begun) == 10 and as_of_by_run(home, "decision_runs") == begun
    sleeper.process.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    woken = sleeper.leave()
    assert events(home) == before
    assert woken["words"] == "0 decisions made, 0 in flight, 10 taken over by others"
    assert worked["words"] == "10 decisions made, 0 in flight"
    assert_once_each(home, pairs=10)


def as_of_by_run(home: Path, table: str) -> dict[str, int]:
    """What each decision of a table may know."""
    with opened(home) as rooms:
        return {row[0]: row[1] for row in rooms.book_db.all(sql(f"SELECT run_id, as_of FROM {table}"))}


def events(home: Path) -> int:
    """How much is in the log."""
    with opened(home) as rooms:
        return int(rooms.book_db.all(sql("SELECT COUNT(*) FROM log_events"))[0][0])


def test_killed_worker_is_taken_over(stage: Stage) -> None:
    home = settle(stage, pairs=20, lease_seconds=1.0)
    victim = Hand(home, thinks=30)
    victim.await_question()
    victim.process.kill()
    victim.process.communicate()
    other = Hand(home)
    await_idle(home)
    assert other.leave()["words"] == "20 decisions made, 0 in flight"
    assert assert_once_each(home, pairs=20) == {"held": 20}


def test_two_workers_share_the_work(stage: Stage) -> None:
    home = furnish(stage, pairs=PAIRS, batch=3)
    # Each decision takes a moment: else one of them could be through before the other wakes.
    hands = [Hand(home, thinks=0.02), Hand(home, thinks=0.02)]
    # Both are there before there is work: on a busy machine one could have done it all while the other began.
    for hand in hands:
        hand.await_beginning()
    list_due(home, pairs=PAIRS)
    await_idle(home)
    words = [hand.leave()["words"] for hand in hands]
    made = [int(each.split()[0]) for each in words]
    assert sum(made) == PAIRS and min(made) > 0
    assert sum(assert_once_each(home, pairs=PAIRS).values()) == PAIRS
