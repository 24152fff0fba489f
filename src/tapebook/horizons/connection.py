"""What the seed's API works on: a database with its log, whose it is, and what time it is.

`tapebook.open(home)` gives one for a home. `connect` opens a database that holds layers and nothing else: there,
days are what somebody writes into L6, for there are no trades.
"""

from collections.abc import Sequence
from typing import Protocol

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

    def now(self) -> int:
        """The clock's time."""
        return self._clock.now()

    def head(self, scope: str) -> int:
        """The newest sequence number of a scope's stream."""
        return self._log.head(Stream(self.owner, scope)).seq

    def seq_as_of(self, scope: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(Stream(self.owner, scope), as_of)

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


def connect(place: str, *, clock: Clock, owner: str = OWNER) -> Connection:
    """Opens or makes a database of layers alone: a path, or a `postgresql://` URL."""
    db = open_database(place)
    migrate(db, (LOG, MIGRATIONS))
    return Connection(db, Log(db, [PROJECTION], clock=clock), owner=owner, clock=clock)


def connection_of(conn: Connection | Opened) -> Connection:
    """The connection itself, or the one somebody holds."""
    return conn if isinstance(conn, Connection) else conn.horizons
