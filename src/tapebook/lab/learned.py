"""What a stretch of a backtest taught: how providers, regimes and assets did in it, and whether that is a change.

Records are sums over closed trades (`experience.records`), counted here from the trades themselves, so that they are
complete whatever a memory took in. The weights are those the memory held, and stay at 1 where it took in nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tapebook.domain.agent import Deployment
from tapebook.domain.estimate import Estimate, discoveries, student_cdf, student_quantile
from tapebook.experience.records import (
    PPM_PER_BP,
    PROVIDER,
    PROVIDER_REGIME,
    Key,
    Record,
    credits_of,
)
from tapebook.experience.weights import scale_ppm, weight
from tapebook.lab.chronicle import Ended
from tapebook.lab.result import BPS_DIGITS, CHANCE_DIGITS, RATE_DIGITS, Direction, Row, Trend, fixed, rounded
from tapebook.wiring import Rooms

FALSE_SHARE = 0.05
"""Of the changes that a chunk calls up or down, at most this share may be luck."""

Records = Mapping[Key, Record]


class Weights(NamedTuple):
    """What a memory held at the end of a stretch and before it, and how quickly it believes."""

    now: Records
    before: Records
    prior: float


def records_of(ended: Iterable[Ended]) -> dict[Key, Record]:
    """The records of some trades."""
    sums: dict[Key, list[int]] = {}
    for each in ended:
        for credit in credits_of(each.outcome):
            kept = sums.setdefault((credit.kind, credit.name), [0, 0, 0, 0, 0])
            kept[0] += 1
            kept[1] += credit.usd_e6 > 0
            kept[2] += credit.result_ppm
            kept[3] += credit.result_ppm**2
            kept[4] += credit.usd_e6
    return {key: Record(*key, *kept) for key, kept in sums.items()}


def weights_of(rooms: Rooms, deployment: Deployment, *, since_seq: int, seq: int) -> Weights:
    """What the memory of a deployment held at two sequence numbers."""
    before, now = (rooms.experience.standing(deployment.id, seq=at).records for at in (since_seq, seq))
    return Weights(now, before, deployment.agent.experience.prior_trades)


def rows(kind: str, now: Records, before: Records, *, trusted: Weights | None = None) -> tuple[Row, ...]:
    """A line for every provider, regime or asset that a trade counted for, by name."""
    found = sorted((record for record in now.values() if record.kind == kind), key=lambda record: record.name)
    return tuple(_row(record, before.get(record.key), trusted) for record in found)


def settled(*tables: Sequence[Row]) -> list[tuple[Row, ...]]:
    """Tables whose trends say up or down only where that stands against having looked at so many."""
    chances = [row.trend.chance for table in tables for row in table if row.trend is not None]
    stands = discoveries(chances, false_share=FALSE_SHARE)
    most = max((chance for chance, stood in zip(chances, stands, strict=True) if stood), default=-1.0)
    return [tuple(_settled(row, most) for row in table) for table in tables]


def difference(now: Record, before: Record) -> tuple[Estimate, float] | None:
    """By how many bps the mean of one record lies above another's, with Welch's interval, and the chance of it."""
    if now.n < 2 or before.n < 2:
        return None
    gap = (now.total_ppm / now.n - before.total_ppm / before.n) / PPM_PER_BP
    a, b = ((each.deviation_ppm / PPM_PER_BP) ** 2 / each.n for each in (now, before))
    if a + b <= 0:
        return None
    freedom = (a + b) ** 2 / (a * a / (now.n - 1) + b * b / (before.n - 1))
    half = student_quantile(0.975, freedom) * math.sqrt(a + b)
    chance = 2 * student_cdf(-abs(gap) / math.sqrt(a + b), freedom)
    return Estimate(gap, gap - half, gap + half, now.n), chance


def _row(record: Record, earlier: Record | None, trusted: Weights | None) -> Row:
    mean = rounded(record.mean_bps, BPS_DIGITS) if record.n >= 2 else None
    now, before = (None, None) if trusted is None else _weighed(record.name, trusted)
    return Row(
        name=record.name,
        n=record.n,
        won=record.wins,
        net_usd_e6=record.usd_e6,
        win_rate=rounded(record.win_rate, RATE_DIGITS),
        mean_bps=mean,
        trend=_trend(record, earlier) if earlier else None,
        weight=now,
        weight_before=before,
    )


def _trend(now: Record, before: Record) -> Trend | None:
    found = difference(now, before)
    if found is None:
        return None
    change, chance = found
    return Trend("unclear", rounded(change, BPS_DIGITS), before.n, fixed(chance, CHANCE_DIGITS))


def _settled(row: Row, most: float) -> Row:
    trend = row.trend
    if trend is None or trend.chance > most:
        return row
    direction: Direction = "up" if trend.change_bps.value > 0 else "down"
    return replace(row, trend=replace(trend, direction=direction))


def _weighed(provider: str, trusted: Weights) -> tuple[float, float]:
    """How much a provider's word counts at the end and before, where nothing is known of its record in a regime."""
    now, before = (_weight(provider, records, trusted.prior) for records in (trusted.now, trusted.before))
    return now, before


def _weight(provider: str, records: Records, prior: float) -> float:
    overall = records.get((PROVIDER, provider), Record(PROVIDER, provider))
    here = Record(PROVIDER_REGIME, provider)
    return fixed(weight(overall, here, scale_ppm=scale_ppm(records), prior=prior), RATE_DIGITS)
