"""The kinds of event experience adds to a deployment's stream, with their bodies."""

from typing import TypeVar

import msgspec

from tapebook.experience.fits import Fit
from tapebook.experience.outcomes import Outcome
from tapebook.experience.records import Record
from tapebook.experience.sights import Reading
from tapebook.experience.snapshots import Snapshot
from tapebook.log import Draft, Event

Body = TypeVar("Body", bound=msgspec.Struct)


class SituationSeen(msgspec.Struct, frozen=True):
    """What an opening run saw; written with its decision."""

    run_id: str
    symbol: str
    reading: Reading
    conditions: tuple[tuple[str, str], ...]


class OutcomeLearned(msgspec.Struct, frozen=True):
    """A closed trade, and the new version of every record it counts for.

    `situations` is how many of the outcomes so far, this one included, came with a reading.
    """

    outcome: Outcome
    records: tuple[Record, ...]
    situations: int
    reading: Reading | None


class SituationsPacked(msgspec.Struct, frozen=True):
    """A full page of situations once more, in base64, so that opening a home does not read them one by one."""

    page: int
    rows: str


class SituationsFitted(msgspec.Struct, frozen=True):
    """How readings become vectors from now on."""

    fit: Fit


class SnapshotTaken(msgspec.Struct, frozen=True):
    """What a chunk achieved."""

    snapshot: Snapshot


KINDS: dict[type[msgspec.Struct], str] = {
    SituationSeen: "situation.seen",
    OutcomeLearned: "experience.learned",
    SituationsPacked: "situation.packed",
    SituationsFitted: "situation.fitted",
    SnapshotTaken: "experience.snapshot",
}


def draft(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    return Draft.of(KINDS[type(body)], happened_at, body)


def body_of(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    return msgspec.json.decode(event.body, type=kind)
