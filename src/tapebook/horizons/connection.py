"""What the seed's API works on: a database with its log, whose it is, and what time it is.

`tapebook.open(home)` gives one for a home. `init_db` opens a database that holds layers and nothing else: there, days
are what somebody writes into L6, for there are no trades, and L7 is what somebody writes into it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tapebook.clock import SystemClock
from tapebook.db import Database, migrate
from tapebook.db import connect as open_database
from tapebook.errors import BadInput
from tapebook.horizons.projection import PROJECTION
from tapebook.horizons.rollup import Days
from tapebook.horizons.stated import StatedDays
from tapebook.horizons.store import MIGRATIONS, Horizons
from tapebook.log import Draft, Leases, Log, Stream
from tapebook.log.store import MIGRATIONS as LOG

OWNER = "local"


class Clock(Protocol):
    """Anything that knows market time."""

    def now(self) -> int:
        """UTC milliseconds."""
        ...


class Live(Protocol):
    """What is so at a moment, computed when it is asked for: positions, prices, short volatility (L7)."""

    def values(self, scope: str, *, at: int, key: str | None = None) -> Mapping[str, Any]:
        """The keys of a scope with their values at a moment, all of them or one."""
        ...


class Connection:
    """The layers of one owner, for reading and writing at this moment."""

    def __init__(
        self,
        db: Database,
        log: Log,
        *,
        owner: str,
        clock: Clock,
        days: Days | None = None,
        live: Live | None = None,
        leases: Leases | None = None,
    ) -> None:
        if not owner:
            raise BadInput("layers belong to somebody: name an owner")
        self._db = db
        self._log = log
        self._clock = clock
        self._leases = leases
        self.owner = owner
        self.store = Horizons(db, owner=owner)
        self.days: Days = days or StatedDays(self.store, log)
        self.live = live

    def now(self) -> int:
        """The clock's time."""
        return self._clock.now()

    def head(self, scope: str) -> int:
        """The newest sequence number of a scope's stream."""
        return self._log.head(Stream(self.owner, scope)).seq

    def seq_as_of(self, scope: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(Stream(self.owner, scope), as_of)

    def known_at(self, scope: str, seq: int) -> int:
        """When an event of a scope became known; 0 when there is none of that number."""
        events = self._log.events(Stream(self.owner, scope), after=seq - 1, until=seq)
        return next((event.known_at for event in events), 0)

    def append(self, scope: str, drafts: Sequence[Draft], *, expected_seq: int) -> None:
        """Writes events under the lease in hand, if any; StaleWriter when the stream moved on."""
        if drafts:
            stream = Stream(self.owner, scope)
            lease = self._leases.for_write(stream) if self._leases else None
            self._log.append(stream, drafts, expected_seq=expected_seq, lease=lease)

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()


class Opened(Protocol):
    """Something larger that holds a connection, such as what `tapebook.open` gives."""

    @property
    def horizons(self) -> Connection:
        """Its layers."""
        ...


def init_db(place: str, *, clock: Clock | None = None, owner: str = OWNER) -> Connection:
    """Opens or makes a database of layers alone: a path, or a `postgresql://` URL; time is the machine's by default."""
    if "://" not in place and place != ":memory:":
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    db, clock = open_database(place), clock or SystemClock()
    migrate(db, (LOG, MIGRATIONS))
    return Connection(db, Log(db, [PROJECTION], clock=clock), owner=owner, clock=clock)


def connection_of(conn: Connection | Opened) -> Connection:
    """The connection itself, or the one somebody holds."""
    return conn if isinstance(conn, Connection) else conn.horizons
