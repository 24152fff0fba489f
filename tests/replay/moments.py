"""The moments of the small desk at which most can go wrong, and what an end before each of their acts leaves."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from tapebook.api import app
from tapebook.db import connect
from tapebook.domain.units import floor_to_step
from tapebook.world.cadence import STEP
from tests.db.places import sql
from tests.replay import desk, storm
from tests.replay.faults import Fuse, stop, until_blown
from tests.replay.home_fingerprint import Remains, assert_whole
from tests.replay.stage import Stage

# Which acts of all to end before, counted from one.
Points = Callable[[list[str]], Iterable[int]]

# The first of each kind, and the story it is in, whatever its engine makes of the market.
MOMENTS: dict[str, tuple[desk.StoryName, str]] = {
    "opens": ("trends", "SELECT MIN(intended_at) FROM orders WHERE reduce_only = 0"),
    "closes": ("trends", "SELECT MIN(intended_at) FROM orders WHERE reduce_only = 1"),
    "turns": (
        "trends",
        """
        SELECT MIN(o.intended_at) FROM orders o
        JOIN trade_history ended ON ended.exit_run_id = o.run_id
        JOIN trade_history begun ON begun.entry_run_id = o.run_id
        """,
    ),
    "pays funding": ("trends", "SELECT MIN(happened_at) FROM wallet_ledger WHERE kind = 'funding'"),
    "waits": ("limits", "SELECT MIN(intended_at) FROM orders WHERE order_type = 'limit'"),
    "is filled later": (
        "limits",
        """
        SELECT MIN(e.known_at) FROM fills f
        JOIN orders o ON o.client_id = f.client_id AND o.order_type = 'limit' AND f.happened_at > o.intended_at + 60000
        JOIN log_events e ON e.deployment = f.deployment AND e.seq = f.seq
        """,
    ),
    "is liquidated": (
        "crash",
        """
        SELECT MIN(e.known_at) FROM fills f
        JOIN log_events e ON e.deployment = f.deployment AND e.seq = f.seq WHERE f.liquidation = 1
        """,
    ),
}


def moment(home: Path, kind: str) -> int:
    """When a recorded desk first does something of a kind: the step of the market at which it does."""
    with closing(connect(str(home / "book.db"), create=False)) as db:
        row = db.one(sql(MOMENTS[kind][1]))
    assert row and row[0], f"the desk never {kind}: give it another seed"
    return floor_to_step(int(row[0]), STEP)


def base_before(when: int, stage: Stage, *, story: desk.StoryName = "trends", hands: desk.Hands = "desk") -> Path:
    """The desk just before a moment. Without its archive: nobody reads it, and it is long to copy."""
    kept = stage.place.parent / "bases" / story / hands
    # What came before is kept beside the homes of all tests, and gone on with: stops on the way change nothing.
    earlier = [] if stage.dsn else sorted(path for path in kept.glob("*") if int(path.name) < when)
    base = stage.copy(earlier[-1], "base") if earlier else stage.make("base")
    desk.trade(base, until=when - 1, story=story, hands=hands)
    shutil.rmtree(base / "archive", ignore_errors=True)
    if not stage.dsn and not (kept / str(when - 1)).exists():
        shutil.copytree(base, kept / str(when - 1))
    return base


def end_everywhere(
    when: int, stage: Stage, *, points: Points, story: desk.StoryName = "trends", hands: desk.Hands = "desk"
) -> list[str]:
    """Ends the desk before acts of a moment, compares what the next run makes of each; returns all acts.

    A tick and its order are in the first step, the fill is in the second.
    """
    base = base_before(when, stage, story=story, hands=hands)

    def go_on(home: Path, fuse: Fuse) -> None:
        if not home.exists():
            stage.copy(base, home.name)
        with until_blown(fuse):
            desk.trade(home, until=when + STEP, story=story, hands=hands)

    acts = compare_ends(go_on, stage, points=points)
    stage.remove(base)
    return acts


def compare_ends(go_on: Callable[[Path, Fuse], None], stage: Stage, *, points: Points) -> list[str]:
    """Runs once undisturbed, then for each point once to its end there and once more; all must leave the same."""
    whole, home, fuse = stage.place / "whole", stage.place / "wreck", Fuse()
    go_on(whole, fuse)
    expected = Remains.of(whole)
    for point in points(fuse.acts):
        go_on(home, Fuse(point, stop))
        go_on(home, Fuse())
        expected.assert_same_in(home)
        stage.remove(home)
    assert_whole(whole)
    stage.remove(whole)
    return fuse.acts


def every(acts: list[str]) -> Iterable[int]:
    """Before every act."""
    return range(1, len(acts) + 1)


def every_other_disk(acts: list[str]) -> list[int]:
    """Before every act, except after a read (the disk is as it was) and within a list of rows (one is like another)."""
    pairs = enumerate(pairwise(["", *acts]), start=1)
    return [number for number, (before, act) in pairs if not is_read(before) and act != before]


def some(most: int) -> Points:
    """Before a few of the acts that leave another disk, evenly spread."""

    def chosen(acts: list[str]) -> list[int]:
        points = every_other_disk(acts)
        return points[:: 1 + len(points) // most]

    return chosen


def start_desk(home: Path, fuse: Fuse) -> None:
    """The desk from nothing to its first moment: settings, tables, agents, first prices, first ticks."""
    with until_blown(fuse):
        desk.trade(home, until=desk.START)


def start_demo(home: Path, fuse: Fuse) -> None:
    """The demo from nothing to its first moment, with the history it fetches through its sockets."""
    with until_blown(fuse):
        app.demo(home, seconds=0, seed=storm.SEED)


def is_read(act: str) -> bool:
    """Whether an act leaves the disk as it is."""
    return act.lstrip().startswith(("SELECT", "WITH"))
