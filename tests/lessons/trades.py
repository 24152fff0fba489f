"""Closed trades for the tests of lessons: made to measure, or by a seeded world with a planted truth."""

import random

from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.units import E6, E8, HOUR, MINUTE
from tapebook.lessons import Evidence, LaterCases, case_of
from tapebook.lessons.hypotheses import EntryFacts, TradeCase
from tapebook.lessons.notes import LessonChange

T0 = 1_767_571_200_000


def closed(
    number: int,
    *,
    net_usd: float,
    symbol: str = "BTC",
    side: str = "long",
    hour: int = 12,
    regime: str = "chop_lowvol",
    size_usd: float = 1_000.0,
    minutes: int = 60,
    best_usd: float | None = None,
) -> ClosedTrade:
    """A trade that was entered at an hour of day `number`."""
    entry = T0 + number * 24 * HOUR + hour * HOUR
    net = round(net_usd * E6)
    state = TradeState(
        trade_id=f"t{number}",
        symbol=symbol,
        side="long" if side == "long" else "short",
        entry_tick_at=entry,
        entry_mark_e8=100 * E8,
        entry_leverage=2,
        entry_reason="test",
        entry_run_id=None,
        entry_regime_tag=regime,
        entry_lessons_hash=None,
        entered_e8=round(size_usd * E6),
        entered_usd_e6=round(size_usd * E6),
        funded_until=entry,
        realised_usd_e6=net,
        mfe_usd_e6=max(net, round((best_usd if best_usd is not None else max(net_usd, 0.0)) * E6)),
        mae_usd_e6=min(net, 0),
    )
    return ClosedTrade(state, entry + minutes * MINUTE, "test", None)


def world(seed: int, *, n: int = 200, edge_usd: float = 0.0) -> list[ClosedTrade]:
    """Trades at random; those in `trend_up_lowvol` have an edge, everything else is luck."""
    rng = random.Random(seed)
    regimes = ("trend_up_lowvol", "trend_down_hivol", "chop_lowvol")
    made = []
    for number in range(n):
        regime = rng.choice(regimes)
        net = rng.gauss(edge_usd if regime == "trend_up_lowvol" else 0.0, 10.0)
        made.append(
            closed(
                number,
                net_usd=net,
                symbol=rng.choice(("BTC", "ETH", "SOL")),
                side=rng.choice(("long", "short")),
                hour=rng.randrange(24),
                regime=regime,
                size_usd=rng.choice((500.0, 1_000.0, 2_000.0)),
                minutes=rng.randrange(10, 300),
                best_usd=max(net, 0.0) + abs(rng.gauss(0, 2)),
            )
        )
    return made


def evidence(trades: list[ClosedTrade]) -> Evidence:
    """What a first reflection on some trades rests on."""
    return Evidence(tuple(map(case_of, trades)), (), (), T0, 1)


def later_evidence(before: Evidence, known: list[LessonChange], new: list[TradeCase], *, seq: int) -> Evidence:
    """What the next reflection rests on: the newest 200 trades, and what ended since the one before."""
    cases = (*before.cases, *new)[-200:]
    later = tuple(LaterCases(after, tuple(new), tuple(new)) for after in {each.lesson.trial.seq for each in known})
    return Evidence(cases, tuple(known), later, before.at + HOUR, seq)


REGIMES = ("trend_up_lowvol", "trend_down_hivol", "chop_lowvol")
PLANTED = REGIMES[0]


def random_case(rng: random.Random, number: int, *, edge_bps: float = 0.0, after_exit_bps: float = 0.0) -> TradeCase:
    """A trade of 60 bps deviation with facts at random; those in `trend_up_lowvol` have an edge."""
    regime = rng.choice(REGIMES)
    facts = EntryFacts(
        symbol=rng.choice(("BTC", "ETH", "SOL")),
        side=rng.choice(("long", "short")),
        regime=regime,
        hour=rng.choice(("00-04", "04-08", "08-12", "12-16", "16-20", "20-24")),
        volatility=rng.choice(("<1%", "1-2%", "2-4%")),
        funding=rng.choice(("negative", "usual", "high")),
        providers=("ensemble", rng.choice(("trend", "carry"))),
        confidence=rng.choice(("0.4-0.6", "0.6-0.8")),
        size=rng.choice(("$300-1000", "$1000-3000")),
    )
    result = rng.gauss(edge_bps if regime == PLANTED else 0.0, 60.0)
    hour, hours = rng.gauss(after_exit_bps / 2, 30.0), rng.gauss(after_exit_bps, 60.0)
    ppm = [round(100 * value) for value in (result, hour, hours)]
    return TradeCase(f"t{number}", T0 + number * HOUR, facts, *ppm)


def random_cases(seed: int, *, n: int = 200, edge_bps: float = 0.0, after_exit_bps: float = 0.0) -> list[TradeCase]:
    """Trades of a seeded world, oldest first."""
    rng = random.Random(seed)
    return [random_case(rng, number, edge_bps=edge_bps, after_exit_bps=after_exit_bps) for number in range(n)]
