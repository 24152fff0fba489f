"""How alike two backtests are: who decided, on what, when, how it was set up, and what came of it.

Each of the five is between 0 and 1 and counts as much as the others:

    agent       1 for one name; else a half for one engine
    market      symbols both have, of all symbols of the two
    period      time both cover, of the time either does
    settings    settings that are equal, of all that an agent, a memory and a fill rule have
    result      the mean over return a day, Sharpe, drawdown, trades a day and win rate of 1 − |a − b| / (|a| + |b|)

All of it is in stored plans and results: nothing is run again.
"""

from typing import Any

import msgspec

from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.result import RATE_DIGITS, BacktestResult, ChunkResult
from tapebook.domain.units import DAY

PARTS = ("agent", "market", "period", "settings", "result")


class BacktestLikeness(msgspec.Struct, frozen=True):
    """How alike another backtest is: in all, part by part, and which settings differ, as (name, here, there)."""

    id: str
    likeness: float
    parts: dict[str, float]
    differs: tuple[tuple[str, str, str], ...]


def likeness_of(
    plan: BacktestPlan, result: BacktestResult, *, other: BacktestPlan, other_result: BacktestResult
) -> BacktestLikeness:
    """How alike another finished backtest is to one."""
    here, there = (_settings(each) for each in (plan, other))
    names = sorted(here.keys() | there.keys())
    differs = tuple(
        (name, here.get(name, "-"), there.get(name, "-")) for name in names if here.get(name) != there.get(name)
    )
    figures = zip(_figures(result.total), _figures(other_result.total), strict=True)
    close = [_closeness(one, two) for one, two in figures]
    one, two = set(plan.symbols), set(other.symbols)
    shared = max(0, min(plan.end, other.end) - max(plan.start, other.start))
    covered = (plan.end - plan.start) + (other.end - other.start) - shared
    found = (
        1.0 if plan.agent.name == other.agent.name else 0.5 if result.engine == other_result.engine else 0.0,
        len(one & two) / len(one | two) if one | two else 1.0,
        shared / covered if covered else 1.0,
        1 - len(differs) / len(names),
        sum(close) / len(close),
    )
    parts = {name: round(value, RATE_DIGITS) for name, value in zip(PARTS, found, strict=True)}
    return BacktestLikeness(other.id, round(sum(found) / len(found), RATE_DIGITS), parts, differs)


def _settings(plan: BacktestPlan) -> dict[str, str]:
    """What a plan was set to, by dotted names; names, ranges and symbols are parts of their own."""
    told: dict[str, Any] = msgspec.to_builtins(plan.agent)
    # An agent under another name with the same settings is the same in this part.
    del told["name"], told["watchlist"]
    said: dict[str, Any] = {"memory": plan.memory, "fill": plan.fill, "chunks": plan.chunk_kind}
    said |= {"freeze_at": plan.freeze_at, "memory_from": plan.memory_from.name if plan.memory_from else None}
    return dict(_flat("", told | said))


def _flat(prefix: str, told: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name, value in told.items():
        dotted = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict):
            rows += _flat(dotted, value)
        else:
            rows.append((dotted, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows


def _figures(total: ChunkResult) -> tuple[float, ...]:
    days = max(total.end - total.start, 1) / DAY
    gained = total.change_usd_e6 / max(total.equity_start_usd_e6, 1) / days
    sharpe = total.sharpe.value if total.sharpe else 0.0
    return gained, sharpe, total.drawdown_ppm, total.trades / days, total.win_rate.value


def _closeness(one: float, two: float) -> float:
    # Without a scale of its own: figures of very different size count alike.
    size = abs(one) + abs(two)
    return 1 - abs(one - two) / size if size else 1.0
