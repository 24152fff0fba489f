"""The context of assets against reads written by hand, and what 2,000 prediction markets cost those who read prices.

Fifty assets have a day of rows of three sources on the tape. The floor has the same rows in tables keyed by subject,
and reads and decodes what a context is made of; it shapes nothing. Times are of the processor, in turn.
Two more homes take a day of minutes, hour by hour; one of them has a crawl of 2,000 prediction markets with each.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import apsw
import msgspec
from msgspec.structs import astuple

import tapebook
from bench.figure import Figure, cpu_seconds, median_us
from tapebook.clock import VirtualClock
from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import (
    AssetContext,
    Candle,
    FeatureRow,
    Liquidity,
    Mid,
    Observation,
    RegistryRecord,
    SubjectKind,
)
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, iso_text
from tapebook.home import make_home
from tapebook.ingest.compaction import COMPACTION_DELAY_MS, Compaction
from tapebook.ingest.ingester import FactBuffer, FeatureDeriver
from tapebook.sources.polymarket.crawl import CrawlSettings, PolymarketCrawl
from tapebook.tape.features import liquidity_profile
from tapebook.tape.registry import (
    ASSET_SUBJECTS,
    GLOBAL_SUBJECT,
    MACRO_CHANNELS,
    PREDICTION_CHANNELS,
    PREDICTION_SUBJECTS,
)
from tapebook.wiring import Rooms

T0 = 1_767_571_200_000
END = T0 + DAY
ASSETS = [f"A{number:02d}" for number in range(50)]
SOURCES = ("hyperliquid", "polymarket", "defillama")
MARKETS = 2_000
PRICED = 20
ROUNDS = 7
_FEATURES = ("volatility", "pressure", "positioning")


def run() -> list[Figure]:
    """All figures of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return [*_context_figures(place), *_burden_figures(place)]


def _context_figures(place: Path) -> list[Figure]:
    hours = [_hour_of_rows(hour) for hour in range(T0, END, HOUR)]
    _fill_home(place / "home", hours)
    read = _hand_written(place / "hand.db", hours)
    with tapebook.open(place / "home", clock=VirtualClock(END)) as book:
        return [_context_figure(book, read, assets) for assets in (ASSETS[:1], ASSETS)]


def _context_figure(book: tapebook.Tapebook, read: "HandRead", assets: list[str]) -> Figure:
    _require_same_rows(book.market_context(assets), read)
    ours, least = _quietest(
        lambda: book.market_context(assets), lambda: [read(symbol) for symbol in assets], times=200 // len(assets)
    )
    return Figure(f"context of {plural(len(assets), 'asset')}", ours, "µs", least, least / ours)


def _require_same_rows(context: Mapping[str, Any], read: "HandRead") -> None:
    """Both sides tell the same figures, and no block is empty."""
    for symbol, found in context.items():
        hand = read(symbol)
        assert all(block and not block["stale"] for block in found.values()), "every block has rows"
        assert found["midPrice"]["price"] == hand.price and found["volatility"]["figure"] == hand.figure
        assert [row["subject"] for row in found["macro"]["rows"]] == hand.subjects
        assert len(found["predictionMarkets"]["immediate"]["top"]) == hand.shown


def _quietest(ours: Callable[[], object], floor: Callable[[], object], *, times: int) -> tuple[float, float]:
    """The times of both in microseconds, in turn, so that a busy machine slows both alike: of each the quietest."""
    pairs = [
        (median_us(ours, times=times, timed=cpu_seconds), median_us(floor, times=times, timed=cpu_seconds))
        for _ in range(ROUNDS)
    ]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def _hour_of_rows(hour: int) -> list[Observation]:
    """What one hour brings of every asset: books and features each five minutes, summaries and capital once."""
    found: list[Observation] = []
    for number, symbol in enumerate(ASSETS):
        found += [Mid(symbol, hour + 59 * MINUTE + 55_000, 10**10 + number)]
        for at in range(hour, hour + HOUR, 5 * MINUTE):
            found.append(Liquidity(symbol, at, 10**10, 1.2, 1e6, 4e6, 9e6, 0.1))
            found += [FeatureRow(symbol, at, _FIGURES, family) for family in _FEATURES]
        subject, chain = PREDICTION_SUBJECTS + symbol, f"chain/{symbol.lower()}"
        found += [FeatureRow(subject, hour, _SUMMARY, channel) for channel in PREDICTION_CHANNELS]
        found += [FeatureRow(chain, hour, _FIGURES, channel) for channel in MACRO_CHANNELS]
        found.append(RegistryRecord(symbol, hour, json.dumps({"subjects": [chain]}), ASSET_SUBJECTS))
    return [*found, *(FeatureRow(GLOBAL_SUBJECT, hour, _FIGURES, channel) for channel in MACRO_CHANNELS)]


_FIGURES = canonical_json({"figure": "0.5", "regime": "normal", "other": "1.25", "more": "17"}).decode()
_MARKET = {
    "id": "1",
    "question": "Will it be above 100 at noon?",
    "outcome": "Yes",
    "probability": "0.5",
    "tick": "0.01",
}
_SUMMARY = canonical_json(
    {"markets": 5, "bias": "neutral", "probabilityShift1h": "0.01", "top": [_MARKET] * 5}
).decode()


def _fill_home(home: Path, hours: Sequence[Sequence[Observation]]) -> None:
    make_home(home, sources=SOURCES)
    clock = VirtualClock(T0)
    subjects: dict[str, SubjectKind] = {PREDICTION_SUBJECTS + symbol: "prediction_market" for symbol in ASSETS}
    subjects |= {f"chain/{symbol.lower()}": "chain" for symbol in ASSETS}
    subjects[GLOBAL_SUBJECT] = "global"
    with closing(Rooms(home, clock=clock)) as rooms:
        for number, facts in enumerate(hours, 1):
            clock.advance(T0 + number * HOUR - 1)
            rooms.tape.commit(facts, kinds=subjects)


class Reading(NamedTuple):
    """What was read by hand of one asset."""

    price: float
    figure: str
    shown: int
    subjects: list[str]


HandRead = Callable[[str], Reading]


def _hand_written(path: Path, hours: Sequence[Sequence[Observation]]) -> HandRead:
    """The same rows keyed by subject, and the reads somebody would write by hand for a context."""
    connection: Any = apsw.Connection(str(path))
    connection.execute(_TABLES).fetchall()
    with connection:
        for facts in hours:
            for each in facts:
                if isinstance(each, Mid):
                    connection.execute(
                        "INSERT INTO m VALUES (?,?,?,?)", (each.symbol, each.bucket_ts, each.price_e8, T0)
                    )
                elif isinstance(each, Liquidity):
                    connection.execute("INSERT INTO b VALUES (?,?,?,?,?,?,?,?,?)", (*astuple(each), T0))
                elif isinstance(each, FeatureRow):
                    row = (each.family, each.symbol, each.bucket_ts, each.metrics_json, T0)
                    connection.execute("INSERT INTO f VALUES (?,?,?,?,?)", row)
                elif isinstance(each, RegistryRecord):
                    connection.execute("INSERT OR REPLACE INTO r VALUES (?,?,?)", (each.symbol, each.record_json, T0))

    def newest(kind: str, subject: str, most: int) -> list[dict[str, Any]]:
        found = connection.execute(_NEWEST, (kind, subject, END, END, most)).fetchall()
        return [msgspec.json.decode(row[0]) for row in found]

    def read(symbol: str) -> Reading:
        (mid,) = connection.execute(_PRICE, (symbol, END, END)).fetchall()
        books = [Liquidity(*row) for row in connection.execute(_BOOKS, (symbol, END - DAY, END, END))]
        assert liquidity_profile(books, as_of=books[-1].bucket_ts)
        volatility, *_ = [newest(family, symbol, 1)[0] for family in _FEATURES]
        now, *_ = [newest(channel, PREDICTION_SUBJECTS + symbol, 1)[0] for channel in PREDICTION_CHANNELS]
        (record,) = connection.execute("SELECT j FROM r WHERE s = ? AND known <= ?", (symbol, END)).fetchall()
        subjects = []
        for subject in (GLOBAL_SUBJECT, *msgspec.json.decode(record[0])["subjects"]):
            for channel in MACRO_CHANNELS:
                subjects += [subject for _ in newest(channel, subject, 3)]
        return Reading(mid[0] / E8, volatility["figure"], len(now["top"]), subjects)

    return read


_TABLES = """
CREATE TABLE m (s TEXT, ts INT, p INT, known INT, PRIMARY KEY (s, ts)) WITHOUT ROWID;
CREATE TABLE b (s TEXT, ts INT, mid INT, spread REAL, d1 REAL, d2 REAL, d3 REAL, i REAL, known INT, PRIMARY KEY (s, ts))
WITHOUT ROWID;
CREATE TABLE f (k TEXT, s TEXT, ts INT, j TEXT, known INT, PRIMARY KEY (k, s, ts)) WITHOUT ROWID;
CREATE TABLE r (s TEXT PRIMARY KEY, j TEXT, known INT) WITHOUT ROWID;
"""
_PRICE = "SELECT p FROM m WHERE s = ? AND ts <= ? AND known <= ? ORDER BY ts DESC LIMIT 1"
_BOOKS = "SELECT s, ts, mid, spread, d1, d2, d3, i FROM b WHERE s = ? AND ts >= ? AND ts <= ? AND known <= ?"
_NEWEST = "SELECT j FROM f WHERE k = ? AND s = ? AND ts <= ? AND known <= ? ORDER BY ts DESC LIMIT ?"


class PricedHome:
    """A home that takes the minutes of twenty assets hour by hour, with or without prediction markets about them."""

    def __init__(self, folder: Path, *, markets: int) -> None:
        make_home(folder, sources=SOURCES)
        self._clock, self._markets = VirtualClock(T0 + COMPACTION_DELAY_MS), markets
        self.rooms = Rooms(folder, clock=self._clock)
        # As on a live desk, where another thread moves old rows and keeps the catalogue.
        self._compaction = Compaction(self.rooms, keep=None)
        self._intake = FactBuffer()
        terms = {symbol: (symbol.lower(),) for symbol in ASSETS[:PRICED]}
        settings = CrawlSettings("http://g", "http://c", "crypto", 2 * DAY, 7 * DAY, 5, 0, False)
        self._crawl = PolymarketCrawl(settings, self._intake, terms=lambda: terms, newest=None)

    def take_hour(self, hour: int) -> tuple[float, float]:
        """Takes an hour of minutes; the seconds to derive the features of all assets then, and to roll it up."""
        self._clock.advance(hour + HOUR - 1)
        tape, symbols = self.rooms.tape, ASSETS[:PRICED]
        tape.commit([fact for symbol in symbols for fact in _minutes(symbol, hour)])
        if self._markets:
            self._take_crawl(hour + HOUR - 1)
        self._clock.advance(hour + HOUR + COMPACTION_DELAY_MS)
        # Each time a new one: it has nothing to compare with, and makes all rows.
        deriver = FeatureDeriver(tape)
        derived = cpu_seconds(lambda: deriver.rows_due(symbols, now=hour + HOUR))
        assert self._compaction.is_due()
        rolled = cpu_seconds(lambda: self._compaction.do_due_work(at_once=None))
        return derived, rolled

    def _take_crawl(self, at: int) -> None:
        while (request := self._crawl.next_request(at)) is not None:
            events = _events(self._markets, at) if request.kind == "open" else []
            assert self._crawl.handle_answer(request, json.dumps({"events": events}).encode(), at) is None
        found = self._intake.drain_pending()
        assert sum(isinstance(fact, RegistryRecord) for fact in found.facts) > self._markets
        self.rooms.tape.commit(found.facts, kinds=found.kinds)


def _minutes(symbol: str, hour: int) -> Iterator[Observation]:
    for at in range(hour, hour + HOUR, MINUTE):
        price = 10**10 + at // MINUTE % 977 * 10**6
        yield Candle(symbol, 60, at, price, price + 10**7, price - 10**7, price + 10**6, 12.5, 812_345.5, 33)
        if at % (5 * MINUTE) == 0:
            yield Liquidity(symbol, at, price, 1.2, 1e6, 4e6, 9e6, 0.1)
            yield AssetContext(symbol, at, 12_500_000, 0, 1e5, price, price)


def _events(markets: int, at: int) -> list[dict[str, Any]]:
    """Events of ten markets each, in turn about every asset; odds move from hour to hour."""
    return [
        {
            "id": str(first),
            "title": f"{ASSETS[first // 10 % PRICED]} prices",
            "markets": [_market(number, at) for number in range(first, first + 10)],
        }
        for first in range(0, markets, 10)
    ]


def _market(number: int, at: int) -> dict[str, Any]:
    symbol, yes = ASSETS[number // 10 % PRICED], 0.01 * (1 + (number + at // HOUR) % 98)
    return {
        "id": str(number),
        "question": f"Will {symbol} be above ${number}?",
        "endDate": iso_text(END + (1 + number % 90) * DAY),
        "outcomes": '["Yes", "No"]',
        "outcomePrices": json.dumps([f"{yes:.2f}", f"{1 - yes:.2f}"]),
        "volume24hr": 1_000 + number,
    }


def _burden_figures(place: Path) -> list[Figure]:
    plain, beside = PricedHome(place / "plain", markets=0), PricedHome(place / "beside", markets=MARKETS)
    with closing(plain.rooms), closing(beside.rooms):
        # In turn, hour by hour; the first hours have too few bars for all features.
        pairs = [(plain.take_hour(hour), beside.take_hour(hour)) for hour in range(T0, END, HOUR)][4:]
    figures = []
    for part, name in enumerate(("features", "roll-up")):
        change = median(100 * (with_them[part] / without[part] - 1) for without, with_them in pairs)
        figures.append(Figure(f"{name} beside {MARKETS:,} prediction markets: change", change, "%", aim="≤ 10"))
        took = median(with_them[part] for _, with_them in pairs)
        figures.append(Figure(f"{name} of {PRICED} assets beside them", took * 1e3, "ms"))
    return figures
