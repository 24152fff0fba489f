"""Packed situations: what goes in comes out, whatever is missing."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.experience.outcomes import outcome_of
from tapebook.experience.pages import ROW_BYTES, packed, reading_in
from tapebook.experience.sights import FIELDS, MOST, Reading
from tests.experience.makers import closed

READINGS = st.tuples(*(st.none() | st.integers(-MOST, MOST) for _ in FIELDS))


@given(READINGS, st.sampled_from(["long", "short"]))
def test_a_reading_comes_out_as_it_went_in(reading: Reading, side: str) -> None:
    row = packed(reading, outcome_of(closed(1, net_bps=7, side=side), None))
    assert len(row) == ROW_BYTES
    assert reading_in(row) == reading
