"""Proposed manuals: what is refused, and what a person is shown."""

import pytest

from tapebook.errors import BadInput
from tapebook.search.documents import check_manual, manual_diff, proposal_id_for


def test_a_difference_is_a_unified_diff() -> None:
    lines = manual_diff("# M\nold\nsame", "# M\nnew\nsame", agent="ann")
    assert lines[:2] == ["--- agents/ann/TRADING_MANUAL.md (now)", "+++ agents/ann/TRADING_MANUAL.md (proposed)"]
    assert lines[3:] == [" # M", "-old", "+new", " same"]


@pytest.mark.parametrize("text", ["", " \n\n ", "a\x00b", "a\u200bb", "same", "\nsame\n"])
def test_what_cannot_be_proposed(text: str) -> None:
    with pytest.raises(BadInput):
        check_manual(text, manual="same")


def test_a_manual_keeps_its_lines_and_tabs() -> None:
    assert check_manual("a\r\n\tb\n\n", manual="") == "a\n\tb"


def test_ids_are_short_and_differ() -> None:
    ids = {proposal_id_for("ann", base="b", text=text, at=at) for text in "xy" for at in (1, 2)}
    assert len(ids) == 4 and {len(each) for each in ids} == {10}
