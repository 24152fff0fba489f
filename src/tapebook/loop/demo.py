"""The demo: agents trade the seeded world on paper, in virtual time, and the home remembers how far it came.

The market comes through real sockets on this machine. A demo of N seconds covers N times twenty
minutes of it. The same seed and the same N give the same bytes, on any machine and however often
the process was killed on the way. Agents that people add to its home trade along from the next run on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from tapebook.clock import VirtualClock, elapsed_seconds
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, RiskCaps
from tapebook.domain.instants import HOUR, MINUTE, parse_instant
from tapebook.domain.money import E6
from tapebook.errors import HomeError
from tapebook.home import is_home, make_home, sole_writer, write_once
from tapebook.loop.deploy import deploy
from tapebook.loop.feed import STEP, SteppedFeed
from tapebook.loop.maintain import anchor_heads
from tapebook.loop.services import VirtualDesk
from tapebook.wiring import Rooms
from tapebook.world.market import World

START = parse_instant("2026-01-05T00:00:00Z")
MARKET_MS_PER_SECOND = 20 * MINUTE
HISTORY_MS = 12 * HOUR
"""The world is older than the demo: its bars are fetched at the start, so that agents have something to look at."""

SYMBOLS = ("BTC", "ETH", "SOL", "HYPE", "DOGE", "kPEPE")
MARKER = "demo.json"

_TREND = "Follow the trend of the five-minute bars; leave when it is gone."
AGENTS = (
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


class DemoProgress(msgspec.Struct, frozen=True):
    """How far the demo has come."""

    done: float
    market_time: int
    rows: int
    ticks: int
    trades: int


class _Marker(msgspec.Struct, frozen=True):
    seed: int
    start: int
    symbols: tuple[str, ...]


def is_demo(home: Path) -> bool:
    """Whether a home lives in virtual time."""
    return (home / MARKER).is_file()


def prepare(home: Path, *, seed: int) -> None:
    """Makes a demo home, or checks that the one there was made with the same seed. Safe to interrupt and repeat."""
    marker = home / MARKER
    wanted = _Marker(seed, START, SYMBOLS)
    if is_home(home) and not is_demo(home):
        raise HomeError(f"{home} is a home of your own, not a demo: choose another folder with --home")
    write_once(marker, msgspec.json.encode(wanted).decode())
    made = msgspec.json.decode(marker.read_bytes(), type=_Marker)
    if made != wanted:
        raise HomeError(f"{home} was made with --seed {made.seed}: use that seed, or another folder with --home")
    make_home(home)


async def run(
    rooms: Rooms,
    clock: VirtualClock,
    *,
    seconds: float,
    seed: int,
    paced: bool,
    progress: Callable[[DemoProgress], None],
) -> None:
    """Runs the world up to its end, from where an earlier run stopped."""
    until = START + int(seconds * MARKET_MS_PER_SECOND)
    world = World(seed, start=START - HISTORY_MS, symbols=SYMBOLS)
    with sole_writer(rooms.home), sole_writer(rooms.home, "tape"):
        async with SteppedFeed(rooms, clock, world, history_ms=HISTORY_MS) as feed:
            desk = _desk(rooms, clock)
            async for _ in _played(feed, desk, _Pace(clock, paced=paced), until=until):
                progress(_progress(rooms, desk, clock, until))
        anchor_heads(rooms)


async def play_on(rooms: Rooms, clock: VirtualClock, *, until: Callable[[], bool]) -> None:
    """Moves the market of a demo home on, with all its agents, until something has happened; a minute at the most."""
    made = msgspec.json.decode((rooms.home / MARKER).read_bytes(), type=_Marker)
    world = World(made.seed, start=made.start - HISTORY_MS, symbols=made.symbols)
    with sole_writer(rooms.home), sole_writer(rooms.home, "tape"):
        async with SteppedFeed(rooms, clock, world, history_ms=HISTORY_MS) as feed:
            desk = _desk(rooms, clock)
            last = feed.next_step() + MINUTE
            async for _ in _played(feed, desk, _Pace(clock, paced=False), until=last, enough=until):
                pass


def seconds_beyond(moment: int) -> int:
    """How many seconds a demo must be told to run to go beyond a moment of its market."""
    return (moment - START) // MARKET_MS_PER_SECOND + 1


async def _played(
    feed: SteppedFeed, desk: VirtualDesk, pace: "_Pace", *, until: int, enough: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Plays step after step with everything due at it; comes back when it is time to show progress."""
    if feed.reached() is not None:
        desk.work()
    for at in range(feed.next_step(), until + 1, STEP):
        desk.end_waits(before=at)
        await feed.step(at)
        desk.work()
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


def _desk(rooms: Rooms, clock: VirtualClock) -> VirtualDesk:
    """The desk of a demo; who was added to it decides from the next slot on."""
    deployments, own = _deployments(rooms), [profile.name for profile in AGENTS]
    added = [each for each in deployments if each.agent.name not in own]
    since = {each.id: rooms.book.agent_history(each.agent.name)[-1][0] for each in added}
    return VirtualDesk(rooms, deployments, clock, since=since)


def _deployments(rooms: Rooms) -> list[Deployment]:
    """The demo's own agents, as they are by now, and behind them those that were added; each if it is enabled."""
    for profile in AGENTS:
        # Saved once: what its owner made of an agent since is not undone.
        if rooms.book.agent(profile.name) is None:
            rooms.book.save_agent(profile, at=rooms.clock.now())
    enabled = [profile.name for _, profile in rooms.book.agents() if profile.enabled]
    own = [profile.name for profile in AGENTS if profile.name in enabled]
    return [deploy(rooms, name) for name in (*own, *(name for name in enabled if name not in own))]


def _progress(rooms: Rooms, desk: VirtualDesk, clock: VirtualClock, until: int) -> DemoProgress:
    done = min(1.0, (clock.now() - START) / max(1, until - START))
    return DemoProgress(done, clock.now(), rooms.tape.rows_written(), desk.ticks, rooms.book.closed_count())
