"""A reel answers like the tape it is opened on, whatever was written, whoever looks, in whichever order."""

from contextlib import closing
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, Query, Row, connect, migrate
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, PredictedFunding
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, SECOND
from tapebook.history.importer import assumed_known_at
from tapebook.tape import forward_tape
from tapebook.tape.bars import BAR_LENGTHS, finished_bars
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import NO_WATERMARK, View
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.matrix import examples
from tests.tape.places import db as db
from tests.tape.random_tapes import HOURS, SYMBOLS, T0, RandomTape, random_tape

# Any, since a type variable cannot stand for "one of these".
KINDS: tuple[Any, ...] = (Mid, Liquidity, AssetContext, FundingRate)


def answers(tape: Tape, symbol: str, view: View, *, back: int) -> dict[str, Any]:
    """Everything a tick asks of a tape, and more."""
    at, since = view.as_of, view.as_of - back
    found: dict[str, Any] = {"symbols": tape.symbols()}
    for kind in KINDS:
        found[f"newest {kind.__name__}"] = tape.newest(kind, symbol, view=view)
        found[f"facts {kind.__name__}"] = tape.facts(kind, symbol, since=since, view=view)
    for family in ("pressure", "volatility", "positioning"):
        found[family] = tape.newest(family, symbol, view=view)
    found["funding"] = tape.funding_at(symbol, hour=since - since % HOUR, view=view)
    found["announced"] = tape.facts(PredictedFunding, symbol, since=since, view=view)
    found["predicted"] = tape.predicted_funding(symbol, since=since, view=view)
    found["mids"] = tape.facts(Mid, symbol, since=since, until=at - back // 2, view=view)
    for length in BAR_LENGTHS:
        found[f"candles {length}"] = tape.candles(symbol, granularity_sec=length, since=since, view=view)
        found[f"last {length}"] = tape.newest(Candle, symbol, granularity_sec=length, since=since, view=view)
    for size, count in ((1, 5), (5, 3), (30, 4), (60, 5), (240, 2)):
        found[f"bars {size}"] = tape.bars(symbol, minutes=size, count=count, view=view)
        whole = finished_bars(tape, symbol, minutes=size, count=count, view=view)
        found[f"finished {size}"] = whole.bars, whole.unfinished
    found["newest bar"] = tape.newest_bar(symbol, view=view)
    found["last price"] = tape.last_price(symbol, view=view)
    for size, end in ((5, at), (30, since), (60, at - at % HOUR)):
        found[f"stored until {size}"] = tape.is_stored_until(symbol, end, minutes=size, view=view)
    found["features of history"] = tape.history_features(symbol, view=view)
    return found


LOOKS = st.tuples(
    # How far time goes on from the look before, or back to; minutes to hours, and now and then past all there is.
    st.sampled_from([0, SECOND, 2 * SECOND, MINUTE, 5 * MINUTE, HOUR, 2 * HOUR, -SECOND, -7 * MINUTE, -3 * HOUR, DAY]),
    st.sampled_from(SYMBOLS),
    st.sampled_from([0, MINUTE, 10 * MINUTE, HOUR, 5 * HOUR, 3 * DAY, 400 * DAY]),
    st.sampled_from([None, None, None, 0.0, 0.3, 0.9]),
)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    rows=st.sampled_from([(3, 5), (40, 60), (8_000, 12_000)]),
    first=st.integers(-HOUR, HOURS * HOUR),
    looks=st.lists(LOOKS, min_size=1, max_size=25),
    cut=st.sampled_from([None, 0.5]),
)
def test_reel_answers_like_the_tape(
    seed: int, rows: tuple[int, int], first: int, looks: list[Any], cut: float | None
) -> None:
    with random_tape(seed) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_tape, "PAGE_ROWS", rows[0])
        patch.setattr(forward_tape, "KEPT_ROWS", rows[1])
        head = made.tape.head()[0]
        reach = None if cut is None else round(cut * head)
        reel = ForwardTape(made.db, clock=made.clock, fetch=made.archive.get, watermark=reach)
        most = head if reach is None else reach
        assert reel.head()[0] == most
        at = T0 + first
        for step, symbol, back, share in looks:
            at += step
            watermark = NO_WATERMARK if share is None else round(share * head)
            expected = answers(made.tape, symbol, View(at, min(watermark, most)), back=back)
            event("answers", sum(map(bool, expected.values())) // 5)
            assert answers(reel, symbol, View(at, watermark), back=back) == expected
            if reel.has_prices_alone:
                others = ("newest Liquidity", "newest AssetContext", "pressure", "volatility", "positioning")
                assert not any(expected[name] for name in (*others, "facts Liquidity"))


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.sampled_from([(60,), (300,), (60, 3600), (300, 900)]))
def test_window_of_bars_moves_like_the_tape(seed: int, lengths: tuple[int, ...]) -> None:
    """Small steps past bars of which many are known late or said twice, and now and then a look back."""
    chance = Random(seed)
    late = [0, 0, 0, 0, 10 * SECOND, 10 * MINUTE, HOUR]
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        clock = VirtualClock(T0)
        tape = Tape(db, clock=clock)
        for share in (0.9, 0.1):
            said = [
                msgspec.structs.replace(bar(at), granularity_sec=length, close_e8=chance.randrange(1, 9) * E8)
                for length in lengths
                for at in range(T0, T0 + 4 * HOUR, length * SECOND)
                if chance.random() < share
            ]
            tape.commit(said, assumed=lambda fact: assumed_known_at(fact) + chance.choice(late))
        reel, at = ForwardTape(db, clock=clock), T0
        while at < T0 + 4 * HOUR:
            at += chance.choice([1, 500, 2 * SECOND, 20 * SECOND, 58 * SECOND, 5 * MINUTE, -MINUTE])
            at += chance.choice([0, 0, 0, -at % MINUTE, -at % MINUTE + 2 * SECOND, -at % (15 * MINUTE) + 2 * SECOND])
            for minutes, count in ((1, 5), (5, 6), (15, 4), (60, 2)):
                found = reel.bars("BTC", minutes=minutes, count=count, view=View(at))
                assert found == tape.bars("BTC", minutes=minutes, count=count, view=View(at))


def test_reel_on_every_database(db: Database) -> None:
    made = RandomTape(db, 7)
    made.fill()
    reel = ForwardTape(db, clock=made.clock, fetch=made.archive.get)
    for at in range(T0, T0 + HOURS * HOUR, 23 * MINUTE):
        expected = answers(made.tape, "BTC", View(at), back=HOUR)
        assert answers(reel, "BTC", View(at), back=HOUR) == expected
    assert any(expected.values())


class Counting:
    """A database that counts how often it is read."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.reads: list[str] = []

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        self.reads.append(query.name)
        rows: list[Row] = self._db.all(query, **params)
        return rows

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query."""
        return next(iter(self.all(query, **params)), None)


@pytest.fixture
def imported() -> Any:
    """Forty days of bars of five minutes, and nothing else."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        clock = VirtualClock(T0 + 100 * DAY)
        Tape(db, clock=clock).commit([bar(at) for at in range(T0, T0 + 40 * DAY, 5 * MINUTE)], assumed=assumed_known_at)
        yield Counting(db), clock


def bar(at: int) -> Candle:
    """A bar of five minutes."""
    price = (100 + at // MINUTE % 37) * E8
    return Candle("BTC", 300, at, price, price + E8, price - E8, price + 5, 1.0, 1.0, 1)


def test_what_is_not_there_is_asked_for_once(imported: Any) -> None:
    db, clock = imported
    reel = ForwardTape(db, clock=clock)
    for day in range(2):
        db.reads.clear()
        view = View(T0 + day * HOUR)
        for symbol in ("BTC", "ETH"):
            assert [reel.newest(kind, symbol, view=view) for kind in KINDS] == [None] * 4
            assert reel.facts(Liquidity, symbol, since=0, view=view) == []
            assert reel.predicted_funding(symbol, since=0, view=view) == []
            assert reel.newest("pressure", symbol, view=view) is None
            assert reel.candles(symbol, granularity_sec=60, since=0, view=view) == []
            assert reel.has_prices_alone
    assert db.reads == []


def test_a_month_is_a_few_reads_and_every_bar_is_made_once(imported: Any) -> None:
    db, clock = imported
    reel, tape = ForwardTape(db, clock=clock), Tape(db, clock=clock)
    made: dict[int, Candle] = {}
    db.reads.clear()
    for at in range(T0 + DAY, T0 + 31 * DAY, 5 * MINUTE):
        view = View(at + 2 * SECOND)
        found = reel.bars("BTC", minutes=30, count=48, view=view)
        assert len(found) == 48 and found[-1].end == at - at % (30 * MINUTE)
        assert all(made.setdefault(each.bucket_ts, each) is each for each in found)
        assert reel.newest_bar("BTC", view=view) == bar(at - 5 * MINUTE)
    assert db.reads.count("page") <= 3 and len(db.reads) < 40
    assert found == tape.bars("BTC", minutes=30, count=48, view=view)


def test_what_comes_later_is_not_seen(imported: Any) -> None:
    db, clock = imported
    reel, view = ForwardTape(db, clock=clock), View(T0 + 10 * DAY)
    tape = Tape(db._db, clock=clock)
    tape.commit([Candle("BTC", 300, T0, 1, 1, 1, 1, 1.0, 1.0, 1), Mid("BTC", T0, 1)], assumed=assumed_known_at)
    assert reel.candles("BTC", granularity_sec=300, since=T0, until=T0, view=view) == [bar(T0)]
    assert reel.newest(Mid, "BTC", view=view) is None
    assert tape.newest(Mid, "BTC", view=view) == Mid("BTC", T0, 1)


def test_reel_does_not_write(imported: Any) -> None:
    db, clock = imported
    with pytest.raises(RuntimeError, match="only reads"):
        ForwardTape(db, clock=clock).commit([bar(T0)])


def test_memory_is_bounded(imported: Any) -> None:
    db, clock = imported
    reel = ForwardTape(db, clock=clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_tape, "PAGE_ROWS", 100)
        patch.setattr(forward_tape, "KEPT_ROWS", 300)
        most = 0
        for at in range(T0 + DAY, T0 + 30 * DAY, 5 * MINUTE):
            reel.bars("BTC", minutes=30, count=8, view=View(at))
            held = [each for each in reel._tracks.values() if each is not None]
            most = max(most, *(len(each._facts) for each in held))
    assert most <= 402
