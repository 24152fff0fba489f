"""Packed situations: what goes in comes out, whatever is missing."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.experience.features import FIELDS, MOST_FEATURE, ROW_BYTES, FeatureVector, pack_situation, unpack_features
from tapebook.experience.records import outcome_of
from tests.experience.makers import closed

READINGS = st.tuples(*(st.none() | st.integers(-MOST_FEATURE, MOST_FEATURE) for _ in FIELDS))


@given(READINGS, st.sampled_from(["long", "short"]))
def test_a_reading_comes_out_as_it_went_in(reading: FeatureVector, side: str) -> None:
    row = pack_situation(reading, outcome_of(closed(1, net_bps=7, side=side), None))
    assert len(row) == ROW_BYTES
    assert unpack_features(row) == reading
