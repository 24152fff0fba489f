"""What learning costs a year-long backtest: experience in a tick that learned nothing, one trade, one reflection.

A deployment with 1,000 and with 5,000 outcomes spread over a year, in a book of its own with many ticks to a commit,
as a backtest has it. Ticks come every five minutes and see bars of half an hour.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from bench.experience import MEMBERS, REGIMES, sight_at_random
from bench.figure import Figure
from tapebook.clock import VirtualClock
from tapebook.context import CURRENT_VERSION, Market
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Candle
from tapebook.domain.position import ClosedTrade, Portfolio, TradeState
from tapebook.domain.run import Action, DecisionRun, Verdict, Vote, Watermarks
from tapebook.domain.units import DAY, E6, E8, MINUTE
from tapebook.experience.events import draft_situation_seen
from tapebook.home import make_home
from tapebook.lessons import Evidence, case_of, run_reflection
from tapebook.lessons.reflection import ReflectorTerms
from tapebook.lessons.reflectors import statistics
from tapebook.tick.memory import experience_for, outcomes_due
from tapebook.tick.story import deploy_agent
from tapebook.wiring import PastTerms, Rooms

T0 = 1_700_000_000_000
YEAR = 365 * DAY
NOTIONAL = 1_000 * E6
BARS, BAR = 48, 30 * MINUTE
TICKS, WARM = 700, 100
SYMBOLS = ("BTC", "ETH", "SOL")
Took = tuple[float, float]


def run() -> list[Figure]:
    """All figures of learning."""
    figures = []
    for count in (1_000, 5_000):
        with _rooms() as (rooms, agent):
            learned = [_learned(rooms, agent, number, step=YEAR // count) for number in range(count)]
            ticks = [_ticked(rooms, agent, market) for market in _markets(T0 + YEAR)][WARM:]
        figures += _figures(f"experience in a tick, {count:,} outcomes", ticks, aim="≤ 100")
        figures += _figures(f"learning one trade, {count:,} outcomes", learned[-500:], aim="≤ 1500")
    return figures + _figures("a reflection on 200 trades", _reflections(), aim="≤ 15000")


def _figures(name: str, took: Sequence[Took], *, aim: str) -> list[Figure]:
    found = []
    for kind, words in enumerate(("", ", processor alone")):
        times = sorted(1e6 * each[kind] for each in took)
        for share in (50, 99):
            found.append(Figure(f"{name}, p{share}{words}", times[len(times) * share // 100], "µs", aim=aim))
    return found


def _timed(work: Callable[[], object]) -> Took:
    processor, clock = time.thread_time(), time.perf_counter()
    work()
    return time.perf_counter() - clock, time.thread_time() - processor


@contextmanager
def _rooms() -> Iterator[tuple[Rooms, Deployment]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        make_home(home)
        rooms = Rooms(home, clock=VirtualClock(T0), past=PastTerms(watermark=None))
        rooms.book.save_agent(AgentProfile("a", SYMBOLS, engine="ensemble", members=MEMBERS), at=T0)
        agent = deploy_agent(rooms.book, rooms.clock, "a")
        with rooms.log.one_transaction():
            yield rooms, agent
        rooms.close()


def _learned(rooms: Rooms, agent: Deployment, number: int, *, step: int) -> Took:
    """Learns one more trade; what its entry saw is written before."""
    chance = random.Random(number)
    trade, book = _trade(chance, number, step=step), rooms.book
    decision = _run(trade, chance)
    saw = draft_situation_seen(decision.run_id, trade.state.symbol, sight_at_random(chance))
    book.append(agent.id, [saw], expected_seq=book.head(agent.id))

    def learn() -> None:
        seq = book.head(agent.id)
        book.append(agent.id, rooms.experience.learn(agent.id, [(trade, decision)], seq=seq), expected_seq=seq)

    return _timed(learn)


def _ticked(rooms: Rooms, agent: Deployment, market: Market) -> Took:
    """All that experience does in a tick after which nothing was learned."""
    seq, nothing = rooms.book.head(agent.id), Portfolio({}, 0)

    def work() -> None:
        outcomes_due(rooms.book, rooms.experience, agent.id, seq=seq)
        experience_for(rooms, agent, market, portfolio=nothing, seq=seq, version=CURRENT_VERSION)

    return _timed(work)


def _markets(start: int) -> list[Market]:
    """What ticks see: bars that are read anew each time, and one more of them every sixth time."""
    chance, closes = random.Random(3), [100.0]
    for _ in range(BARS + TICKS):
        closes.append(closes[-1] * (1 + chance.gauss(0, 0.003)))
    found = []
    for number in range(TICKS):
        first = number * 5 * MINUTE // BAR
        window = closes[first : first + BARS + 1]
        begin = start - BARS * BAR + first * BAR
        bars = [_bar(begin + place * BAR, *pair) for place, pair in enumerate(pairwise(window))]
        found.append(Market("BTC", start + number * 5 * MINUTE, 30, tuple(bars)))
    return found


def _bar(start: int, before: float, after: float) -> Candle:
    o, c = round(before * E8), round(after * E8)
    return Candle("BTC", BAR // 1_000, start, o, max(o, c) + 9, min(o, c) - 9, c, 1.0, 1.0, 30)


def _trade(chance: random.Random, number: int, *, step: int) -> ClosedTrade:
    net, entry = round(chance.gauss(0, 3e6)), T0 + number * step
    state = TradeState(
        trade_id=f"{number:020x}",
        symbol=chance.choice(SYMBOLS),
        side=chance.choice(("long", "short")),
        entry_tick_at=entry,
        entry_mark_e8=100 * E8,
        entry_leverage=2,
        entry_reason="bench",
        entry_run_id=f"{number:020d}",
        entry_regime_tag=chance.choice(REGIMES),
        entry_lessons_hash=None,
        entered_e8=10 * E8,
        entered_usd_e6=NOTIONAL,
        funded_until=entry,
        exited_e8=10 * E8,
        exited_usd_e6=NOTIONAL + net,
        realised_usd_e6=net,
        mfe_usd_e6=max(net, 0),
        mae_usd_e6=min(net, 0),
    )
    return ClosedTrade(state, entry + step // 2, "bench", None)


def _run(trade: ClosedTrade, chance: random.Random) -> DecisionRun:
    state = trade.state
    sure = chance.randrange(3_000, 9_000)
    votes = tuple(Vote(name, "open", chance.choice(("long", "short")), sure, 10_000, "bench") for name in MEMBERS)
    return DecisionRun(
        run_id=state.entry_run_id or "",
        owner="local",
        deployment="a.paper",
        agent="a",
        agent_version=1,
        symbol=state.symbol,
        scheduled_for=state.entry_tick_at,
        trigger="backtest",
        branch="main",
        as_of=state.entry_tick_at,
        watermarks=Watermarks(0, 0),
        renderer=1,
        inputs_sha256="",
        packet_sha256="",
        tokens=0,
        engine="ensemble",
        packet_key=None,
        reply_key=None,
        status="done",
        actions=(Action("open", state.symbol, state.side, NOTIONAL, 2, "market", None, sure, "bench"),),
        verdicts=(Verdict(True),),
        votes=votes,
    )


def _reflections() -> list[Took]:
    """Notes as a backtest writes them: on the newest 200 trades, after every tenth."""
    chance, agent = random.Random(5), AgentProfile("a", SYMBOLS, avoid=("never trade against the weekly trend",))
    trades = [_trade(chance, number, step=YEAR // 5_000) for number in range(1_200)]
    reflector = statistics.create(ReflectorTerms())
    windows = [tuple(map(case_of, trades[end - 200 : end])) for end in range(200, 1_200, 10)]
    evidence = [Evidence(window, (), (), T0, 1) for window in windows]
    return [_timed(partial(run_reflection, reflector, agent, each)) for each in evidence]
