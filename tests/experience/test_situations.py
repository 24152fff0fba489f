"""The search: equal to one by hand, twins found at any age, blind to outcomes, and the same as of any prefix."""

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.experience.features import ROW_BYTES, FeatureVector, Fit, feature_vector_of, pack_situation
from tapebook.experience.records import Outcome, outcome_of
from tapebook.experience.situations import (
    SITUATION_DTYPE,
    Situations,
    whitened_vector,
    whitened_vectors,
    whitening_matrix,
)
from tests.experience.makers import closed, sight
from tests.experience.test_whitening import exact
from tests.matrix import examples


def ended(number: int, net_bps: float = 1.0, side: str = "long") -> Outcome:
    return outcome_of(closed(number, net_bps=net_bps, side=side), None)


def world(seed: int, count: int) -> list[tuple[FeatureVector, Outcome]]:
    rng = random.Random(seed)
    sides = ("long", "short")
    return [
        (feature_vector_of(sight(rng)), ended(number, rng.gauss(0, 40), rng.choice(sides)))
        for number in range(1, count + 1)
    ]


def filled(pairs: list[tuple[FeatureVector, Outcome]]) -> Situations:
    found = Situations()
    found.extend(b"".join(pack_situation(*pair) for pair in pairs))
    return found


def plain(reading: FeatureVector) -> list[int]:
    return [-(2**15) if each is None else each for each in reading]


def by_hand(pairs: list[tuple[FeatureVector, Outcome]], fit: Fit, reading: FeatureVector) -> list[tuple[int, int]]:
    """(distance, number) of every situation, nearest first; ties by the digest of the id."""
    query = exact(fit, plain(reading))
    found = []
    for number, (other, outcome) in enumerate(pairs, start=1):
        vector = exact(fit, plain(other))
        away = sum((a - b) ** 2 for a, b in zip(query, vector, strict=True))
        digest = int.from_bytes(pack_situation(other, outcome)[-9:-1], "little")
        found.append((away, digest, number))
    return [(away, number) for away, _, number in sorted(found)]


PAIRS = world(1, 600)
FULL = filled(PAIRS)
FIT = FULL.fit_newest(300)
TWINS = filled([*PAIRS[:5], *[(PAIRS[4][0], ended(number, number - 715)) for number in range(700, 730)], *PAIRS[5:]])


def test_row_of_numpy_is_the_row_that_is_packed() -> None:
    assert SITUATION_DTYPE.itemsize == ROW_BYTES


@given(st.integers(0, 10_000), st.integers(1, 600), st.integers(1, 30))
@settings(max_examples=examples(30))
def test_nearest_are_those_found_by_hand(seed: int, count: int, most: int) -> None:
    query = feature_vector_of(sight(random.Random(seed)))
    found = FULL.nearest(FIT, query, count=count, most=most)
    expected = by_hand(PAIRS[:count], FIT, query)[:most]
    assert [(each.distance, each.number) for each in found.neighbours] == expected
    assert all(each.result_ppm == PAIRS[each.number - 1][1].result_ppm for each in found.neighbours)


@given(st.integers(0, 10_000), st.integers(1, 630), st.integers(1, 30))
def test_company_is_that_of_the_nearest_in_no_order(seed: int, count: int, most: int) -> None:
    rng = random.Random(seed)
    query = rng.choice((feature_vector_of(sight(rng)), PAIRS[4][0], (32_000, -32_000, None) * 5))
    found = TWINS.neighbours(FIT, query, count=count, most=most)
    nearest = TWINS.nearest(FIT, query, count=count, most=most)
    assert sorted(zip(found.sides, found.results_ppm, strict=True)) == sorted(
        zip(nearest.sides, nearest.results_ppm, strict=True)
    )
    assert (found.least, found.searched, found.usual) == (nearest.distances[0], count, FIT.far)
    assert (found.is_novel, found.times_usual, found.records) == (
        nearest.is_novel,
        nearest.times_usual,
        nearest.records,
    )


def test_the_nearest_of_many_are_those_of_a_plain_sort() -> None:
    """With several groups to choose from, ties among them, and queries that nothing is near to."""
    pairs = world(2, 2_500) + world(3, 40) * 3
    full, rng = filled(pairs), random.Random(4)
    fit = full.fit_newest(2_500)
    matrix = whitened_vectors(fit, full.feature_rows(0, len(pairs))).astype(np.int64)
    far = tuple(rng.choice((-32_000, 32_000)) for _ in range(15))
    for query in (
        far,
        *(feature_vector_of(sight(rng)) for _ in range(20)),
        *(pairs[-place][0] for place in (1, 2, 50)),
    ):
        for count, most in ((len(pairs), 25), (2_600, 60), (211, 7), (199, 25)):
            found = full.nearest(fit, query, count=count, most=most)
            point = np.array(whitened_vector(fit, whitening_matrix(fit), query))
            away = ((matrix[:, :count] - point[:, None]) ** 2).sum(axis=0).tolist()
            digests = [int.from_bytes(pack_situation(*pair)[-9:-1], "little") for pair in pairs[:count]]
            order = sorted(range(count), key=lambda at: (away[at], digests[at], at))[:most]
            assert [number - 1 for number in found.numbers] == order
            assert list(found.distances) == [away[at] for at in order]


@pytest.mark.parametrize("age", [1, 50, 51, 599])
def test_twin_is_the_nearest_at_any_age(age: int) -> None:
    number = len(PAIRS) - age
    found = FULL.nearest(FIT, PAIRS[number - 1][0], count=len(PAIRS))
    assert (found.neighbours[0].number, found.neighbours[0].distance) == (number, 0)
    assert not found.is_novel


def test_what_comes_later_changes_nothing_as_of_before() -> None:
    query = feature_vector_of(sight(random.Random(77)))
    alone = filled(PAIRS[:200])
    before = alone.nearest(FIT, query, count=200)
    twin = [(query, ended(9_999, 500.0))] * 3
    alone.extend(b"".join(pack_situation(*pair) for pair in [*PAIRS[200:], *twin]))
    assert alone.nearest(FIT, query, count=603).neighbours[0].number == 601
    assert alone.nearest(FIT, query, count=200) == before


def test_growing_one_by_one_is_the_same_as_all_at_once() -> None:
    grown, query = Situations(), feature_vector_of(sight(random.Random(5)))
    for place, pair in enumerate(PAIRS[:150], start=1):
        grown.extend(pack_situation(*pair))
        if place % 7 == 0:
            assert grown.nearest(FIT, query, count=place) == FULL.nearest(FIT, query, count=place)
    assert grown.fit_newest(150) == FULL.fit_newest(150)


def test_ranking_is_blind_to_outcomes() -> None:
    query = feature_vector_of(sight(random.Random(9)))
    flipped = [(reading, msgspec.structs.replace(each, net_usd_e6=-each.net_usd_e6)) for reading, each in PAIRS]
    one = FULL.nearest(FIT, query, count=600).neighbours
    other = filled(flipped).nearest(FIT, query, count=600).neighbours
    assert [each.number for each in one] == [each.number for each in other]
    assert [each.result_ppm for each in one] == [-each.result_ppm for each in other]


def test_ties_go_by_the_id_and_not_by_arrival() -> None:
    query = PAIRS[0][0]
    twins = [(query, ended(number)) for number in range(700, 740)]
    orders = (twins, twins[::-1], twins[20:] + twins[:20])
    found = []
    for order in orders:
        nearest = filled(order).nearest(FIT, query, count=40, most=5)
        found.append([order[each.number - 1][1].trade_id for each in nearest.neighbours])
    assert found[0] == found[1] == found[2]


def test_something_new_is_called_unlike_anything_seen() -> None:
    strange = tuple(30_000 if place % 2 else -30_000 for place in range(15))
    found = FULL.nearest(FIT, strange, count=600)
    assert found.is_novel
    assert found.times_usual > 2
    # Of the situations of the fit, one in a hundred has no other one nearer.
    others = [FULL.nearest(FIT, reading, count=300, most=2).neighbours[1] for reading, _ in PAIRS[:300]]
    assert sum(other.distance > FIT.far for other in others) == 3


def test_summary_counts_by_side() -> None:
    sides = ((1, "long"), (2, "long"), (3, "short"))
    pairs = [(PAIRS[0][0], ended(number, 10.0 * number, side)) for number, side in sides]
    found = filled(pairs).nearest(FIT, PAIRS[0][0], count=3)
    every, long, short = found.records
    assert (every.n, every.wins, every.total_ppm) == (3, 3, 6_000)
    assert (long.name, long.n, long.total_ppm, long.square_ppm2) == ("long", 2, 3_000, 5_000_000)
    assert (short.name, short.n, short.wins, short.total_ppm) == ("short", 1, 1, 3_000)


def test_fit_is_of_the_newest_of_a_prefix() -> None:
    assert (FIT.first, FIT.last) == (1, 300)
    assert filled(PAIRS[:300]).fit_newest(300) == FIT
