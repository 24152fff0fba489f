"""Postings come back as they were kept, from as many pages as they have."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.search.store import MAX_TERM_COUNT, POSTINGS_PAGE, pack_posting, posting_pages, unpack_postings

ROWS = st.integers(0, 3 * POSTINGS_PAGE) | st.integers(0, 2**26 - 1)
POSTINGS = st.dictionaries(ROWS, st.integers(1, 200), min_size=1).map(lambda found: sorted(found.items()))


@given(POSTINGS)
def test_there_and_back(found: list[tuple[int, int]]) -> None:
    numbers = [pack_posting(row, times) for row, times in found]
    assert numbers == sorted(numbers)
    kept = dict(posting_pages(numbers))
    rows, times = unpack_postings(b"".join(kept.values()))
    assert rows.tolist() == [row for row, _ in found]
    assert times.tolist() == [min(often, MAX_TERM_COUNT) for _, often in found]
    assert list(kept) == sorted({row // POSTINGS_PAGE for row, _ in found})
    for page, content in kept.items():
        assert {row // POSTINGS_PAGE for row in unpack_postings(content)[0].tolist()} == {page}
