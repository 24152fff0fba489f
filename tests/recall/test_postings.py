"""Postings come back as they were kept, and can be appended to as bytes."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.recall.postings import MOST_TIMES, packed, unpacked

POSTINGS = st.dictionaries(st.integers(0, 2**26 - 1), st.integers(1, 200)).map(lambda found: sorted(found.items()))


@given(POSTINGS, POSTINGS)
def test_there_and_back(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    rows, times = unpacked(packed(first) + packed(second))
    assert rows.tolist() == [row for row, _ in first + second]
    assert times.tolist() == [min(often, MOST_TIMES) for _, often in first + second]
