"""Horizons in the tick: from the book through learning to the layers and into the packet, as of any moment."""

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapebook.api import app
from tapebook.api.horizons import HomeLayers
from tapebook.api.open_home import OpenHome
from tapebook.clock import VirtualClock
from tapebook.context import PACKET_VERSIONS
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, LayerRow, ReflectionSettings
from tapebook.domain.market import Candle
from tapebook.domain.position import DayResults
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, parse_instant
from tapebook.errors import Busy
from tapebook.home import make_home
from tapebook.horizons import ContextLayer, ContextStore, Horizons, LayerCache, parse_period
from tapebook.horizons.aggregate import TradeExit
from tapebook.horizons.rollup import rollup_values
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.tick.learn import BookDays, learn_what_is_due
from tapebook.tick.prepare import gather_situation, watermarks_now
from tapebook.tick.story import deploy_agent
from tapebook.wiring import PastTerms, Rooms
from tests.api.test_live import layers
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql
from tests.desk.desks import START, Desk, desk, reply
from tests.desk.exits import as_booked, booked
from tests.horizons.makers import exit_at, ledgers
from tests.horizons.oracle import check_conservation, from_scratch, stored
from tests.matrix import examples
from tests.replay.alterations import Alteration, Kind, Vandal, undone
from tests.replay.home_fingerprint import Tables, tables

QUIET = AgentProfile("a", ("BTC", "ETH"), cadence_ms=MINUTE, reflection=ReflectionSettings("off"))
LAYERS = tuple(layer for layer in ContextLayer if layer is not ContextLayer.L7_REALTIME)


def rolled(rooms: Rooms, deployment: Deployment) -> int:
    """How many roll-ups the stream of a deployment holds."""
    events = rooms.log.events(rooms.book.stream(deployment.id))
    return sum(event.kind == "layer.rolled" for event in events)


def told(floor: Desk, deployment: Deployment, **known: Any) -> tuple[LayerRow, ...]:
    """What a decision on BTC would be told of the layers now."""
    marks = watermarks_now(floor.rooms, deployment)
    return gather_situation(floor.rooms, deployment, "BTC", as_of=floor.clock.now(), watermarks=marks, **known).horizons


# Sums


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk for many examples, each of which hires an agent of its own."""
    with desk(tmp_path_factory.mktemp("horizons") / "home") as made:
        yield made


NAMES = iter(range(10**6))


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(ledgers(most=20, days=70), st.data())
def test_layers_are_what_the_days_that_are_over_give(floor: Desk, exits: list[TradeExit], data: st.DataObject) -> None:
    """Trades that become known on their day or weeks later, in any order, by processes that come and go."""
    rooms, clock = floor.rooms, VirtualClock(0)
    rooms.clock = clock  # type: ignore[misc]
    rooms.log._clock = clock
    agent = floor.hire(AgentProfile(f"a{next(NAMES)}", ("BTC",), reflection=ReflectionSettings("off")))
    late = data.draw(st.lists(st.sampled_from((0, 0, 0, 1, 12)), min_size=len(exits), max_size=len(exits)))
    arriving: dict[int, list[TradeExit]] = {}
    for each, days in zip(data.draw(st.permutations(exits)), late, strict=True):
        arriving.setdefault(each.exited_at // DAY + days, []).append(each)
    known: list[TradeExit] = []
    for day in sorted({*arriving, *(day + 1 for day in arriving)}):
        if data.draw(st.booleans()):
            rooms.horizons = LayerCache(Horizons(rooms.book_db, owner=rooms.book.owner))  # type: ignore[misc]
        clock.advance(day * DAY + HOUR)
        learn_what_is_due(rooms, agent)
        clock.advance(day * DAY + DAY - 1)
        booked(rooms, agent, arriving.get(day, []))
        known += [as_booked(each, agent) for each in arriving.get(day, [])]
        learn_what_is_due(rooms, agent)
        over = [each for each in known if each.exited_at < day * DAY]
        check(rooms, agent, over)
        head = rooms.book.head(agent.id)
        learn_what_is_due(rooms, agent)
        assert rooms.book.head(agent.id) == head
    clock.advance(clock.now() + 1)
    learn_what_is_due(rooms, agent)
    check(rooms, agent, known)
    # One roll-up a day is enough, unless a trade came late.
    assert rolled(rooms, agent) <= len({*arriving, *(day + 1 for day in arriving)})


def check(rooms: Rooms, agent: Deployment, exits: list[TradeExit]) -> None:
    """The layers say of some trades what arithmetic says, in every layer; what was posted is beside it."""
    conn = HomeLayers(OpenHome(rooms))
    check_conservation(conn, exits, scope=agent.id)
    found, expected = stored(conn, exits, scope=agent.id), from_scratch(exits)
    posted = {place: values.pop("ledger_pnl") for place, values in found.items() if "ledger_pnl" in values}
    assert found == expected
    assert posted == {place: values["total_pnl"] for place, values in expected.items() if place[0] == "L6_DAILY"}
    seq = rooms.book.head(agent.id)
    for layer in LAYERS:
        timeframes = {timeframe for of, timeframe in expected if of is layer}
        assert set(rooms.horizons.store.timeframes(agent.id, layer, seq=seq)) == timeframes


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    """The settings of a home with its book in a file or on a server."""
    return "" if request.param == "sqlite" else f'[store]\nbook = "{request.getfixturevalue("empty_postgres")}"\n'


def test_a_week_in_two_months_and_two_years_is_split_by_day(tmp_path: Path, place: str) -> None:
    with desk(tmp_path / "home", settings=place) as floor:
        agent, rooms = floor.hire(QUIET), floor.rooms
        floor.clock.advance(parse_instant("2026-12-29T12:00"))
        booked(rooms, agent, [exit_at("2026-12-29T10:00", 1.0)])
        for day, net in (("2026-12-31", 10.0), ("2027-01-01", 100.0), ("2027-01-03", 1_000.0), ("2027-01-04", 7.0)):
            floor.clock.advance(parse_instant(f"{day}T12:00"))
            booked(rooms, agent, [exit_at(f"{day}T11:00", net)])
            learn_what_is_due(rooms, agent)
        floor.clock.advance(parse_instant("2027-01-05T00:00"))
        # Late: known on the 5th, ended in December.
        booked(rooms, agent, [exit_at("2026-12-30T10:00", 10_000.0, strategy="carry", confidence_e4=6_000)])
        learn_what_is_due(rooms, agent)
        seq, store = rooms.book.head(agent.id), rooms.horizons.store
        sums = {
            (layer.short, timeframe): rollup_values(store, agent.id, layer, timeframe, seq=seq)[key]
            for layer, key in (
                (ContextLayer.L5_WEEKLY, "weekly_pnl"),
                (ContextLayer.L4_MONTHLY, "monthly_pnl"),
                (ContextLayer.L2_ANNUAL, "annual_pnl"),
                (ContextLayer.L1_LEGACY, "total_pnl"),
            )
            for timeframe in store.timeframes(agent.id, layer, seq=seq)
        }
        assert sums == {
            ("L5", "2026-W53"): "11111.0",
            ("L5", "2027-W01"): "7.0",
            ("L4", "2026-12"): "10011.0",
            ("L4", "2027-01"): "1107.0",
            ("L2", "2026"): "10011.0",
            ("L2", "2027"): "1107.0",
            ("L1", "LEGACY"): "11118.0",
        }
        repaired = rollup_values(store, agent.id, ContextLayer.L6_DAILY, "2026-12-30", seq=seq)
        assert (repaired["avg_confidence"], repaired["ledger_pnl"]) == ("0.6", "10000.0")
        assert floor.is_whole()


def test_the_leaf_of_all_agents_is_the_sum_of_theirs(tmp_path: Path, place: str) -> None:
    with desk(tmp_path / "home", settings=place) as floor:
        one, other = floor.hire(QUIET), floor.hire(AgentProfile("b", ("BTC",)))
        floor.clock.advance(parse_instant("2026-02-03T12:00"))
        booked(floor.rooms, one, [exit_at("2026-02-03T10:00", 5.0), exit_at("2026-02-03T11:00", -2.0)])
        booked(floor.rooms, other, [exit_at("2026-02-03T10:00", 30.0)])
        home = layers(floor)
        assert home.rollup() == {one.id: True, other.id: True, "": True}
        assert home.rollup() == {one.id: False, other.id: False, "": False}
        months = {
            scope: ContextStore(home, scope=scope).get_context(ContextLayer.L4_MONTHLY, "2026-02", "monthly_pnl")
            for scope in (one.id, other.id, "")
        }
        assert months == {one.id: 3.0, other.id: 30.0, "": 33.0}
        days, until = BookDays(floor.rooms.book), {one.id: 0}
        assert days.leaf("", parse_period("day", "2026-02-03"), until=until).trades == 0
        assert floor.is_whole()


def test_only_the_action_that_was_allowed_says_how_sure_it_was(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent, book = floor.hire(QUIET), floor.rooms.book
        floor.quote(BTC=100, ETH=10)
        for symbol, sure in (("BTC", 0.8), ("ETH", 0.3)):
            replies = (
                reply("open", "long", usd, symbol=symbol, confidence=said) for usd, said in ((1e7, 0.9), (99, sure))
            )
            both = [json.loads(each)["actions"][0] for each in replies]
            run = floor.say(agent, json.dumps({"actions": both}), symbol=symbol)
            assert [verdict.allowed for verdict in run.verdicts] == [False, True]
            floor.later(10_000, BTC=100, ETH=10)
            floor.work(agent)
        for symbol in ("BTC", "ETH"):
            floor.say(agent, reply("close", symbol=symbol, confidence=0.1), symbol=symbol)
        floor.later(10_000, BTC=101, ETH=10)
        floor.work(agent)
        head = book.head(agent.id)
        ended = book.trades_closed_between(agent.id, since=START, until=START + DAY, seq=head)
        said = {each.trade.state.symbol: (each.engine, each.confidence_e4) for each in ended}
        assert said == {"BTC": ("hold", 8_000), "ETH": ("hold", 3_000)}
        for seq in range(head + 1):
            known = {each.state.trade_id for each in book.closed_trades(agent.id, seq=seq, most=9)}
            found = book.trades_closed_between(agent.id, since=START, until=START + DAY, seq=seq)
            assert {each.trade.state.trade_id for each in found} == known
        exits = [each.trade.exit_tick_at for each in ended]
        # Also moments before an exit that is known: a clock that was ahead has dated it.
        for seq, at in product(range(head + 1), (START, *(exit_at - 1 for exit_at in exits), *exits, START + DAY)):
            found = book.trades_closed_between(agent.id, since=at - at % DAY, until=at + 1, seq=seq)
            nets = [each.trade.state.net_usd_e6 for each in found]
            assert book.day_results(agent.id, seq=seq, as_of=at) == DayResults(
                len(nets), sum(net > 0 for net in nets), sum(nets)
            )
        assert book.trades_closed_between(agent.id, since=START + DAY, until=START + 2 * DAY, seq=head) == []


# When


def counted(monkeypatch: pytest.MonkeyPatch, thing: object, name: str) -> list[tuple[Any, ...]]:
    """The calls of a method from now on."""
    calls: list[tuple[Any, ...]] = []
    real = getattr(thing, name)

    def call(*of: Any, **known: Any) -> Any:
        calls.append(of)
        return real(*of, **known)

    monkeypatch.setattr(thing, name, call)
    return calls


def test_a_quiet_day_costs_one_lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path / "home") as floor:
        agent, rooms = floor.hire(QUIET), floor.rooms
        booked(rooms, agent, [exit_at(START + HOUR)])
        floor.later(2 * HOUR)
        learn_what_is_due(rooms, agent)
        asked = counted(monkeypatch, rooms.book, "days_changed")
        for _ in range(5):
            floor.later(MINUTE)
            learn_what_is_due(rooms, agent)
        assert asked == []
        booked(rooms, agent, [exit_at(floor.clock.now())])
        learn_what_is_due(rooms, agent)
        learn_what_is_due(rooms, agent)
        assert asked == [] and rolled(rooms, agent) == 0, "a trade of today waits for the end of the day"
        booked(rooms, agent, [exit_at(START - DAY)])
        learn_what_is_due(rooms, agent)
        assert len(asked) == 1 and rolled(rooms, agent) == 1, "one of a day that is over does not"
        floor.clock.advance(START + DAY)
        learn_what_is_due(rooms, agent)
        assert rolled(rooms, agent) == 2
        learn_what_is_due(rooms, agent)
        asked.clear()
        learn_what_is_due(rooms, agent)
        assert asked == []


def test_every_day_what_is_past_its_time_is_dropped(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent, rooms = floor.hire(QUIET), floor.rooms
        for day in ("2026-01-06", "2026-01-20"):
            floor.clock.advance(parse_instant(f"{day}T12:00"))
            booked(rooms, agent, [exit_at(f"{day}T10:00")])
            learn_what_is_due(rooms, agent)
        kept = []
        # A Wednesday, and a Saturday, without a trade for weeks.
        for day in ("2026-01-21", "2026-04-08", "2026-04-25"):
            floor.clock.advance(parse_instant(f"{day}T00:00"))
            learn_what_is_due(rooms, agent)
            head = rooms.book.head(agent.id)
            learn_what_is_due(rooms, agent)
            assert rooms.book.head(agent.id) == head
            kept.append(rooms.horizons.store.timeframes(agent.id, ContextLayer.L6_DAILY, seq=head))
        assert kept == [["2026-01-20", "2026-01-06"], ["2026-01-20"], []]
        assert floor.is_whole()


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.sqlite_file("copies the files of a home, and ends it between statements of SQLite")
def test_a_process_killed_at_any_statement_of_a_roll_up_leaves_no_trace(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with desk(base) as floor:
        agent = floor.hire(QUIET)
        floor.clock.advance(START + DAY)
        booked(floor.rooms, agent, [exit_at(START + HOUR, 5.0), exit_at(START + 2 * HOUR, -2.0)])
    undisturbed, statements = learned(shutil.copytree(base, tmp_path / "whole"), agent)
    assert statements > 60
    points = [*range(1, statements, 11), statements - 1, statements]
    for point in points:
        home = shutil.copytree(base, tmp_path / f"killed-{point}")
        with pytest.raises(Killed):
            learned(home, agent, dies_at=point)
        assert learned(home, agent)[0] == undisturbed
        assert learned(home, agent)[0] == undisturbed


class MortalConnection:
    """A connection to SQLite whose process may die before one of its statements."""

    def __init__(self, real: Any, *, dies_at: int) -> None:
        self._real, self._dies_at, self.statements = real, dies_at, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return partial(self._execute, found) if name in ("execute", "executemany") else found

    def __enter__(self) -> Any:
        return self._real.__enter__()

    def __exit__(self, *ended: Any) -> Any:
        return self._real.__exit__(*ended)

    def _execute(self, call: Callable[..., Any], *what: Any) -> Any:
        self.statements += 1
        if self.statements == self._dies_at:
            raise Killed
        return call(*what)


def learned(home: Path, agent: Deployment, *, dies_at: int = 0) -> tuple[Tables, int]:
    """Learns in a new process, which may die before one of its statements; all rows then, and how many there were."""
    rooms = Rooms(home, clock=VirtualClock(START + DAY))
    db: Any = rooms.book_db
    connection = MortalConnection(db._db._connection, dies_at=dies_at)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(db._db, "_connection", connection)
            learn_what_is_due(rooms, agent)
    finally:
        rooms.close()
    return tables(home), connection.statements


def test_a_sole_writer_in_one_transaction_writes_and_tells_the_same(tmp_path: Path) -> None:
    found = []
    for single_writer in (False, True):
        make_home(tmp_path / str(single_writer))
        clock = VirtualClock(START)
        past = PastTerms(watermark=None) if single_writer else None
        rooms = Rooms(tmp_path / str(single_writer), clock=clock, past=past)
        rooms.book.save_agent(QUIET, at=START)
        agent, seen = deploy_agent(rooms.book, rooms.clock, QUIET.name), []
        with rooms.log.one_transaction() if single_writer else nullcontext():
            for day in range(START // DAY, START // DAY + 12):
                clock.advance(day * DAY + 20 * HOUR)
                booked(rooms, agent, [exit_at(day * DAY + hour * HOUR, hour - 9.5) for hour in (9, 19) if day % 3])
                learn_what_is_due(rooms, agent)
                seen.append(rooms.horizons.packet_rows(agent.id, seq=rooms.book.head(agent.id), as_of=clock.now()))
        assert len(set(seen)) == 9 and rolled(rooms, agent) == 8
        # The events of a single writer lie in packs, and are the same.
        events = [event.hash for stream in rooms.log.streams() for event in rooms.log.events(stream)]
        rooms.close()
        rows = {
            name: rows for name, rows in tables(tmp_path / str(single_writer)).items() if not name.startswith("log_")
        }
        found.append((seen, events, rows))
    assert found[0] == found[1]


# What a decision is told


def trade(floor: Desk, agent: Deployment, price: float) -> None:
    """A round trip from 100."""
    floor.say(agent, reply("open", "long", 100))
    floor.later(10_000, BTC=100)
    floor.work(agent)
    floor.later(MINUTE, BTC=price)
    floor.say(agent, reply("close"))
    floor.later(10_000, BTC=price)
    floor.work(agent)


def three_days(floor: Desk) -> Deployment:
    """An agent that trades twice a day for three days, and decides at noon and just after midnight."""
    agent = floor.hire(QUIET)
    for _ in range(3):
        for price in (101, 98):
            floor.later(HOUR, BTC=100)
            trade(floor, agent, price)
        floor.clock.advance(floor.clock.now() // DAY * DAY + DAY)
        floor.quote(BTC=100)
        floor.say(agent, reply("hold"))
    return agent


def test_the_packet_has_yesterday_within_its_budget_and_replays(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = three_days(floor)
        rooms = floor.rooms
        runs = [run for name in rooms.book.run_ids(most=99) if (run := rooms.book.run(name)) is not None]
        packet = rebuild_packet(rooms, runs[0])
        section = packet.section("horizons")
        assert section is not None and packet.section_tokens["horizons"] <= 250
        assert section.rows[0][:3] == ("L6", "2026-01-07", "total_pnl_usd")
        assert [row[0] for row in section.rows[:6]] == ["L6", "L6", "L5", "L4", "L2", "L1"]
        assert rolled(rooms, agent) == 3
        first = [rebuild_packet(rooms, run).section("horizons") is None for run in runs]
        # Before the first trade ended; after it there is the day that is running.
        assert first.count(True) == 2
        assert replay_runs(rooms, [run.run_id for run in runs]).different == []
        without = AgentProfile("a", ("BTC",), context=ContextProfile(memory=False))
        blind = Deployment(agent.owner, agent.id, without, 1)
        assert told(floor, blind) == () != told(floor, agent)
        assert floor.is_whole()


def test_rows_are_made_once_a_day_and_are_exact_at_older_watermarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = three_days(floor)
        store, now, head = floor.rooms.horizons.store, floor.clock.now(), floor.rooms.book.head(agent.id)
        seen = {seq: fresh(floor).packet_rows(agent.id, seq=seq, as_of=now) for seq in range(0, head + 1)}
        assert len({rows for rows in seen.values()}) == 4
        reads = counted(monkeypatch, store, "values")
        almanac = LayerCache(store)
        for seq in range(head, -1, -1):
            assert almanac.packet_rows(agent.id, seq=seq, as_of=now) == seen[seq]
        # Twelve reads for each of three states of the layers.
        assert len(reads) <= 3 * 12
        for seq in (head, head // 2, 0, head, 3):
            assert almanac.packet_rows(agent.id, seq=seq, as_of=now) == seen[seq]
        # At midnight another day is the current one.
        assert almanac.packet_rows(agent.id, seq=head, as_of=now + 400 * DAY) == seen[head]


def quoted_days(floor: Desk, agent: Deployment, *, days: int, **steps: float) -> None:
    """Days whose hours rise, or fall, by a step each; after each of them the agent learns."""
    begun = floor.clock.now() // DAY * DAY
    for day in range(days):
        start = begun + day * DAY
        floor.clock.advance(start + DAY)
        bars = []
        for symbol, step in steps.items():
            prices = [round(100 * E8 * math.exp(step * (24 * day + hour))) for hour in range(25)]
            for hour, (first, last) in enumerate(pairwise(prices)):
                low, high = sorted((first, last))
                bars.append(Candle(symbol, 3600, start + hour * HOUR, first, high, low, last, 1.0, 1.0, 1))
        floor.rooms.tape.commit(bars)
        floor.clock.advance(start + DAY + MINUTE)
        learn_what_is_due(floor.rooms, agent)


def test_phase_volatility_and_correlation_are_of_the_market_whatever_was_traded(tmp_path: Path, place: str) -> None:
    own = f'{place}\n[horizons]\nsectors = ["BTC=Store of value"]\n'
    with desk(tmp_path / "home", settings=own) as floor:
        agent = floor.hire(QUIET)
        quoted_days(floor, agent, days=6, BTC=0.0004, ETH=-0.0004)
        assert rolled(floor.rooms, agent) == 6
        # Each symbol moved by 5.9 %, one up and one down: nobody has the most of two, and the careful word is said.
        rows = {(row.layer, row.key): row.value for row in told(floor, agent)}
        assert rows["L3", "market_phase"] == "Sideways (n=6 days): BTC +5.9%, ETH -5.6%"
        assert rows["L5", "volatility_regime"] == "low (n=6 days): BTC 4% a year, ETH 4% a year"
        assert {layer for layer, _ in rows} == {"L3", "L5"}
        store = ContextStore(layers(floor), scope=agent.id)
        assert store.get_context(ContextLayer.L4_MONTHLY, "2026-01", "market_correlation") == {"BTC ETH": -1.0}
        assert store.get_context(ContextLayer.L5_WEEKLY, "2026-W02", "sectors")["BTC"] == "Store of value"
        # A roll-up by hand finds nothing new, and another process neither.
        head = floor.rooms.book.head(agent.id)
        layers(floor).rollup("a")
        floor.rooms.horizons = fresh(floor)  # type: ignore[misc]
        learn_what_is_due(floor.rooms, agent)
        assert floor.rooms.book.head(agent.id) == head and floor.is_whole()


def test_the_running_day_and_what_is_held_together_are_told_and_replayed(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent, rooms = floor.hire(QUIET), floor.rooms
        quoted_days(floor, agent, days=6, BTC=0.0004, ETH=-0.0004)

        def trade(*actions: tuple[str, str | None, float, str]) -> None:
            for action, side, usd, symbol in actions:
                floor.later(MINUTE, BTC=100, ETH=10)
                floor.say(agent, reply(action, side, usd, symbol=symbol), symbol=symbol)
                floor.later(10_000, BTC=101, ETH=10)
                floor.work(agent)

        assert not [row for row in told(floor, agent) if row.layer in ("L6", "L7")]
        trade(("open", "long", 100, "BTC"), ("close", None, 0, "BTC"), ("open", "long", 300, "BTC"))
        (running,) = [row for row in told(floor, agent) if row.layer in ("L6", "L7")]
        assert (running.timeframe, running.key) == ("2026-01-11", "running_pnl_usd")
        assert re.fullmatch(r"-?\d+\.\d\d, 1 trade so far, \d won", running.value)
        trade(("open", "short", 100, "ETH"))
        held = [row.value for row in told(floor, agent) if row.layer == "L7"]
        assert re.fullmatch(r"long 30\d\.\d\d, short \d+\.\d\d; Bitcoin 7\d%, Layer 1 2\d%", held[0])
        assert held[1].startswith("BTC long and ETH short: -1.00 (n=6, 95% -1.00 to ")
        # The packets of before are as they were, and a process that has just begun is told the same.
        marks = watermarks_now(rooms, agent)
        rows = told(floor, agent)
        rooms.horizons = fresh(floor)  # type: ignore[misc]
        rooms.book = rooms._book(None)  # type: ignore[misc]
        assert told(floor, agent) == rows
        now, old = floor.clock.now(), PACKET_VERSIONS[4]
        four = gather_situation(rooms, agent, "BTC", as_of=now, watermarks=marks, version=old).horizons
        assert not [row for row in four if row.key in ("running_pnl_usd", "exposure_usd", "correlation")]
        # At midnight the day that was running is over.
        floor.later(DAY)
        learn_what_is_due(rooms, agent)
        assert "running_pnl_usd" not in {row.key for row in told(floor, agent)}
        assert replay_runs(rooms, rooms.book.run_ids(most=99)).different == []


def fresh(floor: Desk) -> LayerCache:
    """As a process that has just begun."""
    return LayerCache(Horizons(floor.rooms.book_db, owner=floor.rooms.book.owner))


def test_a_read_that_fails_is_named_and_left_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> NoReturn:
        raise Busy("book.db is held by another process")

    with desk(tmp_path / "home") as floor:
        agent = three_days(floor)
        floor.later(MINUTE, BTC=100)
        with monkeypatch.context() as patch:
            store = floor.rooms.horizons.store
            patch.setattr(store, "last_change", lambda scope, *, seq: 0 if not scope else failing())
            run = floor.say(agent, reply("hold"))
        assert run.degraded == ("horizons",)
        assert replay_runs(floor.rooms, [run.run_id]).different == []
        floor.later(MINUTE, BTC=100)
        assert floor.say(agent, reply("hold")).degraded == ()


OTHER_WORDS = "UPDATE context_versions SET value = 'false' WHERE deployment = '' AND seq > :curated"


@pytest.mark.sqlite_file("asks SQLite for the columns of tables")
def test_what_lies_beyond_a_watermark_changes_no_row(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = three_days(floor)
        rooms = floor.rooms
        home = layers(floor)
        ContextStore(home).set_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles", "Cut losses fast")
        floor.later(HOUR, BTC=100)
        trade(floor, agent, 97)
        ContextStore(home, scope=agent.id).set_context(ContextLayer.L4_MONTHLY, "2026-01", "rebalancing_notes", "none")
        ContextStore(home).set_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles", "Let winners run")
        home.rollup()
        home.cleanup()
        vandal, touched = Vandal(rooms), 0
        ours = [table for table in vandal.tables if table.startswith("context_") and table != "context_metadata"]
        assert len(ours) == 6
        for name in rooms.book.run_ids(most=99):
            run = rooms.book.run(name)
            assert run is not None
            kinds: tuple[Kind, ...] = ("change", "remove", "add", "elsewhere")
            for kind in kinds:
                with undone(rooms):
                    for table in ours:
                        touched += vandal.alter(run, Alteration(kind, table, by=7, later=1, nth=0))
                    rooms.horizons = fresh(floor)  # type: ignore[misc]
                    assert replay_runs(rooms, [name]).different == []
        assert touched > 500
        # What a run knew is another matter.
        with undone(rooms):
            rooms.book_db.execute(sql(OTHER_WORDS), curated=0)
            rooms.horizons = fresh(floor)  # type: ignore[misc]
            assert len(replay_runs(rooms, rooms.book.run_ids(most=99)).different) == 2


# The owner's word


def test_what_the_owner_writes_for_all_is_told_from_then_on(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        one, other = floor.hire(QUIET), floor.hire(AgentProfile("b", ("BTC",), cadence_ms=MINUTE))
        home = layers(floor)
        floor.quote(BTC=100)
        before = floor.say(one, reply("hold"))
        floor.later(MINUTE, BTC=100)
        home.set("L1", "LEGACY", "core_principles", ["Cut losses fast"])
        home.set("L4_MONTHLY", "2026-01", "rebalancing_notes", "less", agent="b")
        assert told(floor, one) == (LayerRow("L1", "LEGACY", "core_principles (curated for all)", "Cut losses fast"),)
        assert [row.value for row in told(floor, other)] == ["Cut losses fast", "less"]
        after = floor.say(one, reply("hold"))
        assert (before.watermarks.curated, after.watermarks.curated) == (0, floor.rooms.book.head())
        # Saving an agent moves the owner's stream, and changes nothing of what was written.
        floor.hire(AgentProfile("c", ("BTC",)))
        assert watermarks_now(floor.rooms, one).curated == after.watermarks.curated
        floor.later(MINUTE, BTC=100)
        home.set("L1", "LEGACY", "core_principles", None)
        assert told(floor, one) == ()
        assert replay_runs(floor.rooms, [before.run_id, after.run_id]).different == []
        stored_run = floor.rooms.book.run(after.run_id)
        assert stored_run is not None and stored_run.watermarks == after.watermarks
        assert floor.is_whole()


def test_the_facade_shows_what_was_known_at_any_moment(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(QUIET)
        floor.quote(BTC=100)
        floor.say(agent, reply("hold"))
    clock = VirtualClock(START + HOUR)
    with app.open(tmp_path / "home", clock=clock) as tb:
        tb.horizons.set("L1", "LEGACY", "never_again", "martingale")
        written = clock.now()
        clock.advance(written + HOUR)
        texts = [tb.context("a", "BTC", as_of=at).text for at in (written - 1, written, written + HOUR)]
        assert ["martingale" in text for text in texts] == [False, True, True]
        assert tb.verify() == []


@pytest.mark.sqlite_file("asks SQLite for its plan")
def test_the_plan_of_the_queries_of_a_day_uses_its_index(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        query = floor.rooms.book_db.all(
            sql(
                "EXPLAIN QUERY PLAN SELECT id FROM trade_history WHERE owner = 'local' AND deployment = 'a' "
                "AND exit_tick_at >= 1 AND exit_tick_at < 2 AND +exit_seq <= 3"
            )
        )
        assert any("trade_history_exit" in row[-1] for row in query)
