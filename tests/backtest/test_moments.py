"""Have I been here before, end to end: what the packets of backtests say of similar moments, held positions or not."""

import random
import re
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import tapebook
from tapebook.clock import SystemClock
from tapebook.domain.agent import HORIZONS
from tapebook.domain.market import Candle
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, HOUR, MINUTE, iso_text
from tapebook.experience.events import MomentNoted
from tapebook.experience.features import PRICE_FIELDS
from tapebook.lab.replay import rebuild_packet
from tapebook.wiring import Rooms
from tests.backtest.bars import START, bars, fill_tape, make_home

NAME = "tester.paper"
# A market that comes again: thirteen days, and the same ones once more.
AGAIN = 13 * DAY
NEAREST = re.compile(r"- similar nearest moment: BTC (\S+): ")


class Decided(NamedTuple):
    """A decision with the text of its packet."""

    run: DecisionRun
    text: str


def comes_again(first: list[Candle], rng: random.Random) -> list[Candle]:
    """The same bars behind themselves, from where they ended, each price moved by two basis points."""
    factor, found = first[-1].close_e8 / first[0].open_e8, []
    for bar in first:
        moved = factor * (1 + rng.gauss(0, 0.0002))
        opened, high, low, close = (round(e8 * moved) for e8 in (bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8))
        changes = {"open_e8": opened, "high_e8": high, "low_e8": low, "close_e8": close}
        found.append(msgspec.structs.replace(bar, bucket_ts=bar.bucket_ts + AGAIN, **changes))
    return found


def decisions_of(home: Path, backtest: str, *, since: int) -> list[Decided]:
    """The decisions from a moment on with their packets, which are made again: a backtest stores their hashes."""
    found = []
    with closing(Rooms(home / "backtests" / backtest, clock=SystemClock())) as rooms:
        # From the oldest on: what was learned by then is folded once.
        for run_id in reversed(rooms.book.run_ids(most=99_999)):
            run = rooms.book.run(run_id)
            if run is not None and run.as_of >= since:
                packet = rebuild_packet(rooms, run)
                assert packet.sha256 == run.packet_sha256
                found.append(Decided(run, packet.text))
    return found


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> list[Decided]:
    """All decisions of an ensemble, one an hour, on a market that comes again."""
    home = make_home(tmp_path_factory.mktemp("again"), days=0, every_minutes="60", reflection="off")
    first = list(bars("BTC", seed=3, days=13, minutes=15))
    fill_tape(home, [*first, *comes_again(first, random.Random(4))])
    with tapebook.open(home) as book:
        result = book.backtest("tester", chunks="none")
    # From the eighth day on all that a moment looks back to has come before.
    return decisions_of(home, result.id, since=START + AGAIN + 8 * DAY)


def test_a_moment_that_came_before_is_found_first(decided: list[Decided]) -> None:
    found = [match[1] if (match := NEAREST.search(each.text)) else "" for each in decided]
    # A decision is made a little after its bar; the moment is that of the half hour.
    before = [iso_text((each.run.as_of - AGAIN) // (30 * MINUTE) * 30 * MINUTE)[:16] for each in decided]
    assert len(decided) >= 100
    assert sum(map(str.__eq__, found, before)) >= 0.95 * len(decided)


def test_packets_with_a_position_have_neighbours(decided: list[Decided]) -> None:
    held = [each.text for each in decided if re.search(r"- position_side: (long|short)", each.text)]
    told = [text for text in held if re.search(r"- similar next 4 h for the (long|short) held: .* independent\)", text)]
    assert len(held) >= 50
    assert len(told) >= 0.98 * len(held)


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape of minutes for eight days, and an agent of every horizon."""
    home = make_home(tmp_path_factory.mktemp("minutes"), days=0)
    fill_tape(home, list(bars("BTC", seed=5, days=7.5, minutes=1)))
    with tapebook.open(home) as book:
        for horizon in HORIZONS:
            chosen = {"watch": "BTC", "engine": "trend", "every_minutes": "60", "reflection": "off"}
            book.add_agent(horizon, chosen | {"horizon": horizon})
    return home


@pytest.mark.parametrize("horizon", HORIZONS)
def test_every_horizon_fills_every_price_field_after_its_look_back(minutes: Path, horizon: str) -> None:
    with tapebook.open(minutes) as book:
        result = book.backtest(horizon, start=iso_text(START + 6 * DAY + 12 * HOUR), chunks="none")
    with closing(Rooms(minutes / "backtests" / result.id, clock=SystemClock())) as rooms:
        name = f"{horizon}.paper"
        notes = [each for _, each in rooms.experience.moments.noted_between(name, after=0, until=rooms.book.head(name))]
    covered = [note for note in notes if note.at >= START + 7 * DAY + HOUR]
    assert len(covered) >= 10 and len(notes) > len(covered)
    assert open_fields(covered) == set() and open_fields(notes) > set()


def open_fields(notes: list[MomentNoted]) -> set[int]:
    """The places of price fields that are open in some note."""
    return {place for note in notes for place, each in enumerate(note.vector[:PRICE_FIELDS]) if each is None}
