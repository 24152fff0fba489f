"""The demo: agents trade the seeded world on paper, in virtual time, and the home remembers how far it came.

The market comes through real sockets on this machine. A demo of N seconds covers N times twenty minutes of it. The
same seed and the same N give the same bytes, on any machine and however often the process was killed on the way.
Agents that people add to its home trade along from the next run on.

`VirtualDesk` runs deployments over market steps. One step: the clock moves to it, its observations are committed,
everything that is due then is done, and only then the next step is asked for. A decision is due when its newest bar
is finished; one that has waited long enough before the next step is made between the two. A process that is killed
anywhere comes back to the step it had committed last and finishes it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from tapebook.anchors import anchor_heads
from tapebook.book.store import Book
from tapebook.clock import Clock, VirtualClock, elapsed_seconds
from tapebook.context import MarketCache
from tapebook.desk.aging import DemoProgress, age_home
from tapebook.desk.scheduler import Pair, bar_wait_ms, due_pairs, ready_slots
from tapebook.domain.agent import (
    AgentProfile,
    ContextProfile,
    Deployment,
    ReflectionSettings,
    RiskCaps,
    parse_memory,
)
from tapebook.domain.market import Observation
from tapebook.domain.units import DAY, E6, HOUR, MINUTE, floor_to_step
from tapebook.errors import HomeError
from tapebook.home import DEMO_MARKER, DEMO_START, exclusive_lock, is_demo_home, is_home, make_home, write_once
from tapebook.ingest.stepwise import STEP_MS, SteppedFeed
from tapebook.tape.store import Tape
from tapebook.tick.decide import MarketCut, slots_of_pairs
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.story import deploy_agent, shadow_tick, tick
from tapebook.wiring import Rooms
from tapebook.world.assets import PriceHabit
from tapebook.world.market import World


class MarketStep(Protocol):
    """A moment of the market and what became known at it."""

    @property
    def at(self) -> int:
        """When it became known."""
        ...

    @property
    def observations(self) -> tuple[Observation, ...]:
        """What became known."""
        ...


class VirtualDesk:
    """All deployments of a home, driven by a market instead of a wall clock.

    `since` says of deployments that began on the way when they did: slots before that are nobody's.
    """

    def __init__(
        self,
        rooms: Rooms,
        deployments: Sequence[Deployment],
        clock: VirtualClock,
        *,
        since: Mapping[str, int] | None = None,
    ) -> None:
        self._rooms = rooms
        self._deployments = deployments
        self._clock = clock
        self._done: dict[Pair, int] = {}
        self._since = since or {}
        self._shelf = MarketCache()
        self._limit = bar_wait_ms(rooms.config)
        self._decided_at = {deployment.id: self._last_decision(deployment) for deployment in deployments}
        self.ticks = 0

    def run_steps(self, steps: Iterable[MarketStep], *, until: int, after_step: Callable[[], None]) -> None:
        """Goes through the steps up to a moment, after finishing what the last committed one may still owe."""
        if self._rooms.tape.head()[0]:
            self.do_due_work()
        for step in steps:
            if step.at > until:
                return
            self.decide_after_waits(before=step.at)
            self._clock.advance(step.at)
            self._rooms.tape.commit(step.observations)
            self.do_due_work()
            after_step()

    def do_due_work(self) -> None:
        """Everything that is due at this moment."""
        now = self._clock.now()
        for deployment in self._deployments:
            # What was decided after this step, by a process that was killed then, is finished when that moment comes.
            if self._decided_at[deployment.id] <= now and self._rooms.book.working_orders(deployment.id):
                execute_orders(self._rooms, deployment)
                reconcile_account(self._rooms, deployment)
        self._decide()

    def decide_after_waits(self, *, before: int) -> None:
        """Makes the decisions that have waited long enough for their bar before a moment, each when its wait ends."""
        waiting = self._due(self._clock.now())
        for moment in sorted({at + self._limit for _, _, at in waiting}):
            if self._clock.now() <= moment < before:
                self._clock.advance(moment)
                self._decide()

    def _decide(self) -> None:
        look = MarketCut(self._clock.now(), self._rooms.tape.head()[0], self._shelf)
        slots = slots_of_pairs(self._rooms.book, self._due(look.as_of))
        for slot in ready_slots(self._rooms.tape, slots, limit=self._limit, now=look.as_of):
            shadow_tick(self._rooms, slot, tick(self._rooms, slot, look=look))
            self._done[slot.deployment.id, slot.symbol] = slot.scheduled_for
            self.ticks += 1

    def _due(self, now: int) -> list[tuple[Deployment, str, int]]:
        found = due_pairs(self._deployments, self._done, now=now)
        return [each for each in found if each[2] >= self._since.get(each[0].id, 0)] if self._since else found

    def _last_decision(self, deployment: Deployment) -> int:
        """When the newest decision of a deployment was made; 0 without any."""
        book, seq = self._rooms.book, self._rooms.book.head(deployment.id)
        runs = [book.last_run(deployment.id, symbol, seq=seq) for symbol in deployment.agent.watchlist]
        return max([run.as_of for run in runs if run is not None], default=0)


# Thirty seconds show ten hours: enough for trades to close and for a note.
MARKET_MS_PER_SECOND = 20 * MINUTE
DEMO_HISTORY_MS = 12 * HOUR
"""The world is older than the demo: its bars are fetched at the start, so that agents have something to look at."""

DEMO_SOURCES = ("hyperliquid", "polymarket", "defillama")
DEMO_SYMBOLS = ("BTC", "ETH", "SOL", "HYPE", "DOGE", "kPEPE")
AGED_SHARE, BACKTESTED_SHARE = 0.58, 0.7
"""How much of an aged demo's time has passed when the weeks before it, and their backtests, are done; for progress."""

AGED_RANGING = MappingProxyType({"HYPE": PriceHabit(), "kPEPE": PriceHabit(range_days=16)})
"""What there is to learn in the weeks before a demo: who follows the moves of these loses, of one until it changes."""

_FIRST_RANGING = MappingProxyType({"HYPE": PriceHabit(half_life_days=0.05)})

_TREND = "Follow the trend of the five-minute bars; leave when it is gone."
DEMO_AGENTS = (
    AgentProfile(
        "btc-5m", ("BTC", "ETH"), engine="trend", strategy=_TREND, avoid=("average down on a losing position",)
    ),
    AgentProfile(
        "alts-15m",
        ("SOL", "HYPE", "DOGE", "kPEPE"),
        engine="trend",
        cadence_ms=15 * MINUTE,
        strategy=_TREND,
        caps=RiskCaps(max_position_usd_e6=1_500 * E6, max_leverage=3),
        context=ContextProfile(bar_minutes=15),
    ),
    AgentProfile("hold-5m", ("BTC",), engine="hold", strategy="Do nothing; a baseline."),
)


# Half an hour or more is enough to learn from weeks; five minutes would take six times as long.
_PAST_CADENCE_MS, _PAST_BARS = 30 * MINUTE, 48
_OFF = parse_memory("off")


def _in_the_past(profile: AgentProfile) -> AgentProfile:
    """The agent as it decided in the weeks before: less often, with fewer bars, and without documents.

    Of a decision the search of documents costs most, then rendering bars.
    """
    memory = parse_memory("lessons,experience,horizons")
    context = msgspec.structs.replace(profile.context, bar_count=_PAST_BARS, memory=memory)
    cadence = max(_PAST_CADENCE_MS, 4 * profile.cadence_ms if profile.engine == "ensemble" else 0)
    return msgspec.structs.replace(profile, cadence_ms=cadence, context=context, shadow=None)


def _with_cooldown(profile: AgentProfile) -> AgentProfile:
    return msgspec.structs.replace(profile, caps=msgspec.structs.replace(profile.caps, cooldown_ms=HOUR))


_ENSEMBLE = AgentProfile(
    "demo-ensemble",
    ("BTC", "ETH", "SOL"),
    engine="ensemble",
    members=("trend", "reversion", "breakout", "carry"),
    cadence_ms=15 * MINUTE,
    strategy="Follow the members that earned it; in chop, revert.",
    context=ContextProfile(bar_minutes=30, bar_count=48),
    shadow=ContextProfile(bar_minutes=30, bar_count=48, memory=_OFF),
    reflection=ReflectionSettings(follow="scale"),
)
_MAJORS = AgentProfile(
    "majors-15m",
    ("BTC", "HYPE"),
    engine="trend",
    cadence_ms=15 * MINUTE,
    strategy=_TREND,
    caps=RiskCaps(max_position_usd_e6=1_500 * E6, max_leverage=3),
)
_PEPE = AgentProfile(
    "pepe-5m", ("BTC", "kPEPE"), engine="trend", strategy=_TREND, caps=RiskCaps(max_position_usd_e6=500 * E6)
)
_LIVE_AGENTS = (_with_cooldown(DEMO_AGENTS[0]), _MAJORS, _PEPE, _ENSEMBLE)
AGED_AGENTS = tuple((_in_the_past(profile), profile) for profile in _LIVE_AGENTS)
"""The agents of an aged demo, as they decided in the weeks before it and as they decide in it."""

BACKTESTED_AGENT = _ENSEMBLE.name
"""Whose past is made once more, with its memory and without: of all of them it follows its memory most."""

# Fewer days could not show a difference, and each of them takes a quarter of a second.
_BACKTESTED_DAYS = 21


class _DemoMarker(msgspec.Struct, frozen=True, omit_defaults=True):
    seed: int
    start: int
    symbols: tuple[str, ...]
    aged_days: int = 0
    # Homes of before this was written had one that keeps to a range.
    ranging: dict[str, PriceHabit] = {}

    def world(self) -> World:
        """The market of the demo, which is older than it."""
        ranging = self.ranging or _FIRST_RANGING if self.aged_days else {}
        return World(self.seed, start=self.start - self.history_ms, symbols=self.symbols, ranging=ranging)

    @property
    def history_ms(self) -> int:
        """How much older."""
        return self.aged_days * DAY or DEMO_HISTORY_MS


def prepare_demo_home(home: Path, *, seed: int, weeks: float = 0) -> None:
    """Makes a demo home, or checks that the one there was made with the same seed. Safe to interrupt and repeat.

    How old it is when it begins is decided when it is made.
    """
    marker = home / DEMO_MARKER
    days = round(7 * weeks)
    wanted = _DemoMarker(seed, DEMO_START, DEMO_SYMBOLS, days, dict(AGED_RANGING) if days else {})
    if is_home(home) and not is_demo_home(home):
        raise HomeError(f"{home} is a home of your own, not a demo: choose another folder with `home=`")
    write_once(marker, msgspec.json.encode(wanted).decode())
    made = _read_marker(home)
    if made.seed != seed or made.start != DEMO_START or made.symbols != DEMO_SYMBOLS:
        raise HomeError(f"{home} was made with `seed=` {made.seed}: use that seed, or another folder with `home=`")
    make_home(home, sources=DEMO_SOURCES)


def _read_marker(home: Path) -> _DemoMarker:
    return msgspec.json.decode((home / DEMO_MARKER).read_bytes(), type=_DemoMarker)


def age_demo(home: Path, *, progress: Callable[[DemoProgress], None]) -> None:
    """Lives through the weeks before a demo, if its home was made with any and has not done so."""
    made = _read_marker(home)

    def report(step: DemoProgress) -> None:
        progress(msgspec.structs.replace(step, done=AGED_SHARE * step.done))

    # A home of before ranges were written down has lived through its past, with the agents of then.
    if made.ranging:
        age_home(home, made.world(), until=made.start, agents=AGED_AGENTS, progress=report)


def backtested_span(tape: Tape, home: Path) -> tuple[int, int] | None:
    """The time of an aged demo that is backtested; None when its market has gone on, or when it has no past.

    It ends an hour before the market goes on: the first that comes through sockets is known too early to be left out
    of the rows of a plan that ends then, and would make the backtests stale.
    """
    made = _read_marker(home)
    if not made.ranging or floor_to_step(tape.head()[1], STEP_MS) > made.start:
        return None
    return made.start - min(made.aged_days, _BACKTESTED_DAYS) * DAY, made.start - HOUR


async def run_demo(
    rooms: Rooms,
    clock: VirtualClock,
    *,
    seconds: float,
    paced: bool,
    progress: Callable[[DemoProgress], None],
) -> None:
    """Runs the world up to its end, from where an earlier run stopped."""
    until = DEMO_START + int(seconds * MARKET_MS_PER_SECOND)
    before = BACKTESTED_SHARE if _read_marker(rooms.home).aged_days else 0.0
    with exclusive_lock(rooms.home), exclusive_lock(rooms.home, "tape"):
        async with _demo_feed(rooms, clock) as feed:
            desk = _demo_desk(rooms, clock)
            async for _ in _play_steps(feed, desk, _Pace(clock, paced=paced), until=until):
                step = _demo_progress(rooms.book, desk, clock, until, tape=rooms.tape)
                progress(msgspec.structs.replace(step, done=before + (1 - before) * step.done))
        anchor_heads(rooms)


async def play_until(rooms: Rooms, clock: VirtualClock, *, until: Callable[[], bool]) -> None:
    """Moves the market of a demo home on, with all its agents, until something has happened; a minute at the most."""
    with exclusive_lock(rooms.home), exclusive_lock(rooms.home, "tape"):
        async with _demo_feed(rooms, clock) as feed:
            desk = _demo_desk(rooms, clock)
            last = feed.next_step() + MINUTE
            async for _ in _play_steps(feed, desk, _Pace(clock, paced=False), until=last, enough=until):
                pass


def _demo_feed(rooms: Rooms, clock: VirtualClock) -> SteppedFeed:
    made = _read_marker(rooms.home)
    return SteppedFeed(rooms, clock, made.world(), history_ms=made.history_ms, fetch_ms=DEMO_HISTORY_MS)


def demo_seconds_beyond(moment: int) -> int:
    """How many seconds a demo must be told to run to go beyond a moment of its market."""
    return (moment - DEMO_START) // MARKET_MS_PER_SECOND + 1


async def _play_steps(
    feed: SteppedFeed, desk: VirtualDesk, pace: "_Pace", *, until: int, enough: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Plays step after step with everything due at it; comes back when it is time to show progress."""
    if feed.newest_step() is not None:
        desk.do_due_work()
    for at in range(feed.next_step(), until + 1, STEP_MS):
        desk.decide_after_waits(before=at)
        await feed.play_step(at)
        desk.do_due_work()
        if enough():
            break
        if await pace.wait():
            yield
    yield


class _Pace:
    """Keeps the world from running ahead of its clock, and says when to show progress."""

    def __init__(self, clock: VirtualClock, *, paced: bool) -> None:
        self._clock = clock
        self._paced = paced
        self._market_start = clock.now()
        self._start = self._shown = elapsed_seconds()

    async def wait(self) -> bool:
        """Sleeps if market time is ahead; True a few times a second."""
        now = elapsed_seconds()
        if self._paced:
            ahead = (self._clock.now() - self._market_start) / MARKET_MS_PER_SECOND - (now - self._start)
            # Sleeping for less than this costs more than it evens out.
            if ahead > 0.05:
                await asyncio.sleep(ahead)
        if now - self._shown < 0.25:
            return False
        self._shown = now
        return True


def _demo_desk(rooms: Rooms, clock: VirtualClock) -> VirtualDesk:
    """The desk of a demo; who was added to it decides from the next slot on."""
    deployments, own = _demo_deployments(rooms.book, rooms.clock), [profile.name for profile in DEMO_AGENTS]
    added = [each for each in deployments if each.agent.name not in own]
    since = {each.id: rooms.book.agent_history(each.agent.name)[-1][0] for each in added}
    return VirtualDesk(rooms, deployments, clock, since=since)


def _demo_deployments(book: Book, clock: Clock) -> list[Deployment]:
    """The demo's own agents, as they are by now, and behind them those that were added; each if it is enabled."""
    for profile in DEMO_AGENTS:
        # Saved once: what its owner made of an agent since is not undone.
        if book.agent(profile.name) is None:
            book.save_agent(profile, at=clock.now())
    enabled = [profile.name for _, profile in book.agents() if profile.enabled]
    own = [profile.name for profile in DEMO_AGENTS if profile.name in enabled]
    return [deploy_agent(book, clock, name) for name in (*own, *(name for name in enabled if name not in own))]


def _demo_progress(book: Book, desk: VirtualDesk, clock: VirtualClock, until: int, *, tape: Tape) -> DemoProgress:
    done = min(1.0, (clock.now() - DEMO_START) / max(1, until - DEMO_START))
    return DemoProgress(done, clock.now(), tape.rows_written(), desk.ticks, book.closed_trade_count())
