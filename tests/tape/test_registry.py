"""The registry: seeded by the migrations, refreshed by the exchange's lists, and read as of a moment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.desk.verify import verify_home
from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import Candle, RegistryRecord
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.errors import UnknownName
from tapebook.sources.hyperliquid.universe import ListingRecords
from tapebook.sources.hyperliquid.wire import Perp, SpotPair, SpotToken, read_meta, read_spot_tokens
from tapebook.tape.registry import ASSETS, COVERAGE, ListedAsset, seed_sql, trending_symbols
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK, View
from tapebook.wiring import Rooms
from tests.db.places import database as database
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres

NOW = 1_790_000_000_000


def asset(tape: Tape, symbol: str, *, as_of: int = NO_WATERMARK) -> ListedAsset:
    return next(each for each in tape.registry.assets(view=View(as_of)) if each.symbol == symbol)


def record(symbol: str, **values: Any) -> RegistryRecord:
    return RegistryRecord(symbol, NOW, canonical_json(values).decode(), ASSETS)


@pytest.fixture
def tape(database: Database) -> Tape:
    """A tape on each kind of database, with nothing but what its migrations bring."""
    migrate(database, ("tapebook.tape",))
    return Tape(database, clock=VirtualClock(NOW))


def test_a_fresh_tape_knows_every_live_perp_with_what_an_order_needs(tape: Tape) -> None:
    perps = [each for each in tape.registry.assets(view=View(NOW), category="Perps") if ":" not in each.symbol]
    live = [each for each in perps if each.live]
    assert len(live) >= 190 and len(perps) - len(live) == 39
    unknown = {each.symbol for each in live if each.lot is None}
    assert unknown <= {"CASHCAT", "CHIP", "GRAM"}, "listed after the lists that name decimals"
    btc = asset(tape, "BTC")
    assert (btc.kind, btc.name, btc.terms, btc.max_leverage) == ("perp", "Bitcoin", ("bitcoin", "btc"), 40)
    assert (btc.tick, btc.lot) == ("0.1", "0.00001") and btc.coverage == COVERAGE
    assert asset(tape, "@107").quote == "USDC" and asset(tape, "@107").coverage == ("mids", "trading")
    assert asset(tape, "kPEPE").lot == "1" and not btc.assumed


@pytest.mark.parametrize(
    ("category", "member", "stranger"),
    [
        ("Layer 2", "ARB", "BTC"),
        ("layer 1", "BTC", "ARB"),
        ("Stocks", "xyz:TSLA", "BTC"),
        ("Tradfi", "xyz:GOLD", "BTC"),
        ("Crypto", "BTC", "xyz:GOLD"),
        ("Spot", "@107", "HYPE"),
        ("USDH", "@254", "@107"),
        ("Pre-IPO", "vntl:OPENAI", "xyz:AAPL"),
    ],
)
def test_categories_filter(tape: Tape, category: str, member: str, stranger: str) -> None:
    found = {each.symbol for each in tape.registry.assets(view=View(NOW), category=category)}
    assert member in found and stranger not in found


def test_a_category_nobody_knows_is_refused_with_those_there_are(tape: Tape) -> None:
    with pytest.raises(UnknownName, match="there is no category 'Layer 3'; choose one of: All, Perps"):
        tape.registry.assets(view=View(NOW), category="Layer 3")


def test_trending_is_what_was_traded_most_in_the_day_before_a_moment(tape: Tape) -> None:
    def hours(symbol: str, volume: float, *, until: int) -> list[Candle]:
        ends = range(until - 24 * HOUR, until, HOUR)
        return [Candle(symbol, 3600, at, 100, 100, 100, 100, volume, volume, 5) for at in ends]

    start = NOW - NOW % HOUR
    busy = [bar for place in range(12) for bar in hours(f"COIN{place:02}", 10.0 + place, until=start)]
    tape.commit([*busy, *hours("BTC", 5.0, until=start), *hours("QUIET", 0.0, until=start)], assumed=lambda each: NOW)
    tape.commit(hours("BTC", 500.0, until=start + DAY), assumed=lambda each: NOW + DAY)

    def trending(as_of: int) -> list[str]:
        return trending_symbols(tape, view=View(as_of))

    assert trending(NOW - 1) == [], "nothing of it was known yet"
    assert trending(NOW) == [f"COIN{place:02}" for place in range(11, 1, -1)]
    assert trending(NOW + DAY) == ["BTC"], "the others were not traded on the second day"
    found = tape.registry.assets(view=View(NOW + DAY), category="trending", trending=["BTC"])
    assert [each.symbol for each in found] == ["BTC"] and found[0].categories[:2] == ("Perps", "Crypto")


def test_words_that_mean_something_else_are_never_searched(tape: Tape) -> None:
    terms = tape.registry.safe_terms(view=View(NOW))
    said = {term for words in terms.values() for term in words}
    assert not said & {"near", "link", "op", "s", "w", "trump", "sui", "not", "me", "people", "spx"}
    assert all(len(term) > 2 for term in said) and "bitcoin" in terms["BTC"] and "MATIC" not in terms


def test_what_the_exchange_says_becomes_a_version_and_the_past_stays(tape: Tape) -> None:
    before = asset(tape, "BTC")
    head = tape.commit([record("BTC", kind="perp", live=True, max_leverage=40)])
    assert head == 0, "what says nothing new leaves no trace"
    tape.commit([record("BTC", max_leverage=50), record("NEWCOIN", kind="perp", live=True, size_decimals=1)])
    after = asset(tape, "BTC")
    assert after.max_leverage == 50 and after.name == "Bitcoin", "what was not said stays"
    assert asset(tape, "BTC", as_of=NOW - MINUTE) == before
    assert "NEWCOIN" not in {each.symbol for each in tape.registry.assets(view=View(NOW - MINUTE))}
    assert asset(tape, "NEWCOIN").terms == (), "a market without curated words has none"
    assert "NEWCOIN" not in {each.symbol for each in tape.registry.assets(view=View(NO_WATERMARK, 0))}


def test_a_market_that_the_exchange_of_a_home_does_not_name_is_known_and_covers_nothing(tape: Tape) -> None:
    """A demo's world lists six perps: failed while all others were told to be delisted."""
    listings = ListingRecords([each.symbol for each in tape.registry.assets(view=View(NOW)) if each.live])
    tape.commit(listings.of_perps("", [Perp("BTC", False, 5, 40)], at=NOW))
    arb, found = asset(tape, "ARB"), tape.registry.assets(view=View(NOW), category="Layer 2")
    assert arb.live and not arb.listed and arb.coverage == () and arb in found
    assert "ARB" not in tape.registry.safe_terms(view=View(NOW)) and asset(tape, "BTC").listed
    tape.commit(listings.of_perps("", [Perp("BTC", False, 5, 40), Perp("ARB", False, 1, 10)], at=NOW + 1))
    assert asset(tape, "ARB").listed and asset(tape, "ARB").coverage == COVERAGE


def test_a_snapshot_before_its_own_day_is_assumed(tape: Tape) -> None:
    vintage = tape.registry.vintage()
    assert asset(tape, "BTC", as_of=vintage - DAY).assumed and not asset(tape, "BTC", as_of=vintage).assumed


def test_a_snapshot_seeds_another_tape_with_the_same_markets(tape: Tape, tmp_path: Path) -> None:
    tape.commit([record("BTC", max_leverage=50), record("O'COIN", kind="perp", live=True, name="O'Coin; DROP")])
    text = seed_sql(tape.registry, view=View(NOW))
    other = connect(str(tmp_path / "other.db"))
    migrate(other, ("tapebook.tape",))
    other.execute_script(text)
    again = Tape(other, clock=VirtualClock(NOW)).registry.assets(view=View(NO_WATERMARK))
    bare = [(each.symbol, each.name, each.max_leverage, each.categories, each.live) for each in again]
    mine = tape.registry.assets(view=View(NO_WATERMARK))
    assert bare == [(each.symbol, each.name, each.max_leverage, each.categories, each.live) for each in mine]


def test_lists_of_the_exchange_are_said_once_and_what_is_missing_in_them_is_not_listed() -> None:
    listings = ListingRecords(("BTC", "GONE", "xyz:TSLA", "@1", "#10"))
    meta = read_meta(b'{"universe":[{"name":"BTC","szDecimals":5,"maxLeverage":40},{"name":"OLD","isDelisted":true}]}')
    assert not hasattr(meta, "why")
    said = {each.symbol: json.loads(each.record_json) for each in listings.of_perps("", meta.universe, at=NOW)}
    assert said == {
        "BTC": {"kind": "perp", "live": True, "size_decimals": 5, "max_leverage": 40},
        "OLD": {"kind": "perp", "live": False},
        "GONE": {"listed": False},
    }
    assert listings.of_perps("", meta.universe, at=NOW + 1) == []
    assert listings.of_perps("", [None, Perp("BTC")], at=NOW + 2)[0].symbol == "BTC"
    # A row that cannot be read delists nobody.
    assert not ListingRecords(("SOL",)).of_perps("", [None], at=NOW)


def test_spot_pairs_have_their_tokens_and_names_of_the_stream_are_unknown() -> None:
    body = (
        b'{"universe":[],"tokens":[{"name":"USDC","index":0},{"name":"HYPE","index":150,"szDecimals":2},{"index":3}]}'
    )
    tokens = read_spot_tokens(body)
    assert tokens == {0: SpotToken("USDC", 0), 150: SpotToken("HYPE", 150, 2)}
    listings = ListingRecords()
    pairs = [SpotPair("@107", 107, [150, 0]), SpotPair("@9", 9, "odd")]
    said = {
        each.symbol: json.loads(each.record_json)
        for each in listings.of_spots(pairs, tokens, watched=("@107",), at=NOW)
    }
    assert said["@107"] == {
        **{"kind": "spot", "live": True, "base": "HYPE", "quote": "USDC"},
        **{"size_decimals": 2, "candles": True},
    }
    assert said["@9"] == {"kind": "spot", "live": True}
    (side,) = listings.of_stream(["#1710", "@107"], at=NOW)
    assert (side.symbol, json.loads(side.record_json)) == ("#1710", {"kind": "unknown", "live": True})


Versions = st.lists(st.tuples(st.sampled_from("ABC"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2))))


@given(Versions)
def test_a_register_as_of_a_commit_is_what_was_said_up_to_it(said: list[tuple[str, Mapping[str, int]]]) -> None:
    db = connect(":memory:")
    migrate(db, ("tapebook.tape",))
    clock = VirtualClock(NOW)
    tape = Tape(db, clock=clock)
    states: list[tuple[int, int, dict[str, dict[str, int]]]] = [(0, NOW - 1, {})]
    for subject, values in said:
        clock.advance(clock.now() + 1)
        seq = tape.commit([RegistryRecord(subject, clock.now(), canonical_json(values).decode(), "things")])
        now = dict(states[-1][2])
        now[subject] = {**now.get(subject, {}), **values}
        states.append((seq, clock.now(), {name: held for name, held in now.items() if held}))
    for seq, at, state in states:
        for view in (View(at), View(NO_WATERMARK, seq)):
            found = {name: stored.values for name, stored in tape.registry.records("things", view=view).items()}
            assert {name: held for name, held in found.items() if held} == state


def test_the_registry_is_sealed(tmp_path: Path) -> None:
    def ignore(words: str) -> None:
        """Says nothing."""

    (tmp_path / "tapebook.toml").write_text("", "utf-8")
    rooms = Rooms(tmp_path, clock=VirtualClock(NOW))
    rooms.tape.commit([record("BTC", max_leverage=50)])
    assert not list(verify_home(rooms, tape=True, archive=False, progress=ignore, notice=ignore))
    with rooms.tape_db.transaction():
        rooms.tape_db.execute_script("UPDATE tape_registry SET record_json = '{}' WHERE seq > 0")
    (found,) = verify_home(rooms, tape=True, archive=False, progress=ignore, notice=ignore)
    assert found.where == "tape_registry" and "a row was changed" in found.problem
    rooms.close()


def test_a_recording_that_is_imported_later_changes_the_past_alone(tape: Tape) -> None:
    """Versions are ordered by when they were known; of two in one import each has its own moment."""
    tape.commit([record("BTC", max_leverage=50)])
    old = [
        RegistryRecord("BTC", NOW - hours * HOUR, canonical_json({"max_leverage": leverage}).decode(), ASSETS)
        for hours, leverage in ((3, 20), (2, 30))
    ]
    tape.commit(old, assumed=lambda fact: fact.bucket_ts)
    known = [asset(tape, "BTC", as_of=NOW - hours * HOUR).max_leverage for hours in (4, 3, 2, 1, 0)]
    assert known == [40, 20, 30, 30, 50]
    head = tape.head()
    tape.commit(old, assumed=lambda fact: fact.bucket_ts)
    assert tape.head() == head, "what was known by then already leaves no trace"
