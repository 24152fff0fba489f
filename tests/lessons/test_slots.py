"""The text form of a note, there and back."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.lessons import SLOTS, hash_lessons_text, note_bullets, note_text, read_slots

LINE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)
NOTES = st.dictionaries(st.sampled_from(SLOTS), st.lists(LINE, max_size=4).map(tuple))


@given(NOTES)
def test_a_note_reads_back_as_it_was_written(slots: dict[str, tuple[str, ...]]) -> None:
    assert read_slots(note_text(slots)) == {slot: slots.get(slot, ()) for slot in SLOTS}
    assert len(note_bullets(note_text(slots))) == sum(map(len, slots.values()))


def test_white_space_does_not_change_the_hash() -> None:
    assert hash_lessons_text("a  b\n c") == hash_lessons_text(" a b c ")
    assert hash_lessons_text("a b c") != hash_lessons_text("a b d")
    assert len(hash_lessons_text("")) == 16
