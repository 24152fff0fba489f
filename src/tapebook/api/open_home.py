"""Defines `OpenHome`, what every part of the façade works on: one writer and a pool of readers, for any threads.

1. `write` gives the rooms that may write. There is one set of them, and whoever asks waits for whoever has them.
2. `read` gives rooms to read with. The thread that opened the home reads with the writer's while nobody writes, so
   that a program of one thread has one connection. Every other read borrows a reader from the pool: rooms of its
   own, with connections that cannot write and caches that no other thread sees. At most `MOST_READERS` are open;
   whoever comes then waits for the next that is given back.
3. What a thread has in hand it is given again when it asks inside, so that a read is of one set of rooms.

`HomePart` is the base of the nouns: each takes an `OpenHome`, and borrows from it in every method.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tapebook.anchors import try_anchor_heads
from tapebook.backtest.equity import EquityCache
from tapebook.backtest.home import backtest_end
from tapebook.book.store import Book
from tapebook.clock import Clock, SystemClock, VirtualClock
from tapebook.domain.agent import deployment_id
from tapebook.domain.units import iso_text, parse_instant
from tapebook.errors import BadInput, HomeError
from tapebook.home import DEMO_START, is_demo_home, presence_lock, process_name
from tapebook.ingest.tape_recovery import recover_lost_tape
from tapebook.log import KeyedWrite
from tapebook.wiring import Rooms

MOST_READERS = 8
"""Readers of one home. Python runs one thread at a time, so more of them only take memory."""

AsOf = int | str | None
"""A moment: epoch milliseconds, ISO-8601 text, or None for now."""


@contextmanager
def server_presence(folder: Path, role: str) -> Iterator[None]:
    """Lets `tapebook doctor` see that this process serves a home, as `api` or `web`, until the end."""
    with ExitStack() as held:
        # A home that cannot be written in is served all the same.
        with suppress(OSError):
            held.enter_context(presence_lock(folder, role))
        yield


class OpenHome:
    """A home, opened for any number of threads.

    `demo_clock` is that of a demo, whose market stands still; `ends_at` is when a backtest ends, if this is its home.
    """

    def __init__(self, rooms: Rooms, *, demo_clock: VirtualClock | None = None, ends_at: int | None = None) -> None:
        self.writer = rooms
        self.demo_clock = demo_clock
        self._ends_at = ends_at
        self._write_lock = threading.RLock()
        self._opened_by = threading.get_ident()
        self._in_hand = threading.local()
        self._readers: list[Rooms] = []
        self._idle: list[Rooms] = []
        self._returned = threading.Condition()
        self._opening = 0
        self._closed = False
        self.anchor_problem: str | None = None
        self.equity_cache = EquityCache()
        self.catch_up()

    @classmethod
    def at(cls, path: Path, *, clock: Clock | None = None, recall: str | None = None) -> "OpenHome":
        """Opens the home at a path."""
        demo = clock is None and is_demo_home(path)
        demo_clock, system = VirtualClock(DEMO_START) if demo else None, SystemClock()
        rooms = Rooms(path, clock=clock or demo_clock or system, slot=recall)
        recover_lost_tape(rooms)
        # What is done now is done after all that is known, also where a world runs faster than real time.
        system.catch_up(rooms.tape.head()[1])
        return cls(rooms, demo_clock=demo_clock, ends_at=backtest_end(path))

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, by any thread."""
        return self._closed

    @contextmanager
    def write(self) -> Iterator[Rooms]:
        """The rooms that may write, for one thread at a time."""
        if self._closed:
            raise self._closed_error()
        with self._write_lock:
            before, self._in_hand.rooms = getattr(self._in_hand, "rooms", None), self.writer
            try:
                yield self.writer
            finally:
                self._in_hand.rooms = before

    @contextmanager
    def keyed_write(self, write_id: str) -> Iterator[KeyedWrite]:
        """Has all that this thread appends inside noted under an id, in the transactions that append it."""
        with self.write() as rooms:
            owner, attempt = rooms.book.owner, process_name()
            rooms.log.keyed = KeyedWrite(rooms.book_db, owner=owner, write_id=write_id, attempt=attempt)
            try:
                yield rooms.log.keyed
            finally:
                rooms.log.keyed = None

    @contextmanager
    def read(self) -> Iterator[Rooms]:
        """Rooms to read with, for this thread alone."""
        if self._closed:
            raise self._closed_error()
        held: Rooms | None = getattr(self._in_hand, "rooms", None)
        if held is not None:
            yield held
            return
        own = threading.get_ident() == self._opened_by and self._write_lock.acquire(blocking=False)
        rooms = self._in_hand.rooms = self.writer if own else self._borrow()
        try:
            yield rooms
        finally:
            self._in_hand.rooms = None
            if own:
                self._write_lock.release()
            else:
                self._give_back(rooms)

    def moment(self, as_of: AsOf) -> int:
        """A moment as people write it, BadInput for one that has not come; now by default, in a backtest its end."""
        if as_of is None and self._ends_at is not None:
            # The tape is the parent's and goes on: what is held at the end is worth what it was then.
            return self._ends_at
        with self.read() as rooms:
            # A world that runs faster than real time can be ahead of the machine's clock.
            now = max(rooms.clock.now(), rooms.tape.head()[1])
        moment = now if as_of is None else parse_moment(as_of)
        if moment > now:
            raise BadInput(f"{iso_text(moment)} lies in the future: nothing is known after {iso_text(now)}")
        return moment

    def catch_up(self) -> None:
        """In a demo home "now" is where its market stopped, and after all that was written since."""
        if self.demo_clock is None:
            return
        rooms = self.writer
        # A folder of documents is thousands of events, which are no reason to be thousands of moments ahead.
        written = rooms.log.newest_known_at(rooms.book.owner, without=rooms.documents.stream.deployment)
        self.demo_clock.advance(max(self.demo_clock.now(), rooms.tape.head()[1], written + 1))

    def play_market_on(self, deployments: Sequence[str]) -> bool:
        """Moves the market of a demo home on until market orders of deployments have ended; False if none waits."""
        clock, rooms = self.demo_clock, self.writer
        if clock is None:
            return False

        def is_done() -> bool:
            for each in deployments:
                for order, _ in rooms.book.working_orders(each):
                    if order.type == "market":
                        return False
            return True

        if is_done():
            return False
        # The demo brings the whole desk and an event loop, which no other call needs.
        import asyncio

        from tapebook.desk.demo import play_until

        asyncio.run(play_until(rooms, clock, until=is_done))
        return True

    def _closed_error(self) -> HomeError:
        return HomeError(f"{self.writer.home} was closed: open it again")

    def discard_readers(self) -> None:
        """Has readers opened anew: what they remember was computed again, though nothing was appended."""
        with self._returned:
            idle, self._idle = self._idle, []
            # Those in use end when they are given back.
            self._readers = []
            self._returned.notify_all()
        for reader in idle:
            reader.close()

    def close(self) -> None:
        """Ends all connections; what was written is anchored before. A reader in use ends when it is given back."""
        try:
            if not self._closed:
                self.anchor_written(self.writer)
        finally:
            self._closed = True
            self.discard_readers()
            self.writer.close()

    def anchor_written(self, rooms: Rooms) -> None:
        """Anchors the heads of the log, if these rooms have written; `anchor_problem` says why they could not be."""
        if rooms.log.written or rooms.tape.commits:
            self.anchor_problem = try_anchor_heads(rooms)

    def _borrow(self) -> Rooms:
        """A reader that nobody has, opened if there may be another."""
        with self._returned:
            self._returned.wait_for(lambda: self._idle or len(self._readers) + self._opening < MOST_READERS)
            if self._idle:
                return self._idle.pop()
            self._opening += 1
        # Outside the lock: opening takes some milliseconds, and who gives a reader back must not wait for it.
        try:
            reader = Rooms(self.writer.home, clock=self.writer.clock, read_with=self.writer.config)
        except BaseException:
            with self._returned:
                self._opening -= 1
                self._returned.notify()
            raise
        with self._returned:
            self._opening -= 1
            # One that was opened while the home was closed ends when it is given back.
            if not self._closed:
                self._readers.append(reader)
        return reader

    def _give_back(self, reader: Rooms) -> None:
        with self._returned:
            kept = reader in self._readers
            if kept:
                self._idle.append(reader)
                self._returned.notify()
        if not kept:
            reader.close()


def parse_moment(given: int | str) -> int:
    """A moment as people write it, in epoch milliseconds; BadInput for a text that is none."""
    try:
        return parse_instant(given) if isinstance(given, str) else given
    except ValueError as error:
        raise BadInput(str(error)) from error


def require_rows(most: int) -> None:
    """BadInput for a list of fewer than one row."""
    if most < 1:
        raise BadInput(f"most is {most}: a list has one row at least")


def listed_deployment(book: Book, agent: str | None, as_of: int | None) -> str | None:
    """Whose rows a list shows: those of an agent's deployment, or all (empty); None before an agent was there."""
    if agent is None:
        return ""
    newest = book.find_agent(agent, removed=True)
    if as_of is None:
        return newest.id
    # Its broker or its mode, which name the deployment, may have been others then.
    then = book.agent_as_of(agent, as_of=as_of, removed=True)
    return None if then is None else deployment_id(then[1])


class HomePart:
    """A noun of the façade, on an open home."""

    def __init__(self, home: OpenHome) -> None:
        self._home = home
