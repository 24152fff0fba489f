"""How much a decision adds to the book: seed 000 allows 0.5 to 3 KB, for an ensemble with all its votes as well."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

import tapebook
from tapebook.book import events as ev
from tapebook.clock import VirtualClock
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.market import Candle
from tapebook.domain.run import Action, DecisionRun, Usage
from tapebook.domain.units import MINUTE, parse_instant
from tapebook.history.importer import assumed_known_at
from tapebook.tick.decide import Slot
from tapebook.tick.story import deploy_agent, tick
from tapebook.wiring import Rooms

START = parse_instant("2026-01-05T00:00:00Z")
AGENT = "demo-ensemble"
FIRST, FEW, MANY = 120, 140, 240
LIMIT = 3_000


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rooms]:
    """A home with the agent of `tapebook init`, and a day of prices that trend, then turn."""
    home = tmp_path_factory.mktemp("size") / "home"
    tapebook.init(home)
    chance, price, bars = random.Random(5), 60_000.0, []
    for number in range(40 + MANY):
        opened, price = price, price * (1 + (0.0006 if number % 90 < 45 else -0.0006) + chance.gauss(0, 0.0008))
        high, low = max(opened, price) * 1.0003, min(opened, price) * 0.9997
        first, top, bottom, last = (round(each * 1e8) for each in (opened, high, low, price))
        bars.append(Candle("BTC", 300, START + number * 5 * MINUTE, first, top, bottom, last, 12.5, 8e5, 33))
    with closing(Rooms(home, clock=VirtualClock(START))) as rooms:
        rooms.tape.commit(bars, assumed=assumed_known_at)
        yield rooms


def decide(rooms: Rooms, numbers: range) -> list[DecisionRun]:
    """Decisions in a row, one every five minutes, each committed by itself as live."""
    runs = []
    for number in numbers:
        at = START + (40 + number) * 5 * MINUTE
        clock = rooms.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(at + 2_500)
        runs.append(tick(rooms, Slot(deploy_agent(rooms.book, rooms.clock, AGENT), "BTC", at, trigger="schedule")))
    return runs


def book_bytes(home: Path) -> int:
    """All pages of the book, after a checkpoint and without a VACUUM."""
    db = apsw.Connection(str(home / "book.db"))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    return (home / "book.db").stat().st_size


def test_a_decision_of_an_ensemble_adds_at_most_three_kilobytes(desk: Rooms) -> None:
    decide(desk, range(FIRST, FEW))
    before = book_bytes(desk.home)
    runs = decide(desk, range(FEW, MANY))
    added = (book_bytes(desk.home) - before) / len(runs)
    assert all(len(run.votes) == 4 and run.packet_key and run.reply_key for run in runs)
    # Some of them traded: orders, fills, postings and trades are counted as well.
    assert any(run.status == "placed" for run in runs)
    assert added <= LIMIT, f"{added:,.0f} bytes per decision"


def test_what_is_stored_once_is_read_whole(desk: Rooms) -> None:
    (run,) = decide(desk, range(MANY, MANY + 1))
    assert desk.book.run(run.run_id) == run


def test_models_that_say_all_they_may_stay_within_it_too(desk: Rooms) -> None:
    """Four members, an action and a note, each as long as it may be, in words as common as those of a language."""
    chance = random.Random(7)
    letters, often = "etaoinshrdlucmfwypvbgk", range(22, 0, -1)
    words = ["".join(chance.choices(letters, weights=often, k=2 + place % 8)) for place in range(800)]
    common = [1 / place for place in range(1, 801)]

    def said(most: int) -> str:
        return " ".join(chance.choices(words, weights=common, k=most))[:most]

    (spoken,) = decide(desk, range(MANY + 1, MANY + 2))
    deployment, sizes = f"{AGENT}.paper", []
    for number in range(200):
        votes = tuple(replace(vote, reason=said(240)) for vote in spoken.votes)
        action = Action("hold", "BTC", None, 0, 1, "market", None, 5_000, said(240))
        usage = Usage("claude-sonnet-5-5", 9_000 + number, 300, 31_000, 4)
        ids = {"run_id": f"{number:020x}", "packet_sha256": sha256_hex(b"%d" % number), "inputs_sha256": "0" * 64}
        run = replace(spoken, actions=(action,), votes=votes, note=said(500), usage=usage, status="held", **ids)
        seq = desk.book.head(deployment)
        desk.book.append(deployment, [ev.draft_event(run.as_of, ev.RunDecided(run))], expected_seq=seq)
        if number % 100 == 99:
            sizes.append(book_bytes(desk.home))
    added = (sizes[1] - sizes[0]) / 100
    assert added <= LIMIT, f"{added:,.0f} bytes per decision"
