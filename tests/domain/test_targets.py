"""Targets: what a majority wants, what weights want, and when a step is worth its costs."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.targets import BAND_E4, majority_target_e4, position_after_e4, weighted_target_e4

TARGETS = st.lists(st.none() | st.sampled_from([-10_000, -5_000, 0, 5_000, 10_000]), max_size=6)


@given(TARGETS)
def test_a_majority_is_more_than_half_or_half_unopposed(targets: list[int | None]) -> None:
    found, voices = majority_target_e4(targets), [each for each in targets if each is not None]
    for sign in (1, -1):
        with_it, against = sum(sign * each > 0 for each in voices), sum(sign * each < 0 for each in voices)
        wins = with_it > 0 and (2 * with_it > len(voices) or (2 * with_it == len(voices) and not against))
        assert (sign * found > 0) == wins
    assert abs(found) <= 10_000
    assert majority_target_e4([None if each is None else -each for each in targets]) == -found


@given(TARGETS, st.lists(st.integers(0, 10_000), min_size=8, max_size=8))
def test_a_weighted_target_lies_between_those_it_is_made_of(targets: list[int | None], weights: list[int]) -> None:
    named = dict(zip("abcdef", targets, strict=False))
    trust = dict(zip(("cash", "equal", *"abcdef"), weights, strict=True))
    found, majority = weighted_target_e4(named, trust, majority_target_e4(targets)), majority_target_e4(targets)
    ends = [0, majority, *[each or 0 for each in targets]]
    assert min(ends) <= found <= max(ends)
    assert weighted_target_e4(named, {}, majority) == majority
    assert weighted_target_e4(named, {"cash": 1}, majority) == 0
    assert weighted_target_e4(named, {"equal": 5}, majority) == majority


@given(st.integers(-10_000, 10_000), st.integers(-12_000, 12_000), st.integers(-(10**9), 10**9), st.integers(0, 5_000))
def test_a_step_is_made_whole_or_not_at_all(target: int, held: int, missed: int, cost: int) -> None:
    after = position_after_e4(target, held, missed_e9=missed, cost_ppm=cost)
    assert after in (target, held)
    if abs(target - held) >= BAND_E4:
        assert after == target
    elif target != held:
        assert (after == target) == (missed > 0 and missed >= cost * 1_000)
