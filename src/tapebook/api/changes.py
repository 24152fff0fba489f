"""What moved in a home since somebody looked: where each stream of the log ends, and which kinds of events it got.

For views that stay up to date. A stream is named by its deployment; `owner` is the owner's own (agents, halts, what
holds for all), `documents` that of documents, and `tape` stands for the commits of the market.
"""

import time
from collections.abc import Mapping

import msgspec

from tapebook.api.open_home import HomePart
from tapebook.book.store import Book
from tapebook.clock import elapsed_seconds
from tapebook.domain.agent import agent_name_of
from tapebook.errors import BadInput
from tapebook.log import Log
from tapebook.search.documents import DOCUMENTS_STREAM
from tapebook.tape.store import Tape

TAPE_STREAM = "tape"
# The streams that are of no deployment, by the names people read.
_NAMES = {"": "owner", DOCUMENTS_STREAM: "documents"}
_STREAMS = {name: stream for stream, name in _NAMES.items()}
# Short enough for a person who watches, and one statement each time on either database.
_LOOK_SECONDS = 0.25


class MovedStream(msgspec.Struct, frozen=True):
    """A stream that got events: after which number, up to which, and how many of each kind; of the tape, commits."""

    stream: str
    agent: str | None
    after: int
    until: int
    kinds: dict[str, int]


class HomeChanges(msgspec.Struct, frozen=True):
    """What moved, by stream; `heads` are to be given as `since` next time."""

    heads: dict[str, int]
    moved: list[MovedStream]


class ChangeFeed(HomePart):
    """The changes of a home, whichever process makes them."""

    def heads(self, *, tape: bool = False) -> dict[str, int]:
        """The newest sequence number of every stream; with `tape`, of the market's commits too."""
        with self._home.read() as rooms:
            return _heads(rooms.book, rooms.tape, rooms.log, commits=tape)

    def changes(self, since: Mapping[str, int], *, wait_seconds: float = 0.0) -> HomeChanges:
        """What moved since `heads` were read; waits for so long until something has. The tape counts if it is named.

        A stream that `since` does not name is new, and counts from its first event. Closing the home ends the wait.
        """
        if not 0 <= wait_seconds < float("inf"):
            raise BadInput(f"wait_seconds is {wait_seconds}: give a number of seconds, 0 to wait for nothing")
        end, tape = elapsed_seconds() + wait_seconds, TAPE_STREAM in since
        while True:
            with self._home.read() as rooms:
                heads = _heads(rooms.book, rooms.tape, rooms.log, commits=tape)
                moved = [
                    _moved_stream(rooms.book, rooms.log, name, after=since.get(name, 0), until=seq)
                    for name, seq in heads.items()
                    if seq > since.get(name, 0)
                ]
            left = end - elapsed_seconds()
            if not moved and left > 0:
                # Nothing is borrowed meanwhile: any number of threads may wait.
                time.sleep(min(left, _LOOK_SECONDS))
            if moved or left <= 0 or self._home.is_closed:
                return HomeChanges(heads, moved)


def _heads(book: Book, tape: Tape, log: Log, *, commits: bool) -> dict[str, int]:
    found = {_NAMES.get(stream, stream): seq for stream, seq in sorted(log.heads(book.owner).items())}
    return {**found, TAPE_STREAM: tape.head()[0]} if commits else found


def _moved_stream(book: Book, log: Log, name: str, *, after: int, until: int) -> MovedStream:
    if name == TAPE_STREAM:
        return MovedStream(name, None, after, until, {})
    stream = book.stream(_STREAMS.get(name, name))
    kinds = log.kinds_between(stream, after=after, until=until)
    # Only the streams of deployments have a broker in their name.
    agent = agent_name_of(name) or None
    return MovedStream(name, agent, after, until, kinds)
