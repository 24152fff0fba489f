"""Documents in the database: their versions as of any sequence number, what was appended, proposed and read."""

from collections.abc import Sequence

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.memo import Memo
from tapebook.errors import UnknownName
from tapebook.log import Draft, Event, Leases, Log, Stream
from tapebook.recall.events import STREAM, What
from tapebook.recall.policy import Entry
from tapebook.recall.proposals import Proposal
from tapebook.recall.trouble import Trouble
from tapebook.recall.version import Version

MIGRATIONS = "tapebook.recall"
_QUERIES = Queries.load("tapebook.recall")

_NO_END = 2**62

Place = tuple[str, str]


class Mark(msgspec.Struct, frozen=True):
    """How far a stream of the log was read, and the troubles that had not ended there."""

    until: int = 0
    troubles: dict[str, Trouble] = {}


class Standing(msgspec.Struct, frozen=True):
    """As of a sequence number: the newest version up to it, and how decisions search (None before anybody chose)."""

    newest: int
    terms: str | None


class Written(msgspec.Struct, frozen=True):
    """One thing that was written by way of the policy; `place` is a path, a proposal or a version of a profile."""

    seq: int
    known_at: int
    kind: str
    agent: str
    written_by: str
    run_id: str
    sha256: str
    place: str


class Documents:
    """The documents of one owner."""

    def __init__(self, log: Log, db: Database, *, owner: str, leases: Leases | None = None) -> None:
        self._log = log
        self._db = db
        self._owner = owner
        self._leases = leases
        self.stream = Stream(owner, STREAM)
        # Asked at every tick, and another only after a sync.
        self.standing = Memo(self._standing)

    def head(self) -> int:
        """The newest version; 0 when there never was a document."""
        return self._newest(_NO_END)

    def log_head(self) -> int:
        """The newest event of the stream, which may be none of a document."""
        return self._log.head(self.stream).seq

    def seq_as_of(self, as_of: int) -> int:
        """The watermark of a moment: the newest event known then."""
        return self._log.seq_as_of(self.stream, as_of)

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Writes events at the end of the stream; StaleWriter, and nothing is written, when another was faster."""
        lease = self._leases.for_write(self.stream) if self._leases else None
        return self._log.append(self.stream, drafts, expected_seq=self.log_head(), lease=lease)

    def versions(self, *, after: int, most: int, until: int = _NO_END) -> list[Version]:
        """Versions after a sequence number and up to another, in order."""
        rows = self._db.all(_QUERIES.versions, owner=self._owner, after=after, until=until, most=most)
        return [Version(*row) for row in rows]

    def version(self, scope: str, path: str, *, seq: int) -> Version | None:
        """A document as of a sequence number; one that was removed has no hash."""
        row = self._db.one(_QUERIES.version, owner=self._owner, scope=scope, path=path, seq=seq)
        return Version(*row) if row else None

    def files(self) -> dict[Place, Version]:
        """The newest version of every document that is or was a file, by scope and path."""
        found = [Version(*row) for row in self._db.all(_QUERIES.files, owner=self._owner)]
        return {(version.scope, version.path): version for version in found}

    def kinds(self) -> dict[str, int]:
        """How many documents there are now, by kind."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.kinds, owner=self._owner)}

    def unwritten(self, *, after: int) -> list[Entry]:
        """Entries appended after a sequence number that may not be in their files yet, oldest first."""
        rows = self._db.all(_QUERIES.unwritten, owner=self._owner, after=after)
        return [Entry(*row) for row in rows]

    def entry_count(self, agent: str, what: What, *, span: tuple[int, int]) -> int:
        """How many entries of a kind an agent has from a time."""
        where = {"owner": self._owner, "agent": agent, "what": what, "since": span[0], "until": span[1]}
        return int(self._db.all(_QUERIES.entry_count, **where)[0][0])

    def entry(self, entry_id: str) -> Entry | None:
        """One entry, if it was appended."""
        row = self._db.one(_QUERIES.entry, owner=self._owner, entry_id=entry_id)
        return Entry(*row) if row else None

    def writes(self, agent: str = "", *, most: int) -> list[Written]:
        """What was written for an agent, or for all: entries, proposals and manuals, newest first."""
        return [Written(*row) for row in self._db.all(_QUERIES.writes, owner=self._owner, agent=agent, most=most)]

    def folders(self) -> dict[str, str]:
        """The folders outside the workspace, by name."""
        newest = {row[0]: row[1] for row in self._db.all(_QUERIES.folders, owner=self._owner)}
        return {name: place for name, place in newest.items() if place}

    def proposal(self, proposal_id: str) -> Proposal:
        """One proposal."""
        row = self._db.one(_QUERIES.proposal, owner=self._owner, proposal_id=proposal_id)
        if row is None:
            raise UnknownName(f"there is no proposal {proposal_id!r}; `tapebook recall proposals` lists them")
        return Proposal(*row)

    def proposals(self, agent: str = "", *, most: int) -> list[Proposal]:
        """The proposals of an agent, or of all, newest first."""
        rows = self._db.all(_QUERIES.proposals, owner=self._owner, agent=agent, most=most)
        return [Proposal(*row) for row in rows]

    def mark(self, reader: str) -> Mark:
        """How far a stream of the log was read for documents."""
        row = self._db.one(_QUERIES.mark, owner=self._owner, reader=reader)
        return Mark(row[0], msgspec.json.decode(row[1], type=dict[str, Trouble])) if row else Mark()

    def _standing(self, seq: int) -> Standing:
        row = self._db.one(_QUERIES.terms, owner=self._owner, seq=seq)
        return Standing(self._newest(seq), row[0] if row else None)

    def _newest(self, seq: int) -> int:
        row = self._db.one(_QUERIES.newest, owner=self._owner, seq=seq)
        return row[0] if row else 0
