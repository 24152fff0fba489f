"""What following confirmed lessons does to an ensemble: on and off, on one world of which there is something to learn.

Two symbols, of which one trends and one reverts, and an ensemble of `trend` alone that trades both the same, without
trust in twins, which would learn it sooner. The lesson to find is that trades in the second do worse. Real backtests,
one decision an hour, costs included; differences are paired by seed.
"""

import math
import os
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
from bench.learning_worlds import START, STEP, make_prices
from tapebook.clock import SystemClock
from tapebook.domain.agent import AgentProfile, ExperienceSettings, ReflectionSettings, context_for_horizon
from tapebook.domain.estimate import student_quantile
from tapebook.domain.market import Candle
from tapebook.domain.units import E6, E8, HOUR
from tapebook.history.importer import assumed_known_at
from tapebook.wiring import Rooms

SYMBOLS = {"X": "trending", "Y": "reverting"}
DAYS = 40
SEEDS = int(os.environ.get("TAPEBOOK_BENCH_SEEDS", "20"))
USUAL = AgentProfile(
    *("off", tuple(SYMBOLS)),
    engine="ensemble",
    members=("trend",),
    cadence_ms=HOUR,
    context=context_for_horizon("intraday"),
    experience=ExperienceSettings(enabled=False),
)
AGENTS = (USUAL, msgspec.structs.replace(USUAL, name="skip", reflection=ReflectionSettings(follow="skip")))
Result = tuple[float, int]
"""What an agent made in USD, and how often it traded."""


def run() -> list[Figure]:
    """All figures."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return _figures(list(pool.map(_seed_results, range(SEEDS))))


def _figures(results: Sequence[Sequence[Result]]) -> list[Figure]:
    found = []
    for place, agent in enumerate(AGENTS):
        made = [row[place][0] for row in results]
        gaps = [row[place][0] - row[0][0] for row in results]
        found.append(Figure(f"follow_lessons {agent.name}", statistics.fmean(made), "USD"))
        found.append(
            Figure(f"follow_lessons {agent.name}, trades", statistics.fmean(row[place][1] for row in results), "trades")
        )
        if place:
            half = student_quantile(0.975, len(gaps) - 1) * statistics.stdev(gaps) / math.sqrt(len(gaps))
            found.append(Figure(f"follow_lessons {agent.name} − off", statistics.fmean(gaps), "USD"))
            found.append(Figure(f"half the interval of {agent.name} − off", half, "USD"))
    return found


def _seed_results(seed: int) -> list[Result]:
    bars = []
    for symbol, character in SYMBOLS.items():
        closes = [round(price * E8) for price in make_prices(character, seed, days=DAYS)]
        for number, (before, after) in enumerate(pairwise(closes)):
            extremes = max(before, after), min(before, after)
            bars.append(Candle(symbol, 300, START + number * STEP, before, *extremes, after, 1.0, 1.0, 5))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        tapebook.init(home)
        rooms = Rooms(home, clock=SystemClock())
        rooms.tape.commit(bars, assumed=assumed_known_at)
        for agent in AGENTS:
            rooms.book.save_agent(agent, at=START)
        rooms.close()
        with tapebook.open(home) as book:
            totals = [book.backtest(agent.name, chunks="none").total for agent in AGENTS]
    return [(total.change_usd_e6 / E6, total.trades) for total in totals]
