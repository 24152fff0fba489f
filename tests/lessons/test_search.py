"""The search for lessons: what trades carry is found, what is luck is not, and a split is tested once."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.domain.estimate import mean_estimate
from tapebook.lessons.hypotheses import Claim, Condition, EntryFacts, Term, TradeCase
from tapebook.lessons.search import (
    FEWEST_TRADES,
    CaseTable,
    MeasuredClaim,
    Registration,
    find_lessons,
    measure_claim,
    measure_family,
    register_lesson,
    turn_claim,
)
from tests.lessons.trades import PLANTED, T0, random_cases

BETTER = Claim("result", "better", "rest")


def found(cases: list[TradeCase]) -> list[MeasuredClaim]:
    return find_lessons(measure_family(CaseTable(cases)))


def test_where_there_is_nothing_hardly_anything_is_said() -> None:
    assert sum(bool(found(random_cases(seed))) for seed in range(40)) <= 2


def test_a_true_pattern_is_found_and_little_else() -> None:
    true = Condition((Term("regime", PLANTED),))
    worlds = [found(random_cases(seed, edge_bps=50.0)) for seed in range(20)]
    assert sum(any(each.condition == true for each in world) for world in worlds) >= 16
    # Every regime differs from the rest when one has an edge; all other facts mean nothing.
    strange = [
        each for world in worlds for each in world if "regime" not in {term.field for term in each.condition.terms}
    ]
    assert len(strange) <= 2


def test_exits_are_judged_by_what_the_market_did_after_them() -> None:
    early = [found(random_cases(seed, after_exit_bps=25.0)) for seed in range(10)]
    claims = [each.claim for world in early for each in world if not each.condition.terms]
    assert len(claims) >= 10 and {each.direction for each in claims} == {"better"}
    late = found(random_cases(1, after_exit_bps=-25.0))
    assert {(each.claim.metric, each.claim.direction) for each in late if not each.condition.terms} >= {
        ("after_exit_4h", "worse")
    }


def test_how_long_a_trade_was_held_is_nothing_to_search() -> None:
    # Of noise that is left at a stop or a target, the winners are those held longest: an outcome, no fact of the entry.
    assert not {"held", "holding_ms", "exit_reason"} & set(EntryFacts.__struct_fields__)


@given(st.integers(0, 10**6), st.integers(20, 80))
def test_equal_splits_count_once_and_every_claim_points_where_its_trades_do(seed: int, n: int) -> None:
    table = CaseTable(random_cases(seed, n=n))
    family = measure_family(table)
    splits = [(each.claim.metric, frozenset((each.members, each.others))) for each in family]
    assert len(set(splits)) == len(splits)
    assert all(each.effect.value >= 0 and 0 <= each.chance <= 1 for each in family)
    assert (
        sum(
            any(term.field == "side" for term in each.condition.terms[:1])
            for each in family
            if len(each.condition.terms) == 1 and each.claim.metric == "result"
        )
        <= 1
    )
    for each in family:
        assert each.effect.n >= FEWEST_TRADES and each.members & each.others == 0


@given(st.integers(0, 10**6))
def test_a_claim_is_measured_as_by_hand(seed: int) -> None:
    cases = random_cases(seed, n=60)
    # Of some trades the fact is not known: they are on neither side.
    cases = [
        replace(case, facts=replace(case.facts, regime=None)) if number % 7 == 0 else case
        for number, case in enumerate(cases)
    ]
    condition = Condition((Term("regime", PLANTED),))
    measured = measure_claim(CaseTable(cases), condition, BETTER)
    ours = [case.result_ppm for case in cases if case.facts.regime == PLANTED]
    rest = [case.result_ppm for case in cases if case.facts.regime not in (None, PLANTED)]
    if measured is None:
        assert len(ours) < FEWEST_TRADES
        return
    assert (measured.effect.n, measured.rest_n) == (len(ours), len(rest))
    assert measured.effect.value == pytest.approx(sum(ours) / len(ours) - sum(rest) / len(rest))
    assert turn_claim(measured).effect.value == -measured.effect.value
    assert turn_claim(turn_claim(measured)) == measured


def test_two_values_of_a_fact_are_one_claim() -> None:
    rng = random.Random(3)
    facts = [EntryFacts(symbol="BTC", side=rng.choice(("long", "short"))) for _ in range(60)]
    cases = [TradeCase(f"t{at}", T0 + at, each, rng.randrange(-900, 900)) for at, each in enumerate(facts)]
    (only,) = measure_family(CaseTable(cases))
    # "BTC long", "long" and "short" split the trades alike, and all are of BTC.
    assert only.condition.terms[0].field == "side" and only.claim.direction == "worse"
    same = measure_claim(CaseTable(cases), Condition((Term("symbol", "BTC"), *only.condition.terms)), only.claim)
    assert same is not None and same.says_the_same(only) and not turn_claim(same).says_the_same(only)


def test_a_lesson_is_registered_with_its_numbers() -> None:
    cases = random_cases(5, edge_bps=50.0)
    table = CaseTable(cases)
    measured = measure_claim(table, Condition((Term("regime", PLANTED),)), BETTER)
    assert measured is not None
    lesson = register_lesson(measured, table, Registration("statistics", T0, 9), carried=True)
    assert (lesson.slot, lesson.n + lesson.rest_n, lesson.seq) == ("Regime fit", 200, 9)
    assert lesson.low_ppm < lesson.effect_ppm < lesson.high_ppm
    assert 0 < lesson.least_ppm <= lesson.effect_ppm
    # Clipped where two median deviations are, which is less than the standard deviation and a half.
    assert 4_000 < lesson.clip_ppm < 12_000
    overall = mean_estimate([float(case.result_ppm) for case in cases])
    assert overall.low < lesson.centre_ppm < overall.high


@pytest.mark.proof
def test_noise_and_planted_worlds_at_the_stated_rates() -> None:
    said = sum(bool(found(random_cases(seed))) for seed in range(400))
    true = Condition((Term("regime", PLANTED),))
    seen = sum(any(each.condition == true for each in found(random_cases(seed, edge_bps=50.0))) for seed in range(200))
    assert said <= 20 and seen >= 170
