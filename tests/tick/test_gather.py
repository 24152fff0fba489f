"""One decision's reads: bounded by watermarks, shared where they may be, and honest about what failed."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.context import CURRENT_RENDERER, PACKET_VERSIONS, MarketCache, PacketCaches, Situation, assemble_packet
from tapebook.context.assemble import RENDERER_SECTIONS, ROOM_OF_SECTION
from tapebook.domain.agent import ContextProfile, Deployment, parse_memory
from tapebook.domain.market import Candle, FeatureRow
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import MINUTE
from tapebook.errors import Busy
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.tape.bars import regime_of
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.decide import Slot
from tapebook.tick.prepare import account_activity, gather_situation, regime_at, watermarks_now
from tapebook.tick.story import tick
from tapebook.wiring import Rooms
from tests.caches import forget
from tests.db.places import sql
from tests.replay import desk


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk after two hours; only to be copied."""
    home = tmp_path_factory.mktemp("gather") / "desk"
    desk.trade(home)
    return home


@pytest.fixture
def rooms(recorded: Path, tmp_path: Path) -> Iterator[Rooms]:
    """The rooms of a copy."""
    with desk.opened(shutil.copytree(recorded, tmp_path / "copy")) as (opened, _):
        yield opened


def quick(rooms: Rooms, **context: Any) -> Deployment:
    """The agent that trades most, perhaps with another context."""
    found = rooms.book.agent("quick-2m")
    assert found is not None
    profile = msgspec.structs.replace(found[1], context=msgspec.structs.replace(found[1].context, **context))
    return Deployment("local", "quick-2m.paper", profile, found[0])


def now(rooms: Rooms, deployment: Deployment, **options: Any) -> Situation:
    """What is known of HYPE now."""
    known = watermarks_now(rooms, deployment)
    return gather_situation(rooms, deployment, "HYPE", as_of=rooms.clock.now(), watermarks=known, **options)


def all_runs(rooms: Rooms) -> list[DecisionRun]:
    """Every decision, newest first."""
    found = (rooms.book.run(run_id) for run_id in rooms.book.run_ids(most=1_000))
    return [run for run in found if run is not None]


READ_FACTS: Callable[..., list[Any]] = Tape.facts


def failing(*_: object, **__: object) -> NoReturn:
    """A store that does not answer."""
    raise Busy("book.db is held by another process")


def facts_of_bars_alone(tape: Tape, kind: Any, symbol: str, **terms: Any) -> list[Any]:
    """Reads bars, and fails for what a decision may do without."""
    return READ_FACTS(tape, kind, symbol, **terms) if kind is Candle else failing()


# What is shared


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.proof)])
def test_packets_from_the_shelf_are_the_same_to_the_last_byte(rooms: Rooms, step: int) -> None:
    shelf, caches, sent = MarketCache(most=8), PacketCaches(), all_runs(rooms)
    assert len(sent) > 100
    for run in sent[::step]:
        found = rooms.book.agent(run.agent, version=run.agent_version)
        assert found is not None
        deployment = Deployment(run.owner, run.deployment, found[1], run.agent_version)
        known: Any = {"as_of": run.as_of, "watermarks": run.watermarks}
        shared = [
            assemble_packet(gather_situation(rooms, deployment, run.symbol, shelf=shelf, **known), caches)
            for _ in range(2)
        ]
        forget()
        assert shared == [assemble_packet(gather_situation(rooms, deployment, run.symbol, **known))] * 2
        assert shared[0].sha256 == run.packet_sha256
    assert len(shelf) == 8


def test_agents_due_together_read_the_market_once(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, deployment = MarketCache(), quick(rooms)
    first = now(rooms, deployment, shelf=shelf)
    other = msgspec.structs.replace(deployment, id="slow-40m.paper")
    monkeypatch.setattr(Tape, "candles", failing)
    second = gather_situation(rooms, other, "HYPE", as_of=first.as_of, watermarks=first.watermarks, shelf=shelf)
    assert second.market is first.market
    with pytest.raises(Busy):
        now(rooms, quick(rooms, bar_count=59), shelf=shelf)


def test_market_that_was_not_read_whole_is_not_shared(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = MarketCache()
    with monkeypatch.context() as patch:
        patch.setattr(Tape, "facts", facts_of_bars_alone)
        assert now(rooms, quick(rooms), shelf=shelf).degraded == ("features",)
    assert len(shelf) == 0
    whole = now(rooms, quick(rooms), shelf=shelf)
    assert (whole.degraded, len(shelf)) == ((), 1)
    # One that leaves features out does not take them from the shelf either.
    assert now(rooms, quick(rooms), shelf=shelf, skip=("features",)).market.liquidity is None


# What fails

EMPTY = ((), None, (None, None, ()))
OPTIONAL: dict[str, tuple[str, str, Callable[[Situation], object]]] = {
    "features": ("tape", "facts", lambda it: (it.market.liquidity, it.market.context, it.market.features)),
    "activity": ("book", "session", lambda found: found.activity),
    "recent_trades": ("book", "closed_trades", lambda found: found.closed_trades),
    "last_decision": ("book", "last_run", lambda found: found.last_run),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_section_that_fails_is_empty_and_named(name: str, rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    room, method, part = OPTIONAL[name]
    deployment = quick(rooms)
    whole = now(rooms, deployment)
    assert part(whole) not in EMPTY and whole.degraded == ()
    with monkeypatch.context() as patch:
        patch.setattr(type(getattr(rooms, room)), method, facts_of_bars_alone if method == "facts" else failing)
        found = now(rooms, deployment)
    assert found.degraded == (name,)
    assert part(found) in EMPTY
    portfolio = assemble_packet(found).section("portfolio")
    assert portfolio is not None and portfolio.get("could_not_be_read") == name
    # Named, it is left out again, and everything else is as it was.
    again = now(rooms, deployment, skip=found.degraded)
    assert again == found
    assert assemble_packet(again) == assemble_packet(found) != assemble_packet(whole)


def test_run_that_was_made_degraded_replays_to_the_same_bytes(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot(quick(rooms), "HYPE", rooms.clock.now(), trigger="manual")
    with monkeypatch.context() as patch:
        patch.setattr(type(rooms.book), "closed_trades", failing)
        run = tick(rooms, slot)
    assert run.degraded == ("recent_trades",)
    assert rebuild_packet(rooms, run).section("recent_trades") is None
    assert replay_runs(rooms, [run.run_id]).different == []
    forgotten = msgspec.structs.replace(run, degraded=())
    assert rebuild_packet(rooms, forgotten).sha256 != run.packet_sha256


@pytest.mark.parametrize("gone", [1, max(PACKET_VERSIONS) + 1])
def test_run_whose_renderer_is_gone_has_its_inputs_compared(rooms: Rooms, gone: int) -> None:
    assert gone not in PACKET_VERSIONS
    run = all_runs(rooms)[0]
    where = {"run_id": run.run_id}
    rooms.book_db.execute(sql(f"UPDATE decision_runs SET renderer = {gone} WHERE run_id = :run_id"), **where)
    report = replay_runs(rooms, [run.run_id])
    assert (report.checked, report.equal, report.different) == (1, 0, [])
    (said,) = report.inputs_equal
    assert re.fullmatch(
        rf"{run.run_id}: the inputs are equal, read as by renderer [345]; the text is by renderer {gone}, which this "
        "tapebook does not have, and in the archive it is as it was sent",
        said,
    )
    # A packet that was altered in the archive is found whoever wrote it.
    with monkeypatched_archive(rooms, b"You are somebody else"):
        (said,) = replay_runs(rooms, [run.run_id]).different
    assert said == f"{run.run_id}: the packet in the archive is not the one that was sent"
    rooms.tape_db.execute(sql("UPDATE hyperliquid_candles SET high_e8 = high_e8 + 700000000"))
    (said,) = replay_runs(rooms, [run.run_id]).different
    known = ", ".join(map(str, sorted(PACKET_VERSIONS)))
    assert said == (
        f"{run.run_id}: the inputs are not those of renderers {known}; renderer {gone}, which made the packet, is not "
        "here: replay it with the tapebook that made it"
    )


@contextmanager
def monkeypatched_archive(rooms: Rooms, content: bytes) -> Iterator[None]:
    """An archive that has something else under every key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(rooms.archive), "get", lambda _archive, _key: content)
        yield


def test_every_renderer_since_the_second_is_kept() -> None:
    assert sorted(PACKET_VERSIONS) == sorted(RENDERER_SECTIONS) == list(range(2, CURRENT_RENDERER + 1))


def learn(rooms: Rooms, row: FeatureRow) -> None:
    """The tape learns a row, and a minute goes by."""
    rooms.tape.commit([row])
    assert isinstance(rooms.clock, VirtualClock)
    rooms.clock.advance(row.bucket_ts + MINUTE)


def test_feature_that_cannot_be_read_is_a_failed_feature(rooms: Rooms) -> None:
    learn(rooms, FeatureRow("HYPE", rooms.clock.now(), "not json", "pressure"))
    assert now(rooms, quick(rooms)).degraded == ("features",)


@pytest.mark.parametrize(
    ("room", "method"), [("tape", "candles"), ("tape", "newest"), ("book", "account"), ("book", "orders_under_way")]
)
def test_without_bars_price_or_account_there_is_no_decision(
    room: str, method: str, rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, known = quick(rooms), watermarks_now(rooms, quick(rooms))
    monkeypatch.setattr(type(getattr(rooms, room)), method, failing)
    with pytest.raises(Busy):
        gather_situation(rooms, deployment, "HYPE", as_of=rooms.clock.now(), watermarks=known)


# What is offered


def test_agent_without_memory_reads_none(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("closed_trades", "last_run"):
        monkeypatch.setattr(type(rooms.book), method, failing)
    found = now(rooms, quick(rooms, memory=False))
    assert (found.degraded, found.closed_trades, found.last_run) == ((), (), None)
    assert found.activity is not None
    assert [section.name for section in assemble_packet(found).sections] == ["bars", "market", "portfolio"]


@pytest.mark.parametrize("memory", ["off", "lessons", "experience,horizons", "none,trades", "none,lessons"])
def test_a_packet_shows_the_rooms_that_are_on_and_no_other(rooms: Rooms, memory: str) -> None:
    """What is shown of a room is the same whatever stands beside it."""
    on, some = now(rooms, quick(rooms)), now(rooms, quick(rooms, memory=parse_memory(memory)))
    shown, rooms_on = assemble_packet(some), some.deployment.agent.context.rooms
    whole = {section.name: section for section in assemble_packet(on).sections}
    of_memory = {section.name: section for section in shown.sections if section.name in ROOM_OF_SECTION}
    assert (
        of_memory == {name: section for name, section in whole.items() if ROOM_OF_SECTION.get(name) in rooms_on}
        and whole.keys() - of_memory.keys()
    )
    assert some.lessons == (on.lessons if "lessons" in rooms_on else None)
    assert some.activity == on.activity, "the caps are weighed against it in any case"


@pytest.mark.parametrize(("asked", "read"), [(0, 0), (2, 2), (31, 30), (1_000, 30)])
def test_trades_are_read_up_to_their_most(asked: int, read: int, rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(book: object, name: str, *, seq: int, most: int) -> list[object]:
        seen.append(most)
        return []

    monkeypatch.setattr(type(rooms.book), "closed_trades", counted)
    now(rooms, quick(rooms, recent_trades_k=asked))
    assert seen == [read]


def test_features_of_the_tape_are_in_the_packet(rooms: Rooms) -> None:
    metrics = '{"fundingRate8h":"0.0001000000","regime":"crowded_long","venueSpread8h":null}'
    learn(rooms, FeatureRow("HYPE", rooms.clock.now(), metrics, "pressure"))
    section = assemble_packet(now(rooms, quick(rooms))).section("market")
    assert section is not None
    assert section.get("fundingPressure") == "fundingRate8h=0.0001000000 regime=crowded_long age_s=60"
    assert "booksUsed=" in (section.get("liquidityProfile") or "")


def test_the_packet_shows_the_regime_that_a_trade_would_be_tagged_with(rooms: Rooms) -> None:
    deployment = quick(rooms)
    found = now(rooms, deployment)
    section = assemble_packet(found).section("market")
    assert section is not None and section.get("regime") == found.market.regime == regime_of(found.market.bars)
    view = View(found.as_of, found.watermarks.tape)
    assert regime_at(rooms.tape, deployment, found.symbol, view=view) == found.market.regime is not None


def test_a_regime_that_cannot_be_read_is_null_and_raises_nothing(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = quick(rooms)
    monkeypatch.setattr(type(rooms.tape), "bars_and_end", failing)
    assert regime_at(rooms.tape, deployment, "HYPE", view=View(rooms.clock.now())) is None


def test_activity_for_the_guard_is_the_packets(rooms: Rooms) -> None:
    deployment = quick(rooms)
    found = now(rooms, deployment)
    assert found.activity is not None and found.activity.executed_today > 0
    account, view = rooms.book.account(deployment.id, seq=found.watermarks.book), View(found.as_of)
    again = account_activity(rooms.book, rooms.tape, deployment.id, account, view=view, memory=rooms.memory)
    assert again == found.activity


def test_nothing_is_held_when_the_default_profile_asks(rooms: Rooms) -> None:
    """The usual context of a new agent, on a tape that is younger than it reaches."""
    stranger = msgspec.structs.replace(quick(rooms), id="new.paper")
    fresh = msgspec.structs.replace(stranger, agent=msgspec.structs.replace(stranger.agent, context=ContextProfile()))
    found = now(rooms, fresh)
    assert 0 < len(found.market.bars) < 100
    assert (found.portfolio.positions, found.closed_trades, found.degraded) == ({}, (), ())
    assert found.activity is not None and found.activity.day_start_equity_usd_e6 == fresh.agent.starting_cash_usd_e6
    assert found.portfolio.cash_usd_e6 == fresh.agent.starting_cash_usd_e6
    assert found.watermarks.tape == rooms.tape.head()[0]
