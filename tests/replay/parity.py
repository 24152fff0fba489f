"""Holds a home that traded live, in virtual time, against a backtest of one of its agents over the tape it left."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from tapebook.api import app
from tapebook.backtest.home import BACKTESTS_FOLDER
from tapebook.clock import VirtualClock
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import DecisionRun
from tapebook.lab.replay import rebuild_packet
from tapebook.wiring import Rooms

# Ids are made of the trigger, which is the one thing that must differ.
_IDS = ("trade_id", "entry_run_id", "exit_run_id")
_DECIDED = ("as_of", "packet_sha256", "inputs_sha256", "tokens", "renderer", "actions", "verdicts", "degraded", "error")


class Parity(msgspec.Struct, frozen=True):
    """How many decisions and trades there were, and how many decisions waited or said that a minute is missing."""

    decisions: int
    trades: int
    waited: int
    unfinished: int


def assert_parity(home: Path, agent: str, *, start: int, end: int) -> Parity:
    """Backtests an agent over the tape of its home and compares every decision and every trade; all must be equal."""
    with app.open(home) as book:
        result = book.backtest(agent, start=start, end=end, memory="on", chunks="none", gaps=True)
    name = f"{agent}.paper"
    with _opened(home, end) as live, _opened(home / BACKTESTS_FOLDER / result.id, end) as again:
        ours, theirs = _runs(live, name, until=end), _runs(again, name, until=end)
        assert list(ours) == list(theirs)
        for slot, run in ours.items():
            other = theirs[slot]
            differ = [field for field in _DECIDED if getattr(run, field) != getattr(other, field)]
            assert not differ, f"{slot}: {differ}\n{_first_difference(live, run, again, other)}"
        last = max(run.as_of for run in theirs.values())
        trades = _trades(live, name, until=last)
        assert trades == _trades(again, name, until=last)
    waited = sum(run.as_of > run.scheduled_for for run in ours.values())
    with _opened(home, end) as live:
        missing = sum("not final yet" in rebuild_packet(live, run).text for run in ours.values())
    return Parity(len(ours), len(trades), waited, missing)


@contextmanager
def _opened(home: Path, at: int) -> Iterator[Rooms]:
    with closing(Rooms(home, clock=VirtualClock(at))) as rooms:
        yield rooms


def _runs(rooms: Rooms, deployment: str, *, until: int) -> dict[tuple[int, str], DecisionRun]:
    """Every decision of the slots before a moment, in the order of time."""
    found = (rooms.book.run(run_id) for run_id in reversed(rooms.book.run_ids(deployment, most=1_000_000)))
    runs = [run for run in found if run is not None and run.scheduled_for < until]
    return {(run.scheduled_for, run.symbol): run for run in runs}


def _trades(rooms: Rooms, deployment: str, *, until: int) -> list[dict[str, Any]]:
    """All that is kept of the trades that ended by a moment: times, prices, sizes, fees, funding, extremes, reasons."""
    closed = rooms.book.closed_trades(deployment, seq=rooms.book.head(deployment), most=1_000_000)
    return [_fields(trade) for trade in closed if trade.exit_tick_at <= until]


def _fields(trade: ClosedTrade) -> dict[str, Any]:
    known = msgspec.structs.asdict(trade.state) | msgspec.structs.asdict(trade)
    return {name: value for name, value in known.items() if name not in (*_IDS, "state")}


def _first_difference(live: Rooms, run: DecisionRun, again: Rooms, other: DecisionRun) -> str:
    """The first line in which two packets differ."""
    texts = [rebuild_packet(live, run), rebuild_packet(again, other)]
    lines = zip_longest(*(f"{packet.system}\n{packet.text}".splitlines() for packet in texts))
    ours, theirs = next(((one, two) for one, two in lines if one != two), (None, None))
    return f"live:     {ours}\nbacktest: {theirs}"
