"""Planted worlds: specialists get weight where they are good, twins are found, and over the whole path it pays.

One provider is right in trends and wrong in chop, the other the opposite; each by 20 bps where a single trade
deviates by 60. Rates are over many seeds, with the luck that breaking them would need.
"""

import random
from functools import cache

import pytest
from msgspec.structs import replace

from tapebook.experience.events import draft_situation_seen
from tapebook.experience.features import MarketFeatures
from tapebook.experience.records import (
    PROVIDER_REGIME,
    Outcome,
    Record,
    RecordKey,
    outcome_of,
    records_from_scratch,
    weight_rows,
)
from tests.experience.makers import closed, memory_desk, run_of, sight, vote

TREND, CHOP = "trend_up_lowvol", "chop_lowvol"
EDGE, DEVIATION = 20.0, 60.0
WORLDS = 200
GOOD = (("trend", TREND), ("reversion", CHOP))
BAD = (("trend", CHOP), ("reversion", TREND))


def outcomes(seed: int, n: int, *, edge: float) -> list[Outcome]:
    """`trend` says long and `reversion` short; the ensemble goes with either by the toss of a coin."""
    rng = random.Random(seed)
    found = []
    for number in range(n):
        regime = rng.choice((TREND, CHOP))
        move = rng.gauss(edge if regime == TREND else -edge, DEVIATION)
        side, result = ("long", move) if rng.random() < 0.5 else ("short", -move)
        trade = closed(number, net_bps=result - 1, gross_bps=result, side=side, regime=regime)
        votes = [vote("trend", "long"), vote("reversion", "short")]
        found.append(outcome_of(trade, run_of(trade, engine="ensemble", votes=votes)))
    return found


@cache
def worlds(n: int, edge: float = EDGE) -> list[dict[RecordKey, Record]]:
    return [records_from_scratch(outcomes(seed, n, edge=edge)) for seed in range(WORLDS)]


def weight_of(records: dict[RecordKey, Record], name: str, regime: str) -> float:
    (row,) = weight_rows(records, (name,), regime=regime, prior=10.0)
    return float(row.value)


def test_weights_move_the_right_way_in_each_regime() -> None:
    for n, least in ((60, 0.90), (200, 0.99)):
        right = [weight_of(each, *good) > 1.0 for each in worlds(n) for good in GOOD]
        wrong = [weight_of(each, *bad) < 1.0 for each in worlds(n) for bad in BAD]
        assert sum(right + wrong) / len(right + wrong) >= least, n
    # With 200 trades the better one weighs more in its own regime in all but a few worlds.
    ahead = [weight_of(each, *GOOD[0]) > weight_of(each, "reversion", TREND) + 0.2 for each in worlds(200)]
    assert sum(ahead) / WORLDS >= 0.95


def test_weights_come_near_what_the_planted_edge_is_worth() -> None:
    """An edge of 20 bps where results are about 63 is worth 1 + 20 / 63; a prior of ten trades keeps it below."""
    scale = (DEVIATION**2 + EDGE**2) ** 0.5
    mean = sum(weight_of(each, *GOOD[0]) for each in worlds(200)) / WORLDS
    assert 1 + 0.75 * EDGE / scale < mean < 1 + EDGE / scale


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    held = total = 0
    for records in worlds(60):
        for (name, regime), truth in ((GOOD[0], EDGE), (BAD[0], -EDGE)):
            found = records[PROVIDER_REGIME, f"{name} in {regime}"].mean_bps
            # Costs of one basis point were paid where the vote was followed, so the truth lies up to one below.
            held += found.low <= truth and truth - 1 <= found.high
            total += 1
    # At 95 % of 400, fewer than 363 would need luck of 1 in 1,000.
    assert held >= 363 and total == 2 * WORLDS


def test_without_an_edge_weights_stay_near_one() -> None:
    found = [weight_of(each, name, regime) for each in worlds(200, 0.0) for name, regime in (*GOOD, *BAD)]
    assert sum(abs(each - 1) <= 0.2 for each in found) / len(found) >= 0.97
    assert sum(found) / len(found) == pytest.approx(1.0, abs=0.01)


def shaken(rng: random.Random, what: MarketFeatures) -> MarketFeatures:
    """The same situation a little different: every number moved by a fifth of its usual spread or less."""
    spread = {"return_15m": 0.002, "return_1h": 0.004, "return_4h": 0.01, "range_position_4h": 0.3, "imbalance": 0.5}
    moved = {name: getattr(what, name) + rng.gauss(0, each / 20) for name, each in spread.items()}
    return replace(what, **moved)


def test_planted_twins_are_the_nearest_neighbours() -> None:
    rng, found = random.Random(5), 0
    with memory_desk() as desk:
        looks = [sight(rng) for _ in range(400)]
        for number, look in enumerate(looks):
            trade = closed(number, net_bps=rng.gauss(0, 40))
            desk.append([draft_situation_seen(f"r{number}", "BTC", look)])
            desk.learn((trade, run_of(trade)))
        for number, look in enumerate(looks):
            exact = desk.experience.nearest("d", look, seq=desk.seq)
            assert exact is not None and exact.neighbours[0].number == number + 1
            near = desk.experience.nearest("d", shaken(rng, look), seq=desk.seq)
            assert near is not None and not near.is_novel
            found += near.neighbours[0].number == number + 1
    assert found / len(looks) >= 0.98


def test_neighbours_end_like_the_situation_was_planted_to() -> None:
    """Where results depend on the situation, the nearest know it; where they do not, they do not pretend to."""
    for effect, low, high in ((40.0, 20.0, 60.0), (0.0, -12.0, 12.0)):
        rng = random.Random(6)
        with memory_desk() as desk:
            for number in range(400):
                look = sight(rng)
                sign = 1 if (look.return_1h or 0.0) > 0 else -1
                trade = closed(number, net_bps=rng.gauss(sign * effect, 20))
                desk.append([draft_situation_seen(f"r{number}", "BTC", look)])
                desk.learn((trade, run_of(trade)))
            gaps = []
            for drift in (0.02, -0.02):
                look = replace(sight(rng), return_15m=drift / 4, return_1h=drift, return_4h=2 * drift)
                near = desk.experience.nearest("d", look, seq=desk.seq)
                assert near is not None
                gaps.append(near.records[0].mean_bps.value)
            assert low <= (gaps[0] - gaps[1]) / 2 <= high, effect
