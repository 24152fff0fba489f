"""Postings come back as they were kept, from as many pages as they have."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.recall.postings import MOST_TIMES, PAGE, pages, posting, unpacked

ROWS = st.integers(0, 3 * PAGE) | st.integers(0, 2**26 - 1)
POSTINGS = st.dictionaries(ROWS, st.integers(1, 200), min_size=1).map(lambda found: sorted(found.items()))


@given(POSTINGS)
def test_there_and_back(found: list[tuple[int, int]]) -> None:
    numbers = [posting(row, times) for row, times in found]
    assert numbers == sorted(numbers)
    kept = dict(pages(numbers))
    rows, times = unpacked(b"".join(kept.values()))
    assert rows.tolist() == [row for row, _ in found]
    assert times.tolist() == [min(often, MOST_TIMES) for _, often in found]
    assert list(kept) == sorted({row // PAGE for row, _ in found})
    for page, content in kept.items():
        assert {row // PAGE for row in unpacked(content)[0].tolist()} == {page}
