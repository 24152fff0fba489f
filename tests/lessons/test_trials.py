"""The trial of a lesson: capital as integers, an order of trades, and the stated error rates."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.domain.agent import NO_LESSONS_FOLLOWED, FollowedLessons
from tapebook.lessons.hypotheses import (
    Claim,
    Condition,
    EntryFacts,
    Hypothesis,
    Status,
    Term,
    TradeCase,
    lesson_id,
    slot_of,
)
from tapebook.lessons.trials import CONFIRM, MOST_ROUNDS, RETIRE, Lesson, Trial, capital, follow_lessons, judge

BTC = Condition((Term("symbol", "BTC"),))
WORSE = Claim("result", "worse", "rest")
NOTHING = Claim("result", "worse", "nothing")


def hypothesis(claim: Claim = WORSE, *, effect_bps: int = 40, clip_bps: int = 80, carried: bool = True) -> Hypothesis:
    effect, clip = 100 * effect_bps, 100 * clip_bps
    place = (lesson_id(BTC, claim), slot_of(BTC, claim))
    return Hypothesis(*place, BTC, claim, 60, 140, effect, 1, 2 * effect, 0, clip, effect // 2, carried, "test", 0, 0)


def case(symbol: str, bps: float) -> TradeCase:
    return TradeCase("t", 0, EntryFacts(symbol=symbol), round(100 * bps))


def world(seed: int, *, edge_bps: float, n: int) -> list[TradeCase]:
    """Trades of 60 bps deviation with fat tails; a third is BTC, and does so much worse."""
    rng = random.Random(seed)
    drawn = ((rng.choice(("BTC", "ETH", "SOL")), rng.gauss(0, 150 if rng.random() < 0.1 else 45)) for _ in range(n))
    return [case(symbol, value - (edge_bps if symbol == "BTC" else 0)) for symbol, value in drawn]


def first_verdict(seed: int, *, edge_bps: float, claim: Claim = WORSE, n: int = 600) -> Trial:
    """The trial when it is first confirmed or over."""
    trial, held = Trial(0), hypothesis(claim)
    for each in world(seed, edge_bps=edge_bps, n=n):
        trial = judge(trial, held, [each], at=7, seq=9)
        if trial.is_over or trial.confirmed_at is not None:
            break
    return trial


RESULTS = st.lists(st.tuples(st.sampled_from(("BTC", "ETH")), st.integers(-500, 500)), max_size=60)


@given(RESULTS, st.sampled_from([WORSE, NOTHING]), st.integers(0, 60))
def test_a_trial_is_a_function_of_the_trades_however_they_are_dealt_out(
    results: list[tuple[str, int]], claim: Claim, cut: int
) -> None:
    cases, held = [case(*each) for each in results], hypothesis(claim)
    whole = judge(Trial(0), held, cases, at=7, seq=9)
    parts = judge(judge(Trial(0), held, cases[:cut], at=7, seq=5), held, cases[cut:], at=7, seq=9)
    assert whole == parts


@given(RESULTS, st.sampled_from([WORSE, NOTHING]))
def test_capital_is_never_more_than_the_bets_have_paid(results: list[tuple[str, int]], claim: Claim) -> None:
    held = hypothesis(claim)
    trial, exact = Trial(0), [Fraction(1)] * 4
    ours: list[int] = []
    rest: list[int] = []
    for symbol, bps in results:
        before, trial = trial, judge(trial, held, [case(symbol, bps)], at=7, seq=9)
        (ours if symbol == "BTC" else rest).append(max(-8_000, min(8_000, 100 * bps)))
        if before.is_over or trial.rounds == before.rounds:
            continue
        base = Fraction(sum(rest), len(rest)) if claim is WORSE else Fraction(0)
        gap, span = base - Fraction(sum(ours), len(ours)), 16_000 if claim is WORSE else 8_000
        exact = [
            part * (1 + Fraction(stake, 16) * gap / span) for part, stake in zip(exact, (3, 6, 10, 15), strict=True)
        ]
        ours, rest = [], []
        assert all(0 <= mine <= 10**9 * true for mine, true in zip(trial.capital_for, exact, strict=True))
        assert sum(trial.capital_for) >= 10**9 * sum(exact) - 4 * trial.rounds * max(1, sum(exact))


def test_a_lesson_that_holds_is_confirmed_and_one_that_does_not_is_retired() -> None:
    true = [first_verdict(seed, edge_bps=40.0) for seed in range(40)]
    false = [first_verdict(seed, edge_bps=0.0) for seed in range(40)]
    assert sum(each.confirmed_at is not None for each in true) >= 36
    assert sum(each.confirmed_at is not None for each in false) <= 4 and all(
        each.is_over for each in false if not each.confirmed_at
    )
    turned = [first_verdict(seed, edge_bps=-20.0) for seed in range(20)]
    assert all(each.reason == "later trades speak against it" for each in turned)


def test_outcomes_that_move_all_trades_confirm_nothing() -> None:
    drift = [case(symbol, -60 + (at % 7)) for at in range(120) for symbol in ("BTC", "ETH")]
    assert judge(Trial(0), hypothesis(), drift, at=7, seq=9).confirmed_at is None
    assert judge(Trial(0), hypothesis(NOTHING), drift, at=7, seq=9).status == "confirmed"


def test_one_outlier_decides_nothing() -> None:
    trial = judge(Trial(0), hypothesis(), [case("ETH", 0), case("BTC", -90_000)], at=7, seq=9)
    assert (trial.status, trial.matched, trial.matched_ppm) == ("registered", 1, -9_000_000)
    assert capital(trial.capital_for) < 2_000_000


def test_what_was_confirmed_can_fade_and_is_weakened_and_retired() -> None:
    held = hypothesis()
    trial = judge(Trial(0), held, world(1, edge_bps=40.0, n=600), at=7, seq=9)
    assert trial.status == "confirmed" and trial.confirmed_at == 7
    seen = set()
    for each in world(2, edge_bps=-20.0, n=900):
        trial = judge(trial, held, [each], at=8, seq=10)
        seen.add(trial.status)
    assert seen == {"confirmed", "weakened", "retired"} and trial.is_over
    assert judge(trial, held, [case("BTC", -50)], at=9, seq=11).matched == trial.matched, "it is over"


def test_a_lesson_nobody_can_decide_does_not_stand_for_ever() -> None:
    swings = [
        case(symbol, bps if symbol == "BTC" else 0) for bps in (-80, 60) * MOST_ROUNDS for symbol in ("BTC", "ETH")
    ]
    trial = judge(Trial(0), hypothesis(effect_bps=40), swings, at=7, seq=9)
    assert (trial.is_over, trial.rounds, trial.reason) == (True, MOST_ROUNDS, "later trades did not decide")


def test_what_was_proposed_is_not_stated_before_it_is_confirmed() -> None:
    proposed = Lesson(hypothesis(carried=False), Trial(0))
    assert not proposed.is_stated and Lesson(hypothesis(), Trial(0)).is_stated
    confirmed = judge(Trial(0), proposed.hypothesis, world(1, edge_bps=60.0, n=600), at=7, seq=9)
    stated = Lesson(proposed.hypothesis, confirmed)
    assert stated.is_stated and stated.bullet().endswith(f"confirmed on {confirmed.matched} later trades")


def with_status(status: Status, claim: Claim = WORSE, condition: Condition = BTC) -> Lesson:
    held = replace(hypothesis(claim), condition=condition, lesson_id=lesson_id(condition, claim))
    return Lesson(held, Trial(0, status, confirmed_at=7 if status == "confirmed" else None))


def test_only_confirmed_lessons_that_trades_do_worse_are_followed() -> None:
    here = EntryFacts(symbol="BTC", regime="chop_lowvol", hour="08-12")
    chop = Condition((Term("regime", "chop_lowvol"),))
    unknown = Condition((Term("symbol", "BTC"), Term("confidence", "<0.2")))
    better, after = Claim("result", "better", "rest"), Claim("after_exit_4h", "worse", "nothing")
    silent = [
        with_status("registered"),
        with_status("weakened"),
        with_status("retired"),
        with_status("confirmed", better),
        with_status("confirmed", after),
        with_status("confirmed", condition=unknown),
        with_status("confirmed", condition=Condition((Term("symbol", "ETH"),))),
    ]
    assert follow_lessons(silent, here, skip=True) == NO_LESSONS_FOLLOWED
    one, two = with_status("confirmed"), with_status("confirmed", condition=chop)
    ids = tuple(sorted(each.hypothesis.lesson_id for each in (one, two)))
    assert follow_lessons([*silent, one], here, skip=False).long_scale_e4 == 5_000
    assert follow_lessons([one, two, *silent], here, skip=False) == FollowedLessons(2_500, 2_500, ids)
    assert follow_lessons([two, one], here, skip=True) == FollowedLessons(0, 0, ids)
    shorts = with_status("confirmed", condition=Condition((Term("side", "short"),)))
    warned = (shorts.hypothesis.lesson_id,)
    assert follow_lessons([shorts], here, skip=False) == FollowedLessons(10_000, 5_000, warned)


@pytest.mark.proof
@pytest.mark.parametrize("claim", [WORSE, NOTHING], ids=["against the rest", "against nothing"])
def test_error_rates_over_200_seeds(claim: Claim) -> None:
    assert (CONFIRM, RETIRE) == (20, 20)
    true = [first_verdict(seed, edge_bps=40.0, claim=claim) for seed in range(200)]
    false = [first_verdict(seed, edge_bps=0.0, claim=claim) for seed in range(200)]
    # At most 1 in 20 each way; more than 18 of 200 would need luck of 1 in 100.
    assert sum(each.confirmed_at is not None for each in false) <= 18
    assert sum(each.reason == "later trades speak against it" for each in true) <= 18
    assert sum(each.confirmed_at is not None for each in true) >= 180
