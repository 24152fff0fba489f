"""The tape: frames of a thousand symbols in, one symbol out, and the size of a full hot store.

Frames go the way they go live: text of the socket, decoder, session, outbox, intake, commit.
Floors, measured in the same run: raw apsw inserting values keyed by time (nothing writes faster),
and hand-written reads of tables keyed by symbol (nothing reads faster). Time is that of the processor.
"""

import gc
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import msgspec

from bench.figure import Figure, cpu_seconds, median_us
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, Mid, Observation
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.ingest.ingester import FactBuffer
from tapebook.sources.hyperliquid.rest import RestRequest
from tapebook.sources.hyperliquid.session import HyperliquidSession
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.wire import CandleRow, read_frame
from tapebook.tape.bars import roll_up
from tapebook.tape.families import CANDLES
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View

SYMBOLS = [f"S{number:04d}" for number in range(1_000)]
SEED_SYMBOLS = 600
T0 = 1_767_571_200_000
PRAGMAS = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=10000; PRAGMA cache_size=-65536
"""
MID_TABLE = "CREATE TABLE m (ts INT, s INT, p INT, known INT, seq INT, PRIMARY KEY (ts, s)) WITHOUT ROWID"
BARS = "ts INT, s INT, o INT, h INT, l INT, c INT, vb REAL, vq REAL, n INT, known INT, seq INT"


def run() -> list[Figure]:
    """All figures of the tape."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return [*_writing(place), *_size_and_reading(place)]


def _writing(place: Path) -> list[Figure]:
    chance = random.Random(1)
    mids = [[_mids_frame(chance)] for _ in range(120)]
    # The bars of a minute become final when those of the next one arrive.
    bars = [[_candle_frame(chance, symbol, number) for symbol in SYMBOLS] for number in range(61)]
    frames, minutes = len(mids), len(bars) - 1
    of_mids = _in_turn(
        lambda: _write(place, mids, step=5_000), lambda: _floor_mids(place, frames), lambda: _decode(mids)
    )
    of_bars = _in_turn(
        lambda: _write(place, bars, step=MINUTE),
        lambda: _floor_bars(place, minutes),
        lambda: _decode(bars[1:]),
        lambda: _bound_bars(place, bars[1:]),
    )
    figures = [*_figures("mids", frames, of_mids), *_figures("candles", minutes, of_bars)]
    figures.append(_ratio("candles: bare decode and ready rows, the bound", minutes, of_bars[3], of_bars[1]))
    # Live: a frame of mids each 5 s, a bar of every symbol each minute.
    load = median(of_mids[0]) / frames / 5 + median(of_bars[0]) / minutes / 60
    return [*figures, Figure("share of one core for the live cadence", 100 * load, "%")]


def _in_turn(*works: Callable[[], float]) -> list[list[float]]:
    """The times of each of several works, done in turn, so that a busy machine slows all of them alike."""
    rounds = []
    for _ in range(9):
        gc.collect()
        rounds.append([work() for work in works])
    return [list(times) for times in zip(*rounds, strict=True)]


def _figures(name: str, frames: int, times: list[list[float]]) -> list[Figure]:
    ours, floor, decoding = times[:3]
    ratio = _ratio(f"{name}: decode and write, 1,000 symbols", frames, ours, floor, aim="≥ 0.6")
    return [ratio, Figure(f"{name}: share of that for decoding", 100 * median(decoding) / median(ours), "%")]


def _ratio(name: str, frames: int, ours: list[float], floor: list[float], *, aim: str = "") -> Figure:
    """Rows a second against the floor; the ratio is the median of those of the single rounds."""
    rows = frames * len(SYMBOLS)
    ratio = median(least / took for took, least in zip(ours, floor, strict=True))
    return Figure(name, rows / median(ours), "rows/s", rows / median(floor), ratio, aim)


def _decode(steps: list[list[str]]) -> float:
    """Seconds to read the frames and do nothing with them."""

    def decode() -> None:
        for texts in steps:
            for text in texts:
                read_frame(text)

    return cpu_seconds(decode)


def _size_and_reading(place: Path) -> list[Figure]:
    tape = _tape(place / "full.db")
    rows = _fill(tape)
    size = _pages(place / "full.db") / 1e6
    floor = _symbol_first(place, tape)
    # In turn, so that a busy machine slows both alike.
    pairs = [
        (median_us(lambda: _read(tape, "S0300"), timed=cpu_seconds), median_us(floor, timed=cpu_seconds))
        for _ in range(5)
    ]
    ours, least = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    return [
        Figure(f"size of {rows:,} price rows", size, "MB", aim="≤ 100"),
        Figure("read 100 five-minute bars and all features", ours, "µs", least, least / ours, "≥ 0.5"),
    ]


def _pages(path: Path) -> int:
    """Bytes of the pages that hold prices."""
    sql = "SELECT SUM(pgsize) FROM dbstat WHERE name IN ('hyperliquid_mid_prices', 'hyperliquid_candles')"
    row = apsw.Connection(str(path)).execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def _tape(path: Path) -> Tape:
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    db = connect(str(path), durable=False)
    migrate(db, (MIGRATIONS,))
    tape = Tape(db, clock=VirtualClock(T0))
    # Symbols get their numbers once in the life of a tape; that is not what is measured.
    tape.commit([Mid(symbol, T0 - DAY, 1) for symbol in SYMBOLS])
    return tape


def _price(chance: random.Random, place: int) -> str:
    """Five significant figures, as the exchange quotes; from fractions of a cent to a hundred thousand dollars."""
    return f"{10 ** (place % 8 - 3) * chance.uniform(1, 10):.5g}"


def _mids_frame(chance: random.Random) -> str:
    pairs = ",".join(f'"{symbol}":"{_price(chance, place)}"' for place, symbol in enumerate(SYMBOLS))
    return f'{{"channel":"allMids","data":{{"mids":{{{pairs}}}}}}}'


def _candle_frame(chance: random.Random, symbol: str, number: int) -> str:
    t = T0 + number * MINUTE
    o, c, h, l = (_price(chance, int(symbol[1:])) for _ in range(4))  # noqa: E741
    body = f'"t":{t},"T":{t + 59_999},"s":"{symbol}","i":"1m","o":"{o}","c":"{c}","h":"{h}","l":"{l}"'
    volume, trades = chance.uniform(0, 1_000), chance.randrange(1, 2_000)
    return f'{{"channel":"candle","data":{{{body},"v":"{volume:.2f}","n":{trades}}}}}'


def _write(place: Path, steps: list[list[str]], *, step: int) -> float:
    """Seconds to take the frames, a commit each step, on a tape that knows the symbols."""
    tape, intake = _tape(place / "live.db"), FactBuffer()
    session = HyperliquidSession(HyperliquidSourceSettings(spot=False), resume={}, at=T0)
    names = {"universe": [{"name": symbol, "szDecimals": 2, "maxLeverage": 10} for symbol in SYMBOLS]}
    assert session.learn_names(RestRequest("names", "", 0), json.dumps(names).encode(), at=T0)
    # What the registry holds of a thousand markets is written once, like their numbers.
    session.outbox.flush(intake)
    tape.commit(intake.drain_pending().facts)

    def write() -> None:
        for number, texts in enumerate(steps):
            for text in texts:
                session.handle_frame(read_frame(text), T0 + number * step)
                session.outbox.flush(intake)
            waiting = intake.drain_pending()
            tape.commit(waiting.facts, gaps=waiting.gaps)

    before = tape.rows_written()
    took = cpu_seconds(write)
    # The bars of the last minute are not final yet.
    final = len(steps) if len(steps[0]) == 1 else len(steps) - 1
    assert tape.rows_written() - before == final * len(SYMBOLS)
    return took


class _BareCandle(msgspec.Struct):
    data: CandleRow


def _bound_bars(place: Path, minutes: list[list[str]]) -> float:
    """Seconds to decode the frames and do nothing with them, and to insert ready rows into the tape's own table."""
    path = place / "bound.db"
    _tape(path)
    db = connect(str(path), durable=False)
    decode = msgspec.json.Decoder(_BareCandle).decode
    row = (10_010_000_000, 10_090_000_000, 9_980_000_000, 10_040_000_000, 12.5, 1_255.0, 33)

    def batch(number: int) -> list[tuple[Any, ...]]:
        at = T0 + number * MINUTE
        return [(CANDLES.chunk(at, 60), s, 60, at, *row, 0, T0, number) for s in range(len(SYMBOLS))]

    batches = [batch(number) for number in range(len(minutes))]

    def write() -> None:
        for texts, rows in zip(minutes, batches, strict=True):
            for text in texts:
                decode(text)
            with db.transaction():
                db.many(CANDLES.queries.add, rows)

    return cpu_seconds(write)


def _floor_mids(place: Path, frames: int) -> float:
    rows = [[(T0 + n * 5_000, s, 10_000_000_000 + s, T0, n) for s in range(len(SYMBOLS))] for n in range(frames)]
    return _insert(place / "floor.db", MID_TABLE, "INSERT INTO m VALUES (?,?,?,?,?)", rows)


def _floor_bars(place: Path, minutes: int) -> float:
    row = (10_010_000_000, 10_090_000_000, 9_980_000_000, 10_040_000_000, 12.5, 1_255.0, 33)
    rows = [[(T0 + n * MINUTE, s, *row, T0, n) for s in range(len(SYMBOLS))] for n in range(minutes)]
    table = f"CREATE TABLE m ({BARS}, PRIMARY KEY (ts, s)) WITHOUT ROWID"
    return _insert(place / "floor.db", table, "INSERT INTO m VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)


def _insert(path: Path, table: str, statement: str, batches: list[list[tuple[Any, ...]]]) -> float:
    """Seconds to insert ready values, a transaction a batch."""
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    connection = apsw.Connection(str(path))
    connection.execute(PRAGMAS).fetchall()
    connection.execute(table).fetchall()

    def insert() -> None:
        for batch in batches:
            with connection:
                connection.executemany(statement, batch)

    return cpu_seconds(insert)


def _fill(tape: Tape) -> int:
    """The hot store the plan of market memory counts: 5 s for 30 min, 1 m for 24 h, 1 h for 7 d, of 600 symbols."""
    symbols, end = SYMBOLS[:SEED_SYMBOLS], T0 + 7 * DAY
    for at in range(end - 30 * MINUTE, end, 5_000):
        tape.commit([Mid(symbol, at, 10_000_000_000 + at % 977) for symbol in symbols])
    for at in range(end - DAY, end, MINUTE):
        tape.commit([_bar(symbol, at, 60) for symbol in symbols])
    for at in range(T0, end, HOUR):
        tape.commit([_bar(symbol, at, 3_600) for symbol in symbols])
    rows = tape.rows_written()
    for at in range(end - DAY, end, 5 * MINUTE):
        tape.commit([fact for symbol in symbols[290:310] for fact in _features(symbol, at)])
    return rows


def _bar(symbol: str, at: int, granularity_sec: int) -> Candle:
    price = 6_500_000_000_000 + at % 9_973 * 1_000_000
    return Candle(symbol, granularity_sec, at, price, price + 10**9, price - 10**9, price + 10**8, 12.5, 812_345.5, 33)


def _features(symbol: str, at: int) -> list[Observation]:
    rows: list[Observation] = [FeatureRow(symbol, at, '{"regime":"normal"}' * 8, name) for name in _FAMILIES]
    rows.append(Liquidity(symbol, at, 10**10, 1.2, 1e6, 4e6, 9e6, 0.1))
    return [*rows, AssetContext(symbol, at, 12_500_000, 0, 1e5, 10**10, 10**10)]


_FAMILIES = ("volatility", "pressure", "positioning")


def _read(tape: Tape, symbol: str) -> None:
    view = View(T0 + 7 * DAY)
    bars = roll_up(
        tape.candles(symbol, granularity_sec=60, since=view.as_of - 500 * MINUTE, view=view), granularity_sec=300
    )
    assert len(bars) == 100
    for family in _FAMILIES:
        assert tape.newest(family, symbol, view=view) is not None
    assert tape.newest(Liquidity, symbol, view=view) and tape.newest(AssetContext, symbol, view=view)
    assert tape.newest(Mid, symbol, view=view)


def _symbol_first(place: Path, tape: Tape) -> Callable[[], object]:
    """The same rows keyed by symbol, and the reads somebody would write by hand for them."""
    connection = apsw.Connection(str(place / "hand.db"))
    connection.execute(PRAGMAS).fetchall()
    connection.execute(f"CREATE TABLE b ({BARS}, PRIMARY KEY (s, ts)) WITHOUT ROWID").fetchall()
    connection.execute("CREATE TABLE f (k INT, s INT, ts INT, j TEXT, PRIMARY KEY (k, s, ts)) WITHOUT ROWID").fetchall()
    end, row = T0 + 7 * DAY, (10**12, 10**12, 10**12, 10**12, 12.5, 812_345.5, 33)
    with connection:
        for symbol in range(SEED_SYMBOLS):
            bars = [(at, symbol, *row, at, 1) for at in range(end - DAY, end, MINUTE)]
            connection.executemany("INSERT INTO b VALUES (?,?,?,?,?,?,?,?,?,?,?)", bars)
        for kind in range(6):
            times = range(end - DAY, end, 5 * MINUTE)
            facts = [(kind, symbol, at, "x" * 150) for symbol in range(290, 310) for at in times]
            connection.executemany("INSERT INTO f VALUES (?,?,?,?)", facts)

    def read() -> None:
        found = connection.execute(
            "SELECT ts, o, h, l, c, vb, vq, n FROM b WHERE s = ? AND ts >= ? AND ts < ? AND seq <= ? AND known <= ?",
            (300, end - 500 * MINUTE, end, 10**12, end),
        ).fetchall()
        minutes = [Candle("S0300", 60, *row) for row in found]  # type: ignore[arg-type]
        assert len(roll_up(minutes, granularity_sec=300)) == 100
        for kind in range(6):
            newest = "SELECT j FROM f WHERE k = ? AND s = 300 AND ts <= ? ORDER BY ts DESC LIMIT 1"
            assert connection.execute(newest, (kind, end)).fetchone()

    return read
