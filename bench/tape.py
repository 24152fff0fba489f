"""The tape: frames of a thousand symbols in, one symbol out, and the size of a full hot store.

Floors, measured in the same run: raw apsw inserting the same values keyed by time (nothing writes
faster), and hand-written reads of tables keyed by symbol (nothing reads faster).
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from bench.figure import Figure, median_us, seconds
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, Mid, Observation
from tapebook.tape.rollup import roll_up
from tapebook.tape.sources.hyperliquid.wire import CandlesFrame, MidsFrame, read_frame
from tapebook.tape.store import MIGRATIONS, Tape, View

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
    frames = 120
    mids = [_mids_frame(number) for number in range(frames)]
    bars = [[_candle_frame(symbol, number) for symbol in SYMBOLS] for number in range(frames // 2)]
    figures = [
        _ratio("mids", lambda: _write_mids(place, mids), lambda: _floor_mids(place, frames), frames),
        _ratio("candles", lambda: _write_bars(place, bars), lambda: _floor_bars(place, len(bars)), len(bars)),
    ]
    # Live: a frame of mids each 5 s, a bar of every symbol each minute.
    load = len(SYMBOLS) / 5 / figures[0].value + len(SYMBOLS) / 60 / figures[1].value
    return [*figures, Figure("share of one core for the live cadence", 100 * load, "%")]


def _ratio(name: str, ours: Callable[[], float], floor: Callable[[], float], frames: int) -> Figure:
    """Rows a second of ours against the floor, the best of three each."""
    rows = frames * len(SYMBOLS)
    best, least = rows / min(ours() for _ in range(3)), rows / min(floor() for _ in range(3))
    return Figure(f"{name}: decode and write, 1,000 symbols", best, "rows/s", least, best / least, "≥ 0.6")


def _size_and_reading(place: Path) -> list[Figure]:
    tape = _tape(place / "full.db")
    rows = _fill(tape)
    size = _pages(place / "full.db") / 1e6
    floor = _symbol_first(place, tape)
    ours = median_us(lambda: _read(tape, "S0300"))
    least = median_us(floor)
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


def _mids_frame(number: int) -> str:
    pairs = ",".join(f'"{symbol}":"{100 + at % 900}.{number % 10}"' for at, symbol in enumerate(SYMBOLS))
    return f'{{"channel":"allMids","data":{{"mids":{{{pairs}}}}}}}'


def _candle_frame(symbol: str, number: int) -> str:
    t = T0 + number * MINUTE
    body = f'"t":{t},"T":{t + 59_999},"s":"{symbol}","i":"1m","o":"100.1","c":"100.4","h":"100.9","l":"99.8"'
    return f'{{"channel":"candle","data":{{{body},"v":"12.5","n":33}}}}'


def _write_mids(place: Path, frames: list[str]) -> float:
    """Seconds to decode and commit the frames on a tape that knows the symbols."""
    tape = _tape(place / "mids.db")

    def write() -> None:
        for number, text in enumerate(frames):
            frame = read_frame(text)
            assert isinstance(frame, MidsFrame)
            at = T0 + number * 5_000
            tape.commit([Mid(symbol, at, price) for symbol, price in frame.prices_e8.items()])

    return seconds(write)


def _write_bars(place: Path, minutes: list[list[str]]) -> float:
    """Seconds to decode and commit the bars on a tape that knows the symbols."""
    tape = _tape(place / "bars.db")

    def write() -> None:
        for texts in minutes:
            bars: list[Observation] = []
            for text in texts:
                frame = read_frame(text)
                assert isinstance(frame, CandlesFrame)
                bars += frame.candles
            tape.commit(bars)

    return seconds(write)


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

    return seconds(insert)


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
        assert tape.feature(family, symbol, view=view) is not None
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
