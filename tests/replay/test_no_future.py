"""A packet is made from what was known, and from nothing else.

Whatever lies beyond a run's watermarks may be changed, removed or added: its packet stays the
same to the last byte. What lies before them may not: then replay says where the packet differs.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import MINUTE, SECOND, short_price, time_of_day_text
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.matrix import examples
from tests.replay import desk
from tests.replay.alterations import LATER, Alteration, Kind, Vandal, undone

KINDS: tuple[Kind, ...] = ("change", "remove", "add", "finish", "elsewhere")


@pytest.fixture
def rooms(copied: Path) -> Iterator[Rooms]:
    """A desk's home after its two hours."""
    with desk.opened(copied) as (opened, _):
        yield opened


@pytest.fixture
def runs(rooms: Rooms) -> list[DecisionRun]:
    """Every decision of the home, oldest first."""
    found = [rooms.book.run(run_id) for run_id in reversed(rooms.book.run_ids(most=1_000))]
    return [run for run in found if run is not None]


FIRST_EXIT = "SELECT MIN(exit_seq) FROM trade_history WHERE deployment = :deployment"


def packet_bytes(rooms: Rooms, run: DecisionRun) -> bytes:
    """The packet of a run, made again, as it would be sent."""
    packet = rebuild_packet(rooms, run)
    assert (packet.inputs_sha256, packet.sha256) == (run.inputs_sha256, run.packet_sha256)
    return f"{packet.system}\n\n{packet.text}".encode()


def test_alterations_beyond_the_watermarks_change_no_byte(rooms: Rooms, runs: list[DecisionRun]) -> None:
    vandal = Vandal(rooms)
    done: Counter[tuple[Kind, str]] = Counter()
    # Few tables have rows that end later: these are asked for by name, or some runs of this test would finish nothing.
    tables = {kind: st.sampled_from(sorted(LATER) if kind == "finish" else vandal.filled) for kind in KINDS}
    alterations = st.builds(
        lambda chosen, **terms: Alteration(*chosen, **terms),
        st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), tables[kind])),
        by=st.integers(-10 * MINUTE, 10 * MINUTE),
        later=st.integers(1, 10_000),
        nth=st.just(0) | st.integers(0, 40),
    )

    @settings(max_examples=examples(600), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(run=st.sampled_from(runs), several=st.lists(alterations, min_size=1, max_size=20))
    def check(run: DecisionRun, several: list[Alteration]) -> None:
        sent = rooms.archive.get(run.packet_key or "")
        with undone(rooms):
            for each in several:
                touched = vandal.alter(run, each)
                done[each.kind, each.table] += bool(touched)
            assert packet_bytes(rooms, run) == sent

    check()
    assert done.total() >= 500
    for kind in KINDS:
        assert sum(times for (of_kind, _), times in done.items() if of_kind == kind) > 0, f"nothing to {kind}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [16, pytest.param(80, marks=pytest.mark.proof)])
def test_all_that_lies_beyond_at_once(kind: Kind, count: int, rooms: Rooms, runs: list[DecisionRun]) -> None:
    vandal = Vandal(rooms)
    # Stamped before the run and after it; on the newest rows it saw and between them.
    ways = list(enumerate(product((-7 * SECOND, 7 * SECOND), (0, 1, 2)), start=1))
    touched = 0
    for run in runs[:: 1 + len(runs) // count]:
        with undone(rooms):
            for table, (later, (by, nth)) in product(vandal.tables, ways):
                touched += vandal.alter(run, Alteration(kind, table, by=by, later=later, nth=nth))
            assert packet_bytes(rooms, run) == rooms.archive.get(run.packet_key or "")
    assert touched


# What a packet shows, altered where the run knew it, and the heading under which replay must find it.
BARS, MARKET, PORTFOLIO = "## Time and bars", "## Market", "## Portfolio and risk caps"
LAST, ACTIVITY, CLOSED, OPEN = "## Last decision", "## Recent activity", "## Recent trades", "## Open positions"
KNOWN = {
    "a bar": (BARS, "UPDATE hyperliquid_candles SET close_e8 = close_e8 * 2 WHERE seq <= :tape"),
    "a bar goes": (BARS, "DELETE FROM hyperliquid_candles WHERE bucket_ts = :as_of - 120000"),
    "the price": (MARKET, "UPDATE hyperliquid_mid_prices SET price_e8 = price_e8 * 2 WHERE seq = :tape"),
    "the order book": (MARKET, "UPDATE hyperliquid_liquidity_profiles SET spread_bps = spread_bps * 2"),
    "the funding rate": (MARKET, "UPDATE hyperliquid_asset_contexts SET funding_e12 = funding_e12 + 1000000"),
    "cash": (PORTFOLIO, "UPDATE wallet_ledger SET balance_usd_e6 = balance_usd_e6 + 10000 WHERE seq <= :book"),
    "the ledger goes": (PORTFOLIO, "DELETE FROM wallet_ledger WHERE deployment = :deployment AND kind <> 'deposit'"),
    "a position": (PORTFOLIO, "UPDATE positions SET cost_usd_e6 = cost_usd_e6 * 2 WHERE seq <= :book"),
    "the last reason": (LAST, "UPDATE decision_actions SET reason = 'a whim' WHERE seq <= :book"),
    "the last run goes": (LAST, "DELETE FROM decision_runs WHERE scheduled_for BETWEEN :as_of - 600000 AND :as_of - 1"),
    "the orders of the hour": (PORTFOLIO, "UPDATE orders SET intended_at = intended_at - 7200000 WHERE seq <= :book"),
    "what was executed": (PORTFOLIO, "DELETE FROM fills WHERE deployment = :deployment"),
    "a refusal": (ACTIVITY, "UPDATE decision_actions SET rule = 'R3_POSITION_CAP' WHERE seq <= :book"),
    "a result": (ACTIVITY, "UPDATE trade_history SET realised_usd_e6 = 5000000 WHERE exit_seq <= :book"),
    "a price that was left at": (CLOSED, "UPDATE trade_history SET exited_usd_e6 = 5000000 WHERE exit_seq <= :book"),
    "the first trade goes": (CLOSED, f"DELETE FROM trade_history WHERE exit_seq = ({FIRST_EXIT})"),
    "an extreme": (OPEN, "UPDATE positions SET mfe_usd_e6 = mfe_usd_e6 + 9000000 WHERE seq <= :book"),
    "why it was opened": (OPEN, "UPDATE trade_history SET entry_reason = 'a whim' WHERE exit_seq IS NULL"),
    "the profile": ("system", "UPDATE agent_versions SET profile_json = REPLACE(profile_json, :agent, 'nobody')"),
}


@pytest.mark.parametrize("what", KNOWN)
def test_alterations_of_what_was_known_are_found(what: str, rooms: Rooms, runs: list[DecisionRun]) -> None:
    heading, statement = KNOWN[what]
    run = fullest(rooms, runs)
    known = {"deployment": run.deployment, "agent": run.agent, "as_of": run.as_of}
    known_until = {"tape": run.watermarks.tape, "book": run.watermarks.book}
    assert replay_runs(rooms, [run.run_id]).different == []
    with undone(rooms):
        database = rooms.tape_db if "hyperliquid" in statement else rooms.book_db
        assert database.all(sql(f"{statement} RETURNING 1"), **known, **known_until)
        report = replay_runs(rooms, [run.run_id])
    assert (report.checked, report.equal) == (1, 0)
    (said,) = report.different
    assert re.fullmatch(rf"{run.run_id}: inputs differ: line \d+ of the packet, {heading}.*: .+ is now .+", said)


def fullest(rooms: Rooms, runs: list[DecisionRun]) -> DecisionRun:
    """The newest decision that saw an open position in its symbol and closed trades."""
    for run in reversed(runs):
        packet = rebuild_packet(rooms, run)
        held, closed = packet.section("open_positions"), packet.section("recent_trades")
        if closed and held and any(cell.startswith(run.symbol) for cell in held.cells("what")):
            return run
    pytest.fail("no decision of the desk saw both: give it another seed")


def test_a_trade_that_goes_from_the_end_of_its_section_is_found(rooms: Rooms, runs: list[DecisionRun]) -> None:
    def shows_trades(run: DecisionRun) -> bool:
        trades = rebuild_packet(rooms, run).section("recent_trades")
        return trades is not None and len(trades.rows) > 1

    run = next(run for run in runs if shows_trades(run))
    with undone(rooms):
        rooms.book_db.execute(
            sql(f"DELETE FROM trade_history WHERE exit_seq = ({FIRST_EXIT})"), deployment=run.deployment
        )
        report = replay_runs(rooms, [run.run_id])
    (said,) = report.different
    assert re.search(f"of the packet, {CLOSED} .* is now ''", said)


def test_late_candle_is_seen_only_after_it_came(rooms: Rooms, runs: list[DecisionRun], copied: Path) -> None:
    run, ids = runs[-1], [run.run_id for run in runs]
    bar = rooms.tape.candles(run.symbol, granularity_sec=60, since=0, view=View(rooms.clock.now()))[-5]
    arrived = rooms.clock.now() + 30 * SECOND
    late = msgspec.structs.replace(bar, high_e8=bar.high_e8 * 2, close_e8=bar.close_e8 * 2)
    Tape(rooms.tape_db, clock=VirtualClock(arrived)).commit([late])
    assert replay_runs(rooms, ids).different == []
    with app.open(copied, clock=VirtualClock(arrived)) as book:
        before, after = (book.context(run.agent, run.symbol, as_of=moment) for moment in (arrived - 1, arrived))
    then, now = before.section("bars"), after.section("bars")
    assert then and now
    changed = [(old, new) for old, new in zip(then.rows, now.rows, strict=True) if old != new]
    assert [(old[0], new[0]) for old, new in changed] == [
        (time_of_day_text(bar.bucket_ts), time_of_day_text(bar.bucket_ts))
    ]
    assert changed[0][1][1] == short_price(late.high_e8)
