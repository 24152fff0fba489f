"""Events: the hash, and that no two events share a text."""

import hashlib

import msgspec
import pytest

from tapebook.domain.canonical import canonical_json
from tapebook.errors import BadInput
from tapebook.log.event import GENESIS, Draft, Event, Stream, chain_events
from tests.log.journal import Entry

STREAM = Stream("o", "d")


def test_hash_is_over_the_lines_of_an_event() -> None:
    """Written out, so that a change of the format cannot pass unseen: stored logs depend on it."""
    (event,) = chain_events(GENESIS, [Draft("k", 5, '{"a":1}', schema=2)], stream=Stream("o", "d"), seq=0, known_at=7)
    text = "0" * 64 + '\no/d\n1\nk\n2\n5\n7\n{"a":1}'
    assert event == Event(Stream("o", "d"), 1, "k", 2, 5, 7, '{"a":1}', hashlib.sha256(text.encode()).hexdigest())
    assert event.hash == "6c7a7a11eb79ad9c0b76c4acea90efb32e723bca0d9c6e0477afa8e66a36288d"


def test_every_field_and_the_event_before_it_enter_the_hash() -> None:
    (event,) = chain_events(GENESIS, [Draft("k", 5, "{}")], stream=Stream("o", "d"), seq=0, known_at=7)
    others = [
        msgspec.structs.replace(event, **change)
        for change in (
            {"stream": Stream("o", "e")},
            {"stream": Stream("p", "d")},
            {"seq": 2},
            {"kind": "l"},
            {"schema": 2},
            {"happened_at": 6},
            {"known_at": 8},
            {"body": "{} "},
        )
    ]
    hashes = {event.hash, event.hash_after("1" + GENESIS[1:]), *(other.hash_after(GENESIS) for other in others)}
    assert len(hashes) == 10


@pytest.mark.parametrize(
    ("stream", "draft"),
    [
        (Stream("a/b", "c"), Draft("k", 0, "{}")),
        (Stream("a", "b/c"), Draft("k", 0, "{}")),
        (Stream("a\n", "c"), Draft("k", 0, "{}")),
        (Stream("a", "c\n"), Draft("k", 0, "{}")),
        (Stream("a", "c"), Draft("k\n1", 0, "{}")),
        (Stream("a", "c"), Draft("k", 0, '{\n"a":1}')),
    ],
)
def test_text_that_could_be_read_in_two_ways_is_refused(stream: Stream, draft: Draft) -> None:
    with pytest.raises(BadInput, match="no slash"):
        chain_events(GENESIS, [Draft("k", 0, "{}"), draft], stream=stream, seq=0, known_at=0)


def test_each_event_of_a_chain_follows_the_one_before() -> None:
    first, second = chain_events("a" * 64, [Draft("k", 5, "{}"), Draft("l", 6, "[]")], stream=STREAM, seq=3, known_at=7)
    assert (first.seq, first.hash, second.seq) == (4, first.hash_after("a" * 64), 5)
    assert second.hash == second.hash_after(first.hash)


def test_draft_has_a_canonical_body_on_one_line() -> None:
    entry = Entry("ü\n", 5, ("b", "a"))
    draft = Draft.from_body("k", 3, entry)
    assert draft == Draft("k", 3, canonical_json(entry).decode(), schema=1)
    assert "\n" not in draft.body and "ü" in draft.body


def test_streams_are_ordered_by_owner_then_deployment() -> None:
    streams = [Stream("b"), Stream("a", "z"), Stream("a")]
    assert [stream.name for stream in sorted(streams)] == ["a/", "a/z", "b/"]
