"""Which buckets there are, of all symbols at once: as known at a moment, with what has left, not what was imported."""

from tapebook.clock import VirtualClock
from tapebook.db import Database
from tapebook.domain.market import Candle, Liquidity, Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.ingest.compaction import retention_by_channel
from tapebook.settings.config import Config
from tapebook.tape.retention import retire_rows
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tests.tape.memory_archive import Shelf
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

NOON = 500_000 * HOUR


def book(symbol: str, minutes: int) -> Liquidity:
    return Liquidity(symbol, NOON + minutes * MINUTE, 5, 1.5, 1.0, 2.0, 3.0, 0.25)


def test_buckets_of_all_symbols(db: Database) -> None:
    shelf, clock = Shelf(), VirtualClock(NOON)
    tape = Tape(db, clock=clock, fetch=shelf.get)
    for minutes in range(0, 200, 5):
        clock.advance(NOON + minutes * MINUTE)
        tape.commit([book("BTC", minutes), *([book("ETH", minutes)] if minutes % 10 else [])])
    tape.commit([book("BTC", 195), Mid("SOL", NOON, 1)])
    view = View(NOON + 100 * MINUTE)
    btc = {NOON + minutes * MINUTE for minutes in range(50, 101, 5)}
    expected = {"BTC": btc, "ETH": {bucket for bucket in btc if bucket % (10 * MINUTE)}}
    assert tape.buckets_by_symbol(Liquidity, since=NOON + 50 * MINUTE, view=view) == expected
    nothing = dict.fromkeys(retention_by_channel(Config()), 0)
    retire_rows(db, shelf.put, keep=nothing, now=NOON + 300 * MINUTE, watched=set)
    assert shelf.objects and tape.buckets_by_symbol(Liquidity, since=NOON + 50 * MINUTE, view=view) == expected
    assert tape.buckets_by_symbol(Liquidity, since=NOON + 50 * MINUTE, view=View(NOON + 100 * MINUTE, 12)) == {
        "BTC": {NOON + 50 * MINUTE, NOON + 55 * MINUTE},
        "ETH": {NOON + 55 * MINUTE},
    }


def test_the_newest_bucket_of_each_symbol_that_was_observed(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    bars = [Candle(name, 60, NOON + at * MINUTE, 1, 1, 1, 1, 1.0, 1.0, 1) for name in ("A", "B") for at in range(3)]
    tape.commit([*bars, Candle("A", 3600, NOON + HOUR, 1, 1, 1, 1, 1.0, 1.0, 1), Mid("A", NOON, 1), Mid("C", NOON, 1)])
    tape.commit([Candle("B", 60, NOON + HOUR, 1, 1, 1, 1, 1.0, 1.0, 1)], assumed=lambda fact: NOON)
    newest = dict.fromkeys("AB", NOON + 2 * MINUTE)
    assert tape.newest_by_symbol("candles", since=NOON) == newest
    assert tape.newest_by_symbol("candles", since=NOON + 2 * MINUTE) == newest
    assert tape.newest_by_symbol("candles", since=NOON + 2 * MINUTE + 1) == {}
    assert tape.newest_by_symbol("mids", since=NOON - HOUR) == {"A": NOON, "C": NOON}
    assert tape.newest_by_symbol("books", since=0) == {}
