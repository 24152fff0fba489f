"""Random tapes in which everything happens: revisions, rows that come late, gaps, bars of several lengths, archives.

Times lie within a few hours, and most rows are known as soon as they can be. What a tape is made of
comes from one seed: it is too much to be drawn number by number.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.market import (
    AssetContext,
    Candle,
    FeatureRow,
    FundingRate,
    Liquidity,
    Mid,
    Observation,
    PredictedFunding,
)
from tapebook.domain.units import E8, HOUR, MINUTE, SECOND
from tapebook.history.importer import assumed_known_at
from tapebook.tape.retention import retire_rows
from tapebook.tape.store import MIGRATIONS, Tape
from tests.tape.memory_archive import Shelf

T0 = 20_834 * 24 * HOUR
HOURS = 6
SYMBOLS = ("BTC", "ETH")
KEEP_NOTHING = dict.fromkeys(
    (
        *("mids", "candles_60", "candles_3600", "books", "contexts", "funding", "predicted"),
        *("volatility", "pressure", "positioning", "commits"),
    ),
    0,
)


class RandomTape:
    """A tape of one seed, with what is needed to open another reader on it."""

    def __init__(self, db: Database, seed: int) -> None:
        self.db = db
        self.archive = Shelf()
        self.random = Random(seed)
        self.clock = VirtualClock(T0)
        self.tape = Tape(db, clock=self.clock, fetch=self.archive.get)
        # Not every tape has everything: what is missing altogether is a case of its own.
        self._lengths = self.random.choice([(60,), (300,), (60, 3600), (300, 3600), (60, 300), (3600, 86_400), ()])
        self._kinds = self.random.sample(range(7), self.random.choice([0, 2, 5, 7]))

    def fill(self) -> None:
        """Commits all of it, imported rows among observed ones, some of it out of order and some of it twice."""
        said = [fact for symbol in SYMBOLS for fact in self._facts(symbol) if self.random.random() < 0.9]
        said.sort(key=lambda fact: fact.bucket_ts)
        while said:
            batch, said = said[: self.random.choice([1, 5, 40, 400])], said[400:]
            if self.random.random() < 0.2:
                batch += [_changed(fact, self.random) for fact in self.random.sample(batch, min(3, len(batch)))]
            late = self.random.choice([0, 0, 0, MINUTE, 2 * HOUR])
            if self.random.random() < 0.6:
                self._import(batch, late)
            else:
                self.clock.advance(max(self.clock.now(), assumed_known_at(batch[-1]) + late))
                self.tape.commit(batch)
            if self.random.random() < 0.2:
                self._revise(batch)
        if self.random.random() < 0.3:
            until = T0 + self.random.randrange(HOURS) * HOUR
            retire_rows(self.db, self.archive.put, keep=KEEP_NOTHING, now=until, watched=lambda: SYMBOLS)

    def _revise(self, batch: list[Observation]) -> None:
        later = self.random.choice([SECOND, 20 * MINUTE, 3 * HOUR])
        changed = [_changed(fact, self.random) for fact in self.random.sample(batch, min(5, len(batch)))]
        self._import(changed, later)

    def _import(self, facts: list[Observation], late: int) -> None:
        self.tape.commit(facts, assumed=lambda fact: assumed_known_at(fact) + late)

    def _facts(self, symbol: str) -> Iterator[Observation]:
        price = [self.random.randrange(90, 110) * E8 for _ in range(8)]
        gap = T0 + self.random.randrange(HOURS) * HOUR
        for seconds in self._lengths:
            for at in range(T0, T0 + HOURS * HOUR, seconds * SECOND):
                if not (gap <= at < gap + HOUR and self.random.random() < 0.8):
                    low, first, last, high = sorted(self.random.choices(price, k=4))
                    volume = float(self.random.randrange(3))
                    yield Candle(symbol, seconds, at, first, high, low, last, volume, volume, 1)
        for kind in self._kinds:
            for at in range(T0, T0 + HOURS * HOUR, self.random.choice([5 * SECOND, MINUTE, 17 * MINUTE, HOUR])):
                if self.random.random() < 0.1:
                    yield from _facts_of(kind, symbol, at, self.random.choice(price))


def _facts_of(kind: int, symbol: str, at: int, price: int) -> list[Observation]:
    bucket = at - at % (5 * SECOND)
    number = price / E8
    kinds: list[list[Observation]] = [
        [Mid(symbol, bucket, price)],
        [Liquidity(symbol, bucket, price, number / 10, number, number, number, 0.1)],
        [AssetContext(symbol, bucket, price, 0, number, price, price)],
        [FundingRate(symbol, at - at % HOUR, price, 0)],
        [*(PredictedFunding(symbol, bucket, venue, price, 8, at) for venue in ("Bin", "Hl"))],
        [FeatureRow(symbol, bucket, f'{{"regime":"r{price}"}}', "pressure")],
        [FeatureRow(symbol, bucket, f'{{"regime":"r{price}"}}', "volatility")],
    ]
    return kinds[kind]


def _changed(fact: Observation, random: Random) -> Observation:
    """Another word on the same bucket."""
    other = random.randrange(90, 110) * E8
    match fact:
        case Mid():
            return Mid(fact.symbol, fact.bucket_ts, other)
        case Candle():
            place = (fact.symbol, fact.granularity_sec, fact.bucket_ts)
            return Candle(*place, other, other + E8, other - E8, other, 1.0, 1.0, 2)
        case FundingRate():
            return FundingRate(fact.symbol, fact.bucket_ts, other, 0)
        case PredictedFunding():
            return PredictedFunding(fact.symbol, fact.bucket_ts, fact.venue, other, 8, 0)
    return fact


@contextmanager
def random_tape(seed: int) -> Iterator[RandomTape]:
    """The tape of a seed."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        made = RandomTape(db, seed)
        made.fill()
        yield made
