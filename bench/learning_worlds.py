"""What memory does in markets whose character is known: doing nothing, memory off, memory on, and the best member.

Sixty days of five-minute prices for each of twenty seeds: without an edge, reverting to a slow anchor, trending for a
day or so at a time, turning from reverting to trending midway, two symbols of opposite character in one account, and
reverting at doubled costs. Bars are of half an hour, decisions every five minutes, a unit is 1,000 USD, and a
trade costs 5.5 bps.

Seeds run through the functions that a decision is made of, without a store: the targets of the rules, the twins,
their trust, and the follower that trades with the band. A real backtest of one seed is compared with it decision by
decision. Intervals are those of the mean of the paired differences (95 %, Student).
"""

import math
import random
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import msgspec

import tapebook
from bench.figure import Figure
from tapebook.clock import SystemClock
from tapebook.decision.engines import breakout, reversion, trend
from tapebook.decision.rule_engine import RuleEngine
from tapebook.domain.agent import AgentProfile, context_for_horizon
from tapebook.domain.estimate import student_quantile
from tapebook.domain.market import Candle
from tapebook.domain.packet import BarPrices
from tapebook.domain.run import DecisionRun, SlotMark
from tapebook.domain.units import DAY, E8, MINUTE, parse_instant
from tapebook.experience.twins import SymbolTwins, follower_bound_e9, twins_after, voted_targets, weights_e4
from tapebook.history.importer import assumed_known_at
from tapebook.tape.bars import RegimeClassifier
from tapebook.tick.memory import runs_of
from tapebook.wiring import Rooms

START = parse_instant("2023-01-01T00:00:00Z")
STEP, BAR_STEPS, BARS = 5 * MINUTE, 6, 48
DAYS, SEEDS, COST_PPM = 60, 20, 550
NOISE = 1e-3
# Worlds, each with the character of its symbols and what a trade costs.
WORLDS: dict[str, tuple[tuple[str, ...], int]] = {
    "no edge": (("none",), COST_PPM),
    "reverting": (("reverting",), COST_PPM),
    "trending": (("trending",), COST_PPM),
    "turning": (("turning",), COST_PPM),
    "two symbols": (("reverting", "trending"), COST_PPM),
    "reverting, costs doubled": (("reverting",), 2 * COST_PPM),
}
MEMBERS = ("trend", "reversion", "breakout")
Slot = tuple[int, int, dict[str, int | None], str]
"""A moment, its price, what each member wants, and the regime."""


class SeedResult(msgspec.Struct, frozen=True):
    """What one seed came to in USD: over all, in the second half, and how often was traded."""

    off: float
    on: float
    best: float
    on_late: float
    best_late: float
    off_trades: int
    on_trades: int
    bound: float
    moved_days: float


def run() -> list[Figure]:
    """All figures of the worlds."""
    figures = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for world in WORLDS:
            results = list(pool.map(_seed_result, [world] * SEEDS, range(SEEDS)))
            figures += _figures(world, results)
    return [*figures, *_real_backtest()]


def _figures(world: str, results: Sequence[SeedResult]) -> list[Figure]:
    def mean(name: str) -> float:
        return statistics.fmean(getattr(each, name) for each in results)

    gaps = [each.on - each.off for each in results]
    half = student_quantile(0.975, len(gaps) - 1) * statistics.stdev(gaps) / math.sqrt(len(gaps))
    worst = min(each.on + each.bound for each in results)
    found = [
        Figure(f"{world}: memory off", mean("off"), "USD"),
        Figure(f"{world}: memory on", mean("on"), "USD"),
        Figure(f"{world}: best member", mean("best"), "USD"),
        Figure(f"{world}: on − off", statistics.fmean(gaps), "USD", aim="≥ 0" if world != "trending" else ""),
        Figure(f"{world}: half the interval of on − off", half, "USD"),
        Figure(f"{world}: second half, on of the best member's", 100 * mean("on_late") / mean("best_late"), "%"),
        Figure(f"{world}: trades, memory off", mean("off_trades"), "trades"),
        Figure(f"{world}: trades, memory on", mean("on_trades"), "trades"),
        Figure(f"{world}: bound, at most behind doing nothing", mean("bound"), "USD"),
        Figure(f"{world}: least that was left of the bound", worst, "USD", aim="≥ 0"),
    ]
    if world == "turning":
        found.append(Figure(f"{world}: days until trust had moved", mean("moved_days"), "days", aim="≤ 10"))
    return found


def make_prices(character: str, seed: int, *, days: int = DAYS) -> list[float]:
    """Closes of five minutes."""
    chance, level, anchor, drift = random.Random(f"{character}{seed}"), 0.0, 0.0, 0.0
    count = days * DAY // STEP
    prices = []
    for number in range(count):
        now = character
        if character == "turning":
            now = "reverting" if number < count // 2 else "trending"
        step = chance.gauss(0, NOISE)
        if now == "reverting":
            anchor += chance.gauss(0, 0.15 * NOISE)
            step -= 0.02 * (level - anchor)
        elif now == "trending":
            if chance.random() < STEP / DAY:
                drift = chance.choice((-1, 1)) * chance.uniform(0.15, 0.35) * NOISE
            step += drift
        level += step
        prices.append(100 * math.exp(level))
    return prices


def make_slots(prices: Sequence[float]) -> list[Slot]:
    """What decisions see at every price: targets and regimes change when a bar of half an hour has ended."""
    rules = trend.TrendEngine(trend.SETTINGS()), reversion.ReversionEngine(reversion.SETTINGS())
    engines: dict[str, RuleEngine] = dict(
        zip(MEMBERS, (*rules, breakout.BreakoutEngine(breakout.SETTINGS())), strict=True)
    )
    closes = [round(price * E8) for price in prices]
    regime_of, bars = RegimeClassifier(), list[Candle]()
    targets: dict[str, int | None] = dict.fromkeys(MEMBERS)
    regime, slots = "unknown", list[Slot]()
    for number in range(len(closes)):
        if number and number % BAR_STEPS == 0:
            part = closes[number - BAR_STEPS : number + 1]
            began = START + (number - BAR_STEPS) * STEP
            bars.append(Candle("X", 1_800, began, part[0], max(part), min(part), part[-1], 1.0, 1.0, 6))
            window = tuple(bars[-BARS:])
            columns = [tuple([getattr(bar, name) for bar in window]) for name in ("high_e8", "low_e8", "close_e8")]
            shown = BarPrices(columns[0], columns[1], columns[2], window[-1].bucket_ts)
            targets = {name: engine.bar_signal(shown).target_e4 for name, engine in engines.items()}
            regime = regime_of(window) or "unknown"
        slots.append((START + number * STEP, closes[number], targets, regime))
    return slots


def _seed_result(world: str, seed: int) -> SeedResult:
    characters, cost = WORLDS[world]
    parts = [_symbol_result(character, seed, cost) for character in characters]
    halves, ends = [half for half, _, _ in parts], [end for _, end, _ in parts]

    def total(states: Sequence[SymbolTwins], name: str) -> float:
        found = [state.follower if name == "follower" else state.account(name) for state in states]
        return sum(each.gain_e9 for each in found if each is not None) / 1e6

    gains = {name: total(ends, name) for name in MEMBERS}
    late = {name: gains[name] - total(halves, name) for name in MEMBERS}
    equals = [state.account("equal") for state in ends]
    return SeedResult(
        off=total(ends, "equal"),
        on=total(ends, "follower"),
        best=max(gains.values()),
        on_late=total(ends, "follower") - total(halves, "follower"),
        best_late=max(late.values()),
        off_trades=sum(each.changes for each in equals if each),
        on_trades=sum(state.follower.changes for state in ends),
        bound=sum(follower_bound_e9(state) for state in ends) / 1e6,
        moved_days=parts[0][2],
    )


def _symbol_result(character: str, seed: int, cost: int) -> tuple[SymbolTwins, SymbolTwins, float]:
    """The twins at the half and at the end, and how many days after the turn those that follow are trusted more."""
    slots = make_slots(make_prices(character, seed))
    twins, half, moved = None, None, math.inf
    for number, (at, price, targets, regime) in enumerate(slots):
        mark = SlotMark(price, cost, 0, regime, 1_000, 20, 1_000)
        twins = twins_after(twins, "X", at, mark=mark, targets=targets)
        if number == len(slots) // 2:
            half = twins
        elif half is not None and moved == math.inf and number % 72 == 0:
            trust = weights_e4(twins, regime)
            if trust["trend"] + trust["breakout"] + trust["equal"] > trust["reversion"] + trust["cash"]:
                moved = (number - len(slots) // 2) * STEP / DAY
    assert twins is not None and half is not None
    return half, twins, min(moved, DAYS / 2)


def _real_backtest(*, days: int = 12) -> list[Figure]:
    """How many decisions of a real backtest over the first days of a seed are those of the functions above."""
    prices = make_prices("reverting", 0, days=days)
    runs = _real_runs(prices)
    slots = {slot[0]: slot for slot in make_slots(prices)}
    twins, equal = None, {"marks": 0, "targets": 0, "weights": 0, "trades": 0}
    # Before the first price nothing is marked.
    runs = [run for run in runs if isinstance(run.mark, SlotMark) and run.scheduled_for in slots]
    for run in runs:
        at, price, targets, regime = slots[run.scheduled_for]
        mark = SlotMark(price, COST_PPM, 0, regime, 1_000, 20, 1_000)
        before = twins.follower.changes if twins else 0
        twins = twins_after(twins, "X", at, mark=mark, targets=targets)
        assert isinstance(run.mark, SlotMark)
        equal["marks"] += run.mark.mark_e8 == price and run.mark.regime == regime
        equal["targets"] += voted_targets(run.votes) == targets
        trust = weights_e4(twins, regime)
        equal["weights"] += twins.slots == 0 or all(vote.weight_e4 == trust[vote.engine] for vote in run.votes)
        equal["trades"] += (run.actions[0].action != "hold") == (twins.follower.changes > before)
    figures = [Figure(f"real backtest: {name} as here", 100 * n / len(runs), "%") for name, n in equal.items()]
    return [*figures, Figure("real backtest: decisions", len(runs), "decisions")]


def _real_runs(prices: Sequence[float]) -> list[DecisionRun]:
    closes = [round(price * E8) for price in prices]
    bars = [
        Candle("X", 300, START + number * STEP, before, max(before, after), min(before, after), after, 1.0, 1.0, 5)
        for number, (before, after) in enumerate(pairwise(closes))
    ]
    agent = AgentProfile("w", ("X",), engine="ensemble", members=MEMBERS, context=context_for_horizon("intraday"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        tapebook.init(home)
        rooms = Rooms(home, clock=SystemClock())
        rooms.tape.commit(bars, assumed=assumed_known_at)
        rooms.book.save_agent(agent, at=START)
        rooms.close()
        with tapebook.open(home) as book:
            result = book.backtest("w", chunks="none")
        made = Rooms(home / "backtests" / result.id, clock=SystemClock())
        try:
            found = runs_of(made.book, made.log, "w.paper")(0, made.book.head("w.paper"))
        finally:
            made.close()
    return list(found)
