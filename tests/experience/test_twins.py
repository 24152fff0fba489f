"""Paper twins and the trust they earn: accounts by hand, and bounds on any sequence of votes and prices."""

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.domain.run import SlotMark
from tapebook.domain.targets import CASH, EQUAL
from tapebook.domain.units import E8, HOUR, MINUTE, divide_half_even
from tapebook.experience.twins import (
    AWAKE_MASS,
    CUT_SCALES,
    E9,
    ONE,
    WARM_UP_SLOTS,
    SymbolTwins,
    _shared_part,
    bound_e9,
    follower_bound_e9,
    learning_rate_e6,
    prior_shares,
    twins_after,
    weights_e4,
)

SLOT = 5 * MINUTE
Slot = tuple[float, dict[str, int | None]]


def mark_at(price: float, **changes: Any) -> SlotMark:
    """A price with the usual costs and settings."""
    return replace(SlotMark(round(price * E8), 550, 0, "chop", 1_000, 20, 1_000), **changes)


def fold(slots: list[Slot], *, step: int = SLOT, **changes: Any) -> SymbolTwins:
    """The twins after some slots, each a price and the members' targets."""
    twins: SymbolTwins | None = None
    for number, (price, targets) in enumerate(slots):
        twins = twins_after(twins, "BTC", number * step, mark=mark_at(price, **changes), targets=targets)
    assert twins is not None
    return twins


def test_a_twin_has_what_its_member_alone_would_have_made() -> None:
    slots: list[Slot] = [(100, {"a": 10_000, "b": -5_000}), (101, {"a": 10_000, "b": 0}), (99, {"a": 0, "b": None})]
    slots.append((99, {"a": 0, "b": None}))
    twins = fold(slots, cost_ppm=1_000)
    gains = {each.name: each.gain_e9 for each in twins.accounts}
    # +1 % and -1.98 %, less one permille each way; half of the first, short, less a half each way.
    assert gains["a"] == pytest.approx(10**7 - 19_801_980 - 2 * 10**6, abs=2)
    assert gains["b"] == pytest.approx(-5 * 10**6 - 10**6, abs=2)
    assert gains[CASH] == 0
    assert [each.changes for each in twins.accounts] == [0, 2, 2, 2]


def test_longs_pay_funding_at_full_hours() -> None:
    slots: list[Slot] = [(100, {"a": 10_000, "b": -10_000})] * 3
    twins = fold(slots, step=HOUR // 2, cost_ppm=0, funding_e12=10**8)
    assert {each.name: each.gain_e9 for each in twins.accounts} == {CASH: 0, EQUAL: 0, "a": -100_000, "b": 100_000}


def test_the_twins_do_not_know_where_a_fold_was_interrupted() -> None:
    rng = random.Random(3)
    slots: list[Slot] = []
    for _ in range(200):
        slots.append((100 + rng.gauss(0, 1), {name: rng.choice((-10_000, 0, 10_000)) for name in "abc"}))
    whole = fold(slots)
    twins: SymbolTwins | None = None
    for number, (price, targets) in enumerate(slots):
        twins = twins_after(twins, "BTC", number * SLOT, mark=mark_at(price), targets=targets)
        twins = msgspec.json.decode(msgspec.json.encode(twins), type=SymbolTwins)
    assert twins == whole


def trending_prices(count: int, seed: int) -> list[float]:
    rng, price, drift = random.Random(seed), 100.0, 0.0
    prices = []
    for number in range(count):
        drift = rng.choice((-4e-4, 4e-4)) if number % 200 == 0 else drift
        price *= 1 + drift + rng.gauss(0, 1e-3)
        prices.append(price)
    return prices


def test_trust_goes_to_who_earns_and_comes_back_to_who_begins_to() -> None:
    prices = trending_prices(6_000, 1)
    slots: list[Slot] = []
    for number, price in enumerate(prices):
        drift = prices[min(number - number % 200 + 199, 5_999)] - prices[number - number % 200]
        knows = 10_000 if drift > 0 else -10_000
        # The one knows the way in the first half, the other in the second.
        slots.append((price, {"a": knows if number < 3_000 else -knows, "b": knows if number >= 3_000 else -knows}))
    middle, end = fold(slots[:3_000]), fold(slots)
    assert weights_e4(middle, "chop")["a"] > 8_000
    assert weights_e4(end, "chop")["b"] > 8_000
    assert end.follower.gain_e9 > max(each.gain_e9 for each in end.accounts)


def test_a_regime_has_its_own_trust() -> None:
    rng, twins = random.Random(5), None
    price = 100.0
    for number in range(8_000):
        regime = ("up", "down")[number // 400 % 2]
        price *= 1 + (6e-4 if regime == "up" else -6e-4) + rng.gauss(0, 1e-3)
        targets: dict[str, int | None] = {"bull": 10_000, "bear": -10_000}
        twins = twins_after(twins, "BTC", number * SLOT, mark=mark_at(price, regime=regime), targets=targets)
    assert twins is not None
    up, down = weights_e4(twins, "up"), weights_e4(twins, "down")
    assert up["bull"] > 5_000 > 500 > up["bear"]
    assert down["bear"] > 5_000 > 500 > down["bull"]


def test_one_outlier_moves_trust_by_no_more_than_the_cut() -> None:
    calm: list[Slot] = [(100 + 0.1 * (number % 2), {"a": 10_000, "b": -10_000}) for number in range(300)]
    before = weights_e4(fold(calm), "chop")
    crash = weights_e4(fold([*calm, (50.0, {"a": 10_000, "b": -10_000})]), "chop")
    assert abs(crash["a"] - before["a"]) < before["a"] / 2
    assert crash["a"] < before["a"] and crash["b"] > before["b"]


MOVES = st.sampled_from([-0.3, -0.01, -0.002, -0.0005, 0.0, 0.0005, 0.002, 0.01, 0.3])
SIDES = st.none() | st.sampled_from([-10_000, -5_000, 0, 10_000])
SLOTS = st.lists(st.tuples(MOVES, st.tuples(SIDES, SIDES, SIDES), st.sampled_from(["up", "chop"])), max_size=30)


@settings(max_examples=60, deadline=None)
@given(SLOTS, st.integers(1, 12), st.sampled_from([0, 550, 5_000]), st.sampled_from([1, 1_000, 10_000]), st.booleans())
def test_the_mix_is_never_further_behind_doing_nothing_than_its_bound(
    drawn: list[Any], times: int, cost: int, rate: int, adversary: bool
) -> None:
    price, twins, rounded = 100.0, None, 0
    for number, (move, sides, regime) in enumerate(drawn * times):
        mark = mark_at(price, cost_ppm=cost, rate_e4=rate, regime=regime)
        twins = twins_after(twins, "BTC", number * SLOT, mark=mark, targets=dict(zip("abc", sides, strict=True)))
        # The adversary sees what the ensemble holds and moves the price against it.
        against = -1 if twins.follower.target_e4 > 0 else 1
        price = max(1e-3, min(1e6, price * (1 + (against * abs(move) if adversary else move))))
        # What the mix gains is rounded down to a billionth, so that trust grows by up to η / scale of it too much; the
        # same billionths are allowed below.
        rounded += learning_rate_e6(mark) * 10**9 // max(1, twins.scale_e9) + 20
        assert sum(sum(row) for row in twins.trust.values()) + twins.asleep <= ONE + rounded
        assert twins.mix_e9 >= -bound_e9(twins) - 10 * (number + 1)
        assert (
            twins.follower.gain_e9 - twins.follower.owed_e9
            >= -follower_bound_e9(twins) - 10 * (number + 1) - cost * 2_000
        )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 3e-4, -3e-4]), st.booleans())
def test_the_follower_lies_behind_the_mix_by_costs_and_what_it_missed_alone(
    seed: int, drift: float, turns: bool
) -> None:
    rng, price, twins = random.Random(seed), 100.0, None
    paid = slack = 0
    targets: dict[str, int | None] = dict.fromkeys("abc", 0)
    for number in range(400):
        if rng.random() < 0.2:
            targets = targets | {rng.choice("abc"): rng.choice((-10_000, 0, 10_000))}
        before = twins.follower.changes if twins else 0
        twins = twins_after(twins, "BTC", number * SLOT, mark=mark_at(price), targets=targets)
        if twins.follower.changes > before:
            # What was missed before a trade is at most the costs of a whole one, and the move of the slot behind it.
            paid, slack = paid + twins.follower.owed_e9, slack + 550_000
        move = (drift * (-1 if turns and number > 200 else 1)) + rng.gauss(0, 1e-3)
        slack += 0 if twins.follower.target_e4 == twins.wanted_e4 else int(abs(move) * 0.35 * 10**9)
        price *= 1 + move
    assert twins is not None
    assert twins.mix_e9 - twins.follower.gain_e9 <= paid + slack + 550_000


@pytest.mark.parametrize("rate", [1, 10, 1_000, 10_000])
def test_the_rate_keeps_factors_positive(rate: int) -> None:
    assert 0 < learning_rate_e6(mark_at(1, rate_e4=rate)) <= 83_334


def test_settings_change_how_quickly_trust_moves_and_how_long_it_stays() -> None:
    prices = trending_prices(1_500, 2)
    slots: list[Slot] = []
    for number, price in enumerate(prices):
        drift = prices[number - number % 200 + min(199, 1_499 - number + number % 200)] - prices[number - number % 200]
        knows = (1 if drift > 0 else -1) * (1 if number < 1_000 else -1) * 10_000
        slots.append((price, {"a": knows, "b": -knows}))
    usual, slow, fast = (weights_e4(fold(slots[:1_000], rate_e4=rate), "chop") for rate in (1_000, 10, 10_000))
    assert slow["a"] < usual["a"] <= fast["a"]
    short, long = (weights_e4(fold(slots, window_days=days), "chop") for days in (1, 1_000))
    assert short["b"] > long["b"]
    small, large = (weights_e4(fold(slots, memory_size=size), "chop") for size in (1, 10**6))
    assert small != large


def test_who_joins_or_leaves_makes_trust_begin_again_within_the_bound() -> None:
    slots: list[Slot] = [(100 + number % 3, {"a": 10_000, "b": -10_000}) for number in range(100)]
    before = fold(slots)
    after = twins_after(before, "BTC", 100 * SLOT, mark=mark_at(100), targets={"a": 0, "c": 10_000})
    assert [each.name for each in after.accounts] == [CASH, EQUAL, "a", "c"]
    assert weights_e4(after, "chop") == {CASH: 2_500, EQUAL: 2_500, "a": 2_500, "c": 2_500}
    assert bound_e9(after) > bound_e9(before)


@settings(max_examples=60, deadline=None)
@given(SLOTS, st.integers(1, 12), st.sampled_from([0, 550, 5_000]), st.sampled_from([10, 1_000, 10_000]), st.booleans())
def test_the_mix_is_never_further_behind_the_majority_than_its_bound(
    drawn: list[Any], times: int, cost: int, rate: int, adversary: bool
) -> None:
    """Prod's second-order bound, with what sharing costs: scale · (ln(1 / prior) / η + Σ η z² + ln(1 / kept) / η)."""
    price, twins, behind, allowed = 100.0, None, 0.0, 0.0
    eta = learning_rate_e6(mark_at(1, rate_e4=rate)) / 10**6
    for number, (move, sides, regime) in enumerate(drawn * times):
        before, mark = twins, mark_at(price, cost_ppm=cost, rate_e4=rate, regime=regime)
        twins = twins_after(twins, "BTC", number * SLOT, mark=mark, targets=dict(zip("abc", sides, strict=True)))
        if before is not None and twins.slots >= WARM_UP_SLOTS:
            gained = gain_of_equal(before, twins)
            mixed = twins.mix_e9 - before.mix_e9 - (twins.cut_e9 - before.cut_e9)
            behind += gained - mixed
            z, kept = gained / twins.scale_e9, 1 - _shared_part(before, twins.at) / ONE
            allowed += twins.scale_e9 * (eta * z * z - math.log(kept) / eta)
            known = twins.scale_e9 * math.log(ONE / prior_shares(3, AWAKE_MASS)[1]) / eta
            assert behind <= known + allowed + 10 * (number + 1)
        # The adversary moves the price with the majority and against what the ensemble holds.
        ours, theirs = twins.follower.target_e4, twins.accounts[1].target_e4
        with_majority = 1 if theirs > ours else -1
        price = max(1e-3, min(1e6, price * (1 + (with_majority * abs(move) if adversary else move))))


def gain_of_equal(before: SymbolTwins, after: SymbolTwins) -> int:
    """What the majority gained in a slot, a move beyond the cut counting as the cut."""
    held = before.accounts[1]
    move = divide_half_even((after.mark.mark_e8 - before.mark.mark_e8) * E9, before.mark.mark_e8)
    most = CUT_SCALES * after.scale_e9
    beyond = max(0, move - most) + min(0, move + most)
    return after.accounts[1].gain_e9 - held.gain_e9 - held.target_e4 * beyond // 10_000
