"""A year of five-minute bars: ticks per second with full memory, with memory off, and of a bare loop over the same.

The agent is the one `tapebook init` provides, an ensemble of the rule engines. The bare loop keeps two moving averages,
goes long or short by them and commits a ledger row per bar to SQLite: no packet, no guard, no memory. All three are run
in turn, several times, and the best of each counts: whoever else uses the machine only ever adds to the time. The
slowest is told as well. With its memory the ensemble holds a position at nearly every tick, without it at a third of
them, and following one takes time of its own, whoever decided to hold it. So memory is also compared with a run without
it that makes the same decisions: its members vote as ever, and what comes of it is what the run with memory had
decided. What a part of a tick takes is measured in a run of its own, for the clock around each part costs time too.
"""

import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import msgspec

import tapebook
from bench.figure import Figure, cpu_seconds
from tapebook.backtest import run as lab
from tapebook.backtest.home import BacktestHome
from tapebook.backtest.plan import MemoryMode
from tapebook.backtest.planning import BacktestRequest, make_plan
from tapebook.clock import SystemClock
from tapebook.decision import EngineAnswer
from tapebook.decision.engines.ensemble import EnsembleEngine
from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.packet import Packet
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, parse_instant
from tapebook.gc_pause import gc_paused
from tapebook.history.importer import assumed_known_at
from tapebook.log.single_writer import SingleWriterLog
from tapebook.tick import story
from tapebook.tick.learn import learn_what_is_due
from tapebook.wiring import Rooms

START = parse_instant("2023-01-01T00:00:00Z")
AGENT = "demo-ensemble"
YEAR, MONTH = 365, 30
MODEL_SECONDS = 1.0
TURNS = 3


def run() -> list[Figure]:
    """All figures of backtests."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        bars = fill(home)
        ledger = Path(folder) / "ledger.db"
        turns = [(_bare(bars, ledger), _pace(home, "on"), _pace(home, "off")) for _ in range(TURNS)]
        decided: dict[int, EngineAnswer] = {}
        with _noting_answers(decided):
            _pace(home, "on")
        with _giving_answers(decided):
            alike = _pace(home, "off")
        parts = _parts(home)
    floors, paces, paces_off = zip(*turns, strict=True)
    floor, made = max(floors), min(paces, key=lambda pace: pace.measuring)
    on, off = max(pace.ticks_per_second for pace in paces), max(pace.ticks_per_second for pace in paces_off)
    slowest = min(pace.ticks_per_second for pace in paces)
    with_model = 1 / (MODEL_SECONDS + 1 / on)
    assert alike.trades == made.trades
    return [
        Figure("backtest of a year, bare loop with a SQLite ledger", floor, "ticks/s"),
        Figure("backtest of a year, full memory", on, "ticks/s", floor, on / floor, "≥ 2,000, better 10,000"),
        Figure(f"the same, slowest of {TURNS} runs", slowest, "ticks/s", min(floors), slowest / min(floors)),
        Figure("backtest of a year, memory off", off, "ticks/s", floor, off / floor),
        Figure("memory on against off, time of a tick", off / on, "times", aim="≤ 2"),
        Figure("memory on against off, the same decisions", alike.ticks_per_second / on, "times", aim="≤ 2"),
        Figure("memory on against off, with a model of 1 s", (1 / with_model) / (MODEL_SECONDS + 1 / off), "times"),
        Figure("closed trades in the year", made.trades, "trades"),
        Figure("book of the year", made.megabytes, "MB"),
        Figure("measuring the year: results, attribution, baselines", made.measuring, "s"),
        *(Figure(f"part of a tick: {name}", value, "µs") for name, value in parts.items()),
    ]


def fill(home: Path) -> list[Candle]:
    """A new home with a year of bars that trend for a while, then go nowhere for a while."""
    tapebook.init(home)
    chance, price, drift = random.Random(11), 20_000.0, 0.0
    bars = []
    for number in range(YEAR * 288):
        if number % 288 == 0:
            drift = chance.choice((-0.00015, 0.0, 0.0, 0.00015))
        opened, price = price, price * (1 + drift + chance.gauss(0, 0.0012))
        high, low = max(opened, price) * (1 + chance.random() / 900), min(opened, price) * (1 - chance.random() / 900)
        first, top, bottom, last = (round(each * E8) for each in (opened, high, low, price))
        at, volume = START + number * 5 * MINUTE, 10 + chance.random()
        bars.append(Candle("BTC", 300, at, first, top, bottom, last, volume, 200_000.0, 5))
    rates = [FundingRate("BTC", at, 10_000_000, 0) for at in range(START, START + YEAR * DAY, 8 * HOUR)]
    rooms = Rooms(home, clock=SystemClock())
    rooms.tape.commit([*bars, *rates], assumed=assumed_known_at)
    rooms.close()
    return bars


def _bare(bars: list[Candle], path: Path) -> float:
    """Bars per second of a loop that only follows two averages and writes down what it has."""
    path.unlink(missing_ok=True)
    return len(bars) / cpu_seconds(lambda: _follow(bars, path))


def _follow(bars: list[Candle], path: Path) -> None:
    db = apsw.Connection(str(path))
    begin = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE ledger (at, side, price, cash)"
    db.execute(begin).fetchall()
    fast = slow = bars[0].close_e8 / E8
    side, entry, cash = 0, 0.0, 10_000.0
    for bar in bars:
        price = bar.close_e8 / E8
        fast, slow = fast + (price - fast) / 12, slow + (price - slow) / 48
        wanted = 1 if fast > slow else -1
        if wanted != side:
            cash += side * (price - entry) * 0.1 - price * 0.1 * 0.00045
            side, entry = wanted, price
        db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (bar.bucket_ts, side, price, cash))
    db.close()


class Pace(msgspec.Struct, frozen=True):
    """How a year went: ticks per second of processor time, what was made, and how long measuring it took."""

    ticks_per_second: float
    trades: int
    megabytes: float
    measuring: float


@contextmanager
def _noting_answers(decided: dict[int, EngineAnswer]) -> Iterator[None]:
    """Keeps what the ensemble answers, by the moment it is asked at."""
    decide = EnsembleEngine.decide

    def noting(engine: EnsembleEngine, packet: Packet) -> EngineAnswer:
        answer = decided[packet.as_of] = decide(engine, packet)
        return answer

    with mock.patch.object(EnsembleEngine, "decide", noting):
        yield


@contextmanager
def _giving_answers(decided: dict[int, EngineAnswer]) -> Iterator[None]:
    """Has the ensemble work as ever, and answer what it answered before."""
    decide = EnsembleEngine.decide

    def giving(engine: EnsembleEngine, packet: Packet) -> EngineAnswer:
        before = decided[packet.as_of]
        return msgspec.structs.replace(decide(engine, packet), reply=before.reply, actions=before.actions)

    with mock.patch.object(EnsembleEngine, "decide", giving):
        yield


def _pace(home: Path, memory: MemoryMode) -> Pace:
    found: list[Any] = []
    spent: dict[str, float] = defaultdict(float)

    def go() -> None:
        with tapebook.open(home) as book:
            found.append(book.backtest(AGENT, memory=memory))

    with mock.patch.object(lab.BacktestRun, "decide_slots", _clocked(lab.BacktestRun.decide_slots, spent, "ticks")):
        taken = cpu_seconds(go)
    result = found[0]
    folder = home / "backtests" / result.id
    megabytes = (folder / "book.db").stat().st_size / 1e6
    # One that is there would not be run again.
    shutil.rmtree(folder)
    return Pace(result.total.ticks / spent["ticks"], result.total.trades, megabytes, taken - spent["ticks"])


def _parts(home: Path) -> dict[str, float]:
    """Microseconds of processor time of each part of a tick, over a month behind the first five."""
    spent: dict[str, float] = defaultdict(float)
    rooms = Rooms(home, clock=SystemClock())
    found = rooms.book.agent(AGENT)
    assert found is not None
    wish = BacktestRequest(start=START, end=START + 6 * MONTH * DAY, chunks="none")
    plan = make_plan(rooms.tape, rooms.config, found[1], version=found[0], wish=wish)
    one = lab.BacktestRun(BacktestHome.prepare(home, rooms.config, plan), plan, lab.BacktestCallbacks())
    slots = one.slots_left(plan.chunks[0])
    one.decide_slots(slots[: 5 * MONTH * 288])
    with _timed(spent), gc_paused():
        whole = cpu_seconds(lambda: one.decide_slots(slots[5 * MONTH * 288 :]))
    one.close()
    rooms.close()
    ticks = MONTH * 288
    known = {name: 1e6 * value / ticks for name, value in spent.items()}
    rest = 1e6 * whole / ticks - sum(known.values())
    return {**known, "the engine, rows and commits, and the clocks": rest}


@contextmanager
def _timed(spent: dict[str, float]) -> Iterator[None]:
    """Puts a clock around the parts of a tick."""
    names = {
        "gather_situation": "gather: reading market, book and memory",
        "conclude_decision": "conclude: judging and recording",
        "execute_orders": "execute: handing orders over",
        "reconcile_account": "reconcile: fills, funding, margin, marks",
    }
    clocked = {name: _clocked(getattr(story, name), spent, words) for name, words in names.items()}
    learning = _clocked(learn_what_is_due, spent, "learn: outcomes, layers, lessons")
    writing = _clocked(SingleWriterLog.finish_waiting, spent, "finish: packets, hashes and rows, many in a row")
    with ExitStack() as patches:
        for name, work in clocked.items():
            patches.enter_context(mock.patch.object(story, name, work))
        patches.enter_context(mock.patch.object(lab, "learn_what_is_due", learning))
        patches.enter_context(mock.patch.object(SingleWriterLog, "finish_waiting", writing))
        yield
    del spent[_INSIDE]


# What clocked parts took inside of one that is under way: it is theirs.
_INSIDE = "inside"


def _clocked(work: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        found: list[Any] = []
        before, spent[_INSIDE] = spent[_INSIDE], 0.0
        taken = cpu_seconds(lambda: found.append(work(*args, **options)))
        spent[name] += taken - spent[_INSIDE]
        spent[_INSIDE] = before + taken
        return found[0]

    return timed
