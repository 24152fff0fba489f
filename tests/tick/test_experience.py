"""Experience in the tick: settings of an agent's version, snapshots, and specialists over the whole path."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook import context
from tapebook.decision import EngineAnswer
from tapebook.decision.engines.ensemble import EnsembleEngine
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, ExperienceSettings, ReflectionSettings
from tapebook.domain.market import AssetContext, Candle, SettledFunding
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, parse_instant
from tapebook.experience import HALF_HOUR, feature_vector_of, features_of_bars, market_features_at
from tapebook.experience.events import draft_situation_seen
from tapebook.experience.records import ALL, records_from_scratch
from tapebook.lab.replay import replay_runs
from tapebook.tape.bars import classify_regime, regime_of
from tapebook.tape.view import View
from tapebook.tick.decide import Slot
from tapebook.tick.learn import snapshots_due
from tapebook.tick.memory import (
    _feature_vector_cache,
    append_experience_snapshot,
    market_regime,
    outcomes_due,
)
from tapebook.tick.prepare import read_lookback
from tapebook.tick.story import tick
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.desk.desks import START, Desk, desk, reply
from tests.experience.makers import closed, run_of, sight
from tests.experience.test_moments import walk

BARS = 15
OFF = ReflectionSettings("off")
PROFILE = AgentProfile(
    *("a", ("BTC",)),
    cadence_ms=MINUTE,
    engine="ensemble",
    members=("trend", "reversion"),
    context=ContextProfile(bar_minutes=1, bar_count=BARS),
    reflection=OFF,
)


class Says:
    """A member of an ensemble that always votes for one side, more or less surely."""

    identity = ""

    def __init__(self, side: str, rng: random.Random) -> None:
        self._side = side
        self._rng = rng

    def decide(self, packet: Packet) -> EngineAnswer:
        """An open with a confidence at random."""
        sure = self._rng.uniform(0.50, 0.60)
        return EngineAnswer(reply("open", self._side, 100, symbol=packet.symbol, confidence=sure))


class Market:
    """Trends that go on and chop that turns, four times of five."""

    def __init__(self, floor: Desk, agent: Deployment, *, seed: int) -> None:
        self._floor, self._agent = floor, agent
        self._rng = random.Random(seed)
        members = [("trend", Says("long", self._rng)), ("reversion", Says("short", self._rng))]
        # Of two that never agree neither is a majority: a third voice decides.
        self._ensemble = EnsembleEngine([*members, ("coin", Says(self._rng.choice(("long", "short")), self._rng))])

    def round(self) -> tuple[str, DecisionRun]:
        """One round trip: which market it was in, and the decision that began it."""
        trending = self._rng.random() < 0.5
        price = self._bars(0.001 if trending else 0.0)
        run = tick(self._floor.rooms, self._slot(), ask=self._ask)
        self._fill(price)
        rises = (self._rng.random() < 0.8) == trending
        self._floor.later(MINUTE, BTC=price * (1.01 if rises else 0.99))
        self._floor.say(self._agent, reply("close"))
        self._fill(price * (1.01 if rises else 0.99))
        return ("trend" if trending else "chop"), run

    def look(self, drift: float) -> str:
        """What a decision would be told now, in a market of one kind."""
        self._bars(drift)
        run = self._floor.say(self._agent, reply("hold"))
        return (self._floor.rooms.archive.get(run.packet_key or "") or b"").decode()

    def _slot(self) -> Slot:
        return Slot(self._agent, "BTC", self._floor.clock.now())

    def _ask(self, _decide: object, packet: Packet) -> EngineAnswer:
        return self._ensemble.decide(packet)

    def _bars(self, drift: float) -> float:
        self._floor.later(BARS * MINUTE)
        end = self._floor.clock.now() - self._floor.clock.now() % MINUTE
        bars, close = [], 100.0
        for number in range(BARS):
            before, close = close, close * (1 + drift + (0.0005 if number % 2 else -0.0005))
            o, c = round(before * E8), round(close * E8)
            start = end - (BARS - number) * MINUTE
            bars.append(Candle("BTC", 60, start, o, max(o, c), min(o, c), c, 1.0, 100.0, 1))
        self._floor.rooms.tape.commit(bars)
        self._floor.quote(BTC=close)
        return close

    def _fill(self, price: float) -> None:
        self._floor.later(10_000, BTC=price)
        self._floor.work(self._agent)


def side_of(run: DecisionRun) -> str | None:
    return next((action.side for action in run.actions if action.action == "open"), None)


def weights(text: str) -> dict[str, float]:
    """The weights a packet tells an ensemble."""
    rows = re.findall(r"^- provider (\S+): (\S+)$", text, re.MULTILINE)
    return {name: float(weight) for name, weight in rows}


def packet_of(floor: Desk, run: DecisionRun) -> str:
    return (floor.rooms.archive.get(run.packet_key or "") or b"").decode()


def learned(floor: Desk, agent: Deployment, count: int) -> None:
    """Writes trades that ended, and moments of twelve days of quarters of an hour."""
    rng, book = random.Random(1), floor.rooms.book
    bars = walk(rng, start=START - 12 * DAY, count=12 * 96)
    floor.rooms.tape.commit(bars, assumed=lambda bar: bar.bucket_ts + 15 * MINUTE)
    for at in range(START - 8 * DAY, START, HOUR):
        lookback = read_lookback(floor.rooms.tape, "BTC", view=View(at))
        seen = floor.rooms.experience.seen_moment(context.Market("BTC", at, 1, lookback=lookback))
        assert seen is not None
        drafts = floor.rooms.experience.moments.note(agent.id, "BTC", seen, costs_ppm=1_500, seq=book.head(agent.id))
        book.append(agent.id, drafts, expected_seq=book.head(agent.id))
    for number in range(count):
        trade = closed(number, net_bps=rng.gauss(10, 30), exited_at=START - (count - number) * MINUTE)
        run = run_of(trade, engine="ensemble")
        book.append(agent.id, [draft_situation_seen(f"r{number}", "BTC", sight(rng))], expected_seq=book.head(agent.id))
        drafts = floor.rooms.experience.learn(agent.id, [(trade, run)], seq=book.head(agent.id))
        book.append(agent.id, drafts, expected_seq=book.head(agent.id))


CHOSEN = [
    ({}, ["last 20 days: ", "- similar next 4 h: ", ", n=25, "], []),
    ({"context_window": 3}, ["last 3 days: "], ["last 20 days: "]),
    ({"neighbours": 10}, ["- similar next 4 h: ", ", n=10, "], [", n=25, "]),
    ({"max_memory_size": 7}, ["last 20 days: ", "(n=7, "], [", n=25, "]),
    ({"enabled": False}, [], ["## Experience"]),
]


@pytest.mark.parametrize(("chosen", "there", "gone"), CHOSEN)
def test_settings_are_those_of_the_agents_version(
    tmp_path: Path, chosen: dict[str, int], there: list[str], gone: list[str]
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        learned(floor, agent, 105)
        floor.later(MINUTE, BTC=100)
        before = floor.say(agent, reply("hold"))
        changed = floor.hire(replace(PROFILE, experience=replace(ExperienceSettings(), **chosen)))
        assert changed.version == (2 if chosen else 1)
        floor.later(MINUTE, BTC=100)
        text = packet_of(floor, floor.say(changed, reply("hold")))
        assert all(words in text for words in there)
        assert not any(words in text for words in gone)
        # A decision of the version before is told what it was told.
        assert ", n=25, " in packet_of(floor, before)
        assert replay_runs(floor.rooms, floor.rooms.book.run_ids(most=99)).different == []


def test_learning_goes_on_while_it_is_switched_off(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(replace(PROFILE, experience=ExperienceSettings(enabled=False)))
        market = Market(floor, agent, seed=2)
        for _ in range(3):
            market.round()
        market.look(0.0)
        assert len(floor.rooms.experience.outcomes(agent.id, seq=floor.rooms.book.head(agent.id), most=9)) == 3


def test_a_snapshot_is_an_event_of_its_deployment(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        learned(floor, agent, 12)
        middle = floor.rooms.book.head(agent.id)
        span, book, experience = (START, START + MINUTE), floor.rooms.book, floor.rooms.experience
        head = append_experience_snapshot(book, experience, agent.id, label="Q1", since_seq=0, seq=middle, span=span)
        assert head == floor.rooms.book.head(agent.id) == middle + 1
        append_experience_snapshot(book, experience, agent.id, label="Q2", since_seq=middle, seq=head, span=span)
        found = floor.rooms.experience.snapshots(agent.id, seq=head + 1)
        assert [(each.chunk, each.result.n) for each in found] == [("Q2", 0), ("Q1", 12)]
        assert floor.is_whole()


def test_a_desk_sums_up_each_month_that_is_over_once(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        market = Market(floor, agent, seed=3)
        taken = []
        # Two trades in January, none in February, one each in March and April; nobody decides before the middle of May.
        for at, rounds in (
            ("2026-01-28", 2),
            ("2026-02-10", 0),
            ("2026-03-05", 1),
            ("2026-04-30", 1),
            ("2026-05-15", 0),
        ):
            floor.clock.advance(max(floor.clock.now(), parse_instant(at)))
            for _ in range(rounds):
                market.round()
            market.look(0.0)
            head = floor.rooms.book.head(agent.id)
            taken.append([(each.chunk, each.result.n) for each in floor.rooms.experience.snapshots(agent.id, seq=head)])
        january, march, april = ("2026-01", 2), ("2026-03", 1), ("2026-04", 1)
        assert taken == [[], [january], [january], [march, january], [april, march, january]]
        # A new process, another decision and another outcome change nothing of it.
        again = Rooms(floor.rooms.home, clock=floor.clock)
        seq, now = again.book.head(agent.id), again.clock.now()
        assert snapshots_due(again.book, again.experience, agent.id, seq=seq, now=now) == []
        again.close()
        market.round()
        market.look(0.0)
        found = floor.rooms.experience.snapshots(agent.id, seq=floor.rooms.book.head(agent.id))
        assert [each.chunk for each in found] == ["2026-04", "2026-03", "2026-01"]
        outcomes = floor.rooms.experience.outcomes(agent.id, seq=floor.rooms.book.head(agent.id), most=99)
        first = [each for each in outcomes if each.exited_at < parse_instant("2026-02-01")]
        parts = {record.key: record for record in found[-1].parts}
        assert parts == {key: each for key, each in records_from_scratch(first).items() if key in parts}
        assert found[-1].result == records_from_scratch(first)[ALL, ""]
        assert replay_runs(floor.rooms, floor.rooms.book.run_ids(most=999)).different == []
        assert floor.is_whole()


def test_a_month_that_could_not_be_written_is_summed_up_later(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        market = Market(floor, agent, seed=3)
        market.round()
        market.look(0.0)
        floor.clock.advance(parse_instant("2026-02-10"))
        floor.rooms.book_db.execute(sql("ALTER TABLE experience_snapshots RENAME TO gone"))
        market.look(0.0)
        (broken,) = floor.rooms.book.degraded_runs(since=0)
        assert broken[1][0].startswith("learning snapshots: ")
        floor.rooms.book_db.execute(sql("ALTER TABLE gone RENAME TO experience_snapshots"))
        market.look(0.0)
        (found,) = floor.rooms.experience.snapshots(agent.id, seq=floor.rooms.book.head(agent.id))
        assert (found.chunk, found.result.n) == ("2026-01", 1)


def test_runs_of_trades_that_were_learned_from_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        Market(floor, agent, seed=1).round()
        first = floor.rooms.book.head(agent.id)
        due = outcomes_due(floor.rooms.book, floor.rooms.experience, agent.id, seq=first)
        floor.rooms.book.append(agent.id, due, expected_seq=first)
        assert [draft.kind for draft in due] == ["experience.learned"]
        asked: list[str] = []
        monkeypatch.setattr(floor.rooms.book, "run", asked.append)
        assert (
            outcomes_due(floor.rooms.book, floor.rooms.experience, agent.id, seq=floor.rooms.book.head(agent.id)) == []
            and not asked
        )


def windows_of(*steps: tuple[str, float]) -> list[context.Market]:
    windows = []
    for symbol, step in steps:
        closes = [round(100 * step**number * E8) for number in range(60)]
        bars = [Candle(symbol, 60, START + n * MINUTE, c, c + 9, c - 9, c, 1.0, 1.0, 1) for n, c in enumerate(closes)]
        windows.append(context.Market(symbol, START, 1, tuple(bars)))
    return windows


WINDOWS = windows_of(("BTC", 1.001), ("ETH", 0.995), ("BTC", 0.999))
SEEN = st.tuples(
    st.sampled_from(WINDOWS), st.integers(0, 90), st.sampled_from((-1, 0, 1)), st.sampled_from((None, 5, -7))
)


@given(st.lists(SEEN, max_size=12))
def test_a_reading_that_is_kept_is_that_of_the_moment(looks: list[tuple[context.Market, int, int, int | None]]) -> None:
    for market, minutes, held, rate in looks:
        as_of = START + minutes * MINUTE
        funding = None if rate is None else AssetContext(market.symbol, START, rate * 10**7, 0, 1.0, 0, 0)
        read = _feature_vector_cache(market.symbol, 1, len(market.bars), held=held)
        expected = feature_vector_of(market_features_at(as_of, features_of_bars(market.bars), funding, None, held=held))
        assert read((market.bars, funding, None, as_of // HALF_HOUR)) == expected


def test_settled_funding_is_seen_by_the_hour() -> None:
    market = WINDOWS[0]
    read = _feature_vector_cache(market.symbol, 1, len(market.bars), held=0)
    settled = SettledFunding("BTC", START, 800_000_000, 8)
    hourly = AssetContext("BTC", START, 100_000_000, 0, 1.0, 0, 0)
    sight = market_features_at(START, features_of_bars(market.bars), hourly, None, held=0)
    expected = feature_vector_of(replace(sight, premium=None))
    assert read((market.bars, settled, None, START // HALF_HOUR)) == expected


def test_a_packet_of_renderer_2_is_told_of_unscaled_regimes() -> None:
    windows = [*WINDOWS, *windows_of(("SOL", 1.00005))]
    tagged = [replace(each, regime=regime_of(each.bars)) for each in windows]
    old = [classify_regime([bar.close_e8 / 1e8 for bar in each.bars]) for each in windows]
    for _ in range(2):
        assert [market_regime(each, version=context.PACKET_VERSIONS[2]) for each in tagged] == old
        assert [market_regime(each, version=context.PACKET_VERSIONS[3]) for each in tagged] == [
            each.regime for each in tagged
        ]
    # 0.3 % in an hour is a trend, which it is not in the eight hours of the seed.
    assert (old[-1], tagged[-1].regime) == ("chop_lowvol", "trend_up_lowvol")
