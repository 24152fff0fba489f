"""Experience: opening a home with 100,000 outcomes, the search for similar situations, and learning one more.

Floors, measured in the same run: for opening, reading the same pages with raw apsw into an array, and
nothing else; for the search, one matrix product and one partition over the same vectors in bare numpy.
Opening is what the first tick of a new process waits for: records, fit, situations and the first search.
"""

import gc
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import msgspec
import numpy as np

from bench.figure import Figure, median_us, seconds
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.units import DAY, MINUTE
from tapebook.experience import ExperienceQuery
from tapebook.experience import events as ev
from tapebook.experience.events import (
    PROJECTION,
    SeenFeatures,
    draft_fit,
    draft_page_packed,
    outcome_learned_body,
)
from tapebook.experience.features import (
    DEFAULT_NEIGHBOURS,
    PAGE_ROWS,
    FeatureVector,
    Fit,
    MarketFeatures,
    feature_vector_of,
    pack_situation,
)
from tapebook.experience.records import Outcome, OutcomeVote, Record, RecordKey
from tapebook.experience.situations import SITUATION_DTYPE, Situations, whitened_vectors
from tapebook.experience.store import MIGRATIONS, Experience
from tapebook.log import Draft, Log, Stream
from tapebook.log.store import MIGRATIONS as LOG

OUTCOMES = 100_000
T0 = 1_700_000_000_000
STREAM = Stream("bench", "d")
BATCH = 1_000
MEMBERS = ("trend", "reversion")
REGIMES = ("trend_up_lowvol", "trend_down_hivol", "chop_lowvol")
NOW = T0 + OUTCOMES * 30 * MINUTE
ASK = ExperienceQuery(NOW, "BTC", "chop_lowvol", MEMBERS)
Work = Callable[[], object]
PAGES = "SELECT packed FROM experience_situations ORDER BY page"


def run() -> list[Figure]:
    """All figures of experience."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.db"
        with closing(connect(str(path), durable=False)) as db:
            migrate(db, (LOG, MIGRATIONS))
            log = Log(db, [PROJECTION], clock=VirtualClock(T0))
            learning = _filled(log) / OUTCOMES * 1e6
            seq = log.head(STREAM).seq
        size = path.stat().st_size / OUTCOMES
        return [
            Figure("learning an outcome, events and projections", learning, "µs"),
            Figure("bytes of an outcome in the book, log and indexes included", size, "bytes"),
            *_opening(path, seq),
            *_searching(path, seq),
        ]


def _opening(path: Path, seq: int) -> list[Figure]:
    look = sight_at_random(random.Random(7))

    def ours() -> None:
        with closing(connect(str(path), durable=False)) as db:
            Experience(db, owner="bench").rows_as_of("d", ASK, look, seq=seq, settings=ExperienceSettings())

    def floor() -> None:
        with closing(apsw.Connection(str(path))) as raw:
            content = b"".join(row[0] for row in raw.execute(PAGES))
            np.frombuffer(content, SITUATION_DTYPE)["reading"].copy()

    return _figures(f"opening with {OUTCOMES:,} outcomes", _in_turn(ours, floor, times=40), share=0.5, aim="≤ 15")


def _searching(path: Path, seq: int) -> list[Figure]:
    chance = random.Random(8)
    looks = [sight_at_random(chance) for _ in range(1_000)]
    with closing(connect(str(path), durable=False)) as db:
        room = Experience(db, owner="bench")
        fit = room.fit_as_of("d", seq=seq)
        assert fit is not None
        situations = Situations()
        situations.extend(room.packed_situations("d", after=0, until=OUTCOMES))
        queries = iter([feature_vector_of(look) for look in looks] * 2)
        plain = np.ascontiguousarray(whitened_vectors(fit, situations.feature_rows(0, OUTCOMES)).T)
        lengths = (plain * plain).sum(axis=1)
        points = iter(list(plain[:: OUTCOMES // 1_000]) * 2)

        def floor() -> None:
            np.argpartition(lengths - 2 * (plain @ next(points)), DEFAULT_NEIGHBOURS)

        # One after the other: the threads of a matrix product go on spinning for a while, and would be in our way.
        search = partial(_search, situations, fit, queries)
        times = _times(search, times=1_000), _times(floor, times=1_000)
        settings = ExperienceSettings()
        rows = median_us(lambda: room.rows_as_of("d", ASK, looks[0], seq=seq, settings=settings))
    name = f"search among {OUTCOMES:,} situations"
    return [
        *_figures(name, times, share=0.5, aim=""),
        *_figures(name, times, share=0.99, aim="≤ 3"),
        Figure("all rows for a packet of a home that is open", rows, "µs"),
    ]


def _search(situations: Situations, fit: Fit, queries: Iterator[FeatureVector]) -> None:
    situations.nearest(fit, next(queries), count=OUTCOMES)


Took = tuple[float, float]


def _times(work: Work, *, times: int) -> list[Took]:
    work()
    gc.collect()
    return [_took(work) for _ in range(times - 1)]


def _in_turn(ours: Work, floor: Work, *, times: int) -> tuple[list[Took], list[Took]]:
    """Times of two works done in turn, by the clock and of the processor: others at work slow the first alone."""
    ours()
    floor()
    gc.collect()
    pairs = [(_took(ours), _took(floor)) for _ in range(times - 1)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _took(work: Work) -> Took:
    start = time.thread_time()
    clock = seconds(work)
    return clock, time.thread_time() - start


def _figures(name: str, times: tuple[list[Took], list[Took]], *, share: float, aim: str) -> list[Figure]:
    found = []
    for kind, words in enumerate(("", ", processor alone")):
        ours, floor = (sorted(1e3 * took[kind] for took in each) for each in times)
        place = min(int(share * len(ours)), len(ours) - 1)
        at = f"{name}, p{share * 100:.0f}{words}"
        found.append(Figure(at, ours[place], "ms", floor[place], floor[place] / ours[place], aim))
    return found


def _filled(log: Log) -> float:
    """Seconds to append all outcomes, a thousand to a transaction; pages and a fit come with the last, as always."""
    chance = random.Random(1)
    records: dict[RecordKey, Record] = {}
    rows: list[bytes] = []
    took = 0.0
    for start in range(0, OUTCOMES, BATCH):
        drafts = []
        for number in range(start, start + BATCH):
            outcome, reading = _outcome(chance, number), feature_vector_of(sight_at_random(chance))
            body = outcome_learned_body(outcome, records, situations=number, seen=SeenFeatures(reading))
            records |= {record.key: record for record in body.records}
            drafts.append(ev.draft(outcome.exited_at, body))
            rows.append(pack_situation(reading, outcome))
        took += seconds(partial(log.append, STREAM, drafts[:-1], expected_seq=log.head(STREAM).seq))
        tended = _tended(b"".join(rows[:-1])) if len(rows) == OUTCOMES else []
        log.append(STREAM, [*tended, drafts[-1]], expected_seq=log.head(STREAM).seq)
    return took


def _tended(rows: bytes) -> list[Draft]:
    size, situations = PAGE_ROWS * SITUATION_DTYPE.itemsize, Situations()
    situations.extend(rows)
    drafts = [
        draft_page_packed(page, rows[page * size : (page + 1) * size], at=NOW) for page in range(len(rows) // size)
    ]
    return [*drafts, draft_fit(situations.fit_newest(situations.count), at=NOW)]


def _outcome(chance: random.Random, number: int) -> Outcome:
    net = round(chance.gauss(0, 4e6))
    entered = T0 + number * 30 * MINUTE
    votes = tuple(OutcomeVote(name, "open", chance.choice(("long", "short")), 5_000) for name in MEMBERS)
    return Outcome(
        trade_id=f"{number:020x}",
        run_id=f"{number:020d}",
        symbol=chance.choice(("BTC", "ETH", "SOL")),
        side=chance.choice(("long", "short")),
        provider="ensemble",
        votes=votes,
        confidence_e4=chance.randrange(10_000),
        regime=chance.choice(REGIMES),
        conditions=(("volatility_1h", "0.005000"),),
        entry_price_e8=10**10,
        exit_price_e8=10**10,
        entered_at=entered,
        exited_at=entered + 20 * MINUTE,
        notional_usd_e6=10**9,
        gross_usd_e6=net + 500_000,
        net_usd_e6=net,
        exit_reason="close",
    )


def sight_at_random(chance: random.Random) -> MarketFeatures:
    """What a decision may have seen."""
    drift, level = chance.gauss(0, 0.01), chance.gauss(0, 0.3)
    plain = MarketFeatures(
        as_of=T0 + chance.randrange(DAY),
        return_15m=drift / 4 + chance.gauss(0, 0.002),
        return_1h=drift + chance.gauss(0, 0.004),
        return_4h=2 * drift + chance.gauss(0, 0.01),
        volatility_1h=0.005 * 2**level,
        range_position_4h=chance.random(),
        funding=chance.gauss(1e-5, 1e-5),
        premium=chance.gauss(0, 1e-4),
        imbalance=chance.uniform(-1, 1),
        spread_bps=0.5 * 2 ** chance.gauss(0, 1),
    )
    return plain if chance.random() < 0.2 else msgspec.structs.replace(plain, volatility_24h=0.025 * 2**level)
