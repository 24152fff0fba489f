"""The rooms of a memory as people name them, and the sections of a packet that each of them is."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.assemble import RENDERER_SECTIONS, ROOM_OF_SECTION
from tapebook.domain.agent import (
    ACCOUNT_ROOMS,
    LEARNED_ROOMS,
    MEMORY_ROOMS,
    ContextProfile,
    MemoryRoom,
    MemorySetting,
    memory_setting_text,
    parse_memory,
)


@pytest.mark.parametrize(
    ("written", "rooms"),
    [
        ("on", MEMORY_ROOMS),
        (True, MEMORY_ROOMS),
        ("off", ACCOUNT_ROOMS),
        (False, ACCOUNT_ROOMS),
        ("none", ()),
        ("Lessons, experience", (*ACCOUNT_ROOMS, "lessons", "experience")),
        ("experience+lessons", (*ACCOUNT_ROOMS, "lessons", "experience")),
        (["documents"], (*ACCOUNT_ROOMS, "documents")),
        ("trades,documents", (*ACCOUNT_ROOMS, "documents")),
        ("none,trades", ("trades",)),
        ("none+lessons+positions", ("positions", "lessons")),
        (",".join(LEARNED_ROOMS), MEMORY_ROOMS),
    ],
)
def test_rooms_as_people_name_them(written: str | bool | list[str], rooms: tuple[MemoryRoom, ...]) -> None:
    assert ContextProfile(memory=parse_memory(written)).rooms == rooms


@pytest.mark.parametrize("written", ["", "recall", "on,off", "off,lessons", "none,", "lessons,,trades"])
def test_what_is_no_room_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"is no room of a memory: it may be on, off .*lessons, experience, horizons"):
        parse_memory(written)


@given(st.sets(st.sampled_from(MEMORY_ROOMS)))
def test_a_setting_is_read_as_it_is_written(rooms: set[MemoryRoom]) -> None:
    named = tuple(room for room in MEMORY_ROOMS if room in rooms)
    memory: MemorySetting = True if named == MEMORY_ROOMS else named or False
    assert parse_memory(memory_setting_text(memory)) == memory
    assert ContextProfile(memory=memory).rooms == named


@pytest.mark.parametrize("stored", [b'{"memory":true}', b'{"memory":false}'])
def test_profiles_of_before_keep_their_bytes_and_their_meaning(stored: bytes) -> None:
    """What was stored as switched off showed nothing of the account either: today's `none`."""
    found = msgspec.json.decode(stored, type=ContextProfile)
    assert msgspec.json.decode(msgspec.json.encode(found))["memory"] is (b"true" in stored)
    assert found.rooms == (MEMORY_ROOMS if b"true" in stored else ())
    assert memory_setting_text(found.memory) == ("on" if b"true" in stored else "none")


def test_every_section_of_memory_is_of_a_room() -> None:
    for market, own in RENDERER_SECTIONS.values():
        assert not any(layout.memory for layout in market)
        assert {layout.name for layout in own if layout.memory} == set(ROOM_OF_SECTION)
    assert {*ROOM_OF_SECTION.values(), "lessons"} == set(MEMORY_ROOMS)
