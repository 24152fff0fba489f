"""Access tokens of a home, for whoever calls its servers, and the answers of writes that carried a key.

    with AccessStore(Path("home")) as access:
        made = access.add("bot", scopes=["read", "record"])
        made.text  # shown once: what is kept is its hash

They lie in `access.db` of the home, and not in the book: they are no history of trading, and no backup of the book that
is handed on holds them. A token is of the owner the home had when it was made; it opens that owner's rows alone.
"""

import hmac
import re
import secrets
import threading
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

import msgspec

from tapebook.clock import SystemClock
from tapebook.db import Queries, Row, connect, migrate
from tapebook.domain.units import iso_text
from tapebook.errors import BadInput, Busy, UnknownName
from tapebook.home import process_name, require_home
from tapebook.log.keyed import KEPT_MS
from tapebook.settings.config import load_config

ACCESS_FILE = "access.db"
_QUERIES = Queries.load("tapebook.api", "access.sql")
_TOKEN = re.compile(r"tbk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
AccessScope = Literal["read", "record", "trade", "admin"]
SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)
"""What a token may do: read; record what a bot saw, decided and traded; trade and halt; change agents and memory."""


class AccessToken(msgspec.Struct, frozen=True):
    """A token without its secret."""

    token_id: str
    name: str
    owner: str
    scopes: tuple[str, ...]
    created_at: str
    revoked_at: str | None = None


class NewToken(msgspec.Struct, frozen=True):
    """A token just made; `text` is what its bearer sends, and is kept nowhere."""

    token: AccessToken
    text: str


class KeptAnswer(msgspec.Struct, frozen=True):
    """What a write was answered."""

    status: int
    body: bytes


class BegunWrite(msgspec.Struct, frozen=True):
    """A write with a key that is to be made now, by an id and a moment that are the same for every attempt."""

    write_id: str
    moment: int


class AccessStore:
    """The tokens of a home, for any thread."""

    def __init__(self, home: Path) -> None:
        require_home(home)
        self.owner = load_config(home).owner
        self._holder = process_name()
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._db = connect(str(home / ACCESS_FILE), durable=True)
        try:
            migrate(self._db, ("tapebook.api",))
            # Every request looks for its token, and must not wait for a write that waits for the disk.
            self._reader, self._read_lock = connect(str(home / ACCESS_FILE), durable=False), threading.Lock()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Ends the connections."""
        with self._lock, self._read_lock:
            self._reader.close()
            self._db.close()

    def __enter__(self) -> "AccessStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, name: str, *, scopes: Collection[str]) -> NewToken:
        """Makes a token; BadInput when its name is taken, or when there is no such scope."""
        unknown = [each for each in scopes if each not in SCOPES]
        if unknown or not scopes:
            raise BadInput(f"{unknown[0] if unknown else 'nothing'!r} is no scope: give some of {', '.join(SCOPES)}")
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name!r} is no name of a token: write 1 to 64 letters, digits, dots, dashes")
        token_id, now = secrets.token_hex(6), self._clock.now()
        text = f"tbk_{token_id}_{secrets.token_urlsafe(32)}"
        kept = tuple(each for each in SCOPES if each in scopes)
        row = {"token_id": token_id, "name": name, "owner": self.owner, "scopes": " ".join(kept), "created_at": now}
        with self._lock:
            added = self._db.one(_QUERIES.add_token, sha256=_hash(text), **row)
        if added is None:
            raise BadInput(f"there is a token {name!r} already: revoke it first, or choose another name")
        return NewToken(AccessToken(token_id, name, self.owner, kept, iso_text(now)), text)

    def tokens(self) -> list[AccessToken]:
        """Every token, newest first, revoked ones too."""
        with self._lock:
            return [_token_of_row(row) for row in self._db.all(_QUERIES.tokens)]

    def revoke(self, name: str) -> str:
        """Ends a token, by its name or its id, at once; returns the id."""
        with self._lock:
            row = self._db.one(_QUERIES.revoke, name=name, at=self._clock.now())
        if row is None:
            raise UnknownName(f"there is no token {name!r} that could be revoked; `tapebook tokens` lists them")
        return str(row[0])

    def has_tokens(self) -> bool:
        """Whether anybody has a token."""
        with self._read_lock:
            return self._reader.one(_QUERIES.has_tokens) is not None

    def find(self, text: str) -> AccessToken | None:
        """The token that a bearer sends; None for one that was never made, or was revoked, or is of another owner."""
        form = _TOKEN.fullmatch(text)
        if form is None:
            return None
        with self._read_lock:
            row = self._reader.one(_QUERIES.token, token_id=form[1])
        # Compared in constant time: how long it takes says nothing of how much was right.
        if row is None or not hmac.compare_digest(row[-1], _hash(text)):
            return None
        found = _token_of_row(row[:-1])
        return found if found.owner == self.owner else None

    def begin_write(self, token_id: str, key: str, request: bytes, *, moment: int) -> KeptAnswer | BegunWrite:
        """Takes a key for a write that is to be made now; the answer, where it was made before.

        BadInput when the key was of another request. A write that was cut goes on with its id and its first moment.
        """
        digest, now = sha256(request).hexdigest(), self._clock.now()
        where = {"token_id": token_id, "write_key": key}
        mine = {"holder": self._holder, "begun_at": now, "write_id": secrets.token_hex(12), "moment": moment}
        with self._lock, self._db.transaction():
            self._db.execute(_QUERIES.forget_writes, before=now - KEPT_MS)
            begun = self._db.one(_QUERIES.begin_write, request_sha256=digest, **where, **mine)
            if begun is not None:
                return BegunWrite(*begun)
            known, holder, status, body = self._db.one(_QUERIES.keyed_write, **where) or ("", "", None, b"")
            if known != digest:
                raise BadInput(f"the key {key!r} was given to another request: give this one a key of its own")
            if status is not None:
                return KeptAnswer(status, bytes(body))
            if holder == self._holder:
                raise Busy(f"the request with the key {key!r} is under way: ask again when it has ended")
            taken = self._db.one(_QUERIES.take_over_write, before=holder, **where, **mine)
            if taken is None:
                raise Busy(f"another server makes the request with the key {key!r}: ask again when it has ended")
            return BegunWrite(*taken)

    def finish_write(self, token_id: str, key: str, answer: KeptAnswer) -> None:
        """Keeps the answer of a write."""
        with self._lock:
            status, body = answer.status, answer.body
            self._db.execute(_QUERIES.finish_write, token_id=token_id, write_key=key, status=status, body=body)

    def free_key(self, token_id: str, key: str) -> None:
        """Frees the key of a write that did nothing."""
        with self._lock:
            self._db.execute(_QUERIES.abandon_write, token_id=token_id, write_key=key)

    def leave_write(self, token_id: str, key: str) -> None:
        """Leaves a write that failed on the way: the next attempt goes on with it."""
        with self._lock:
            self._db.execute(_QUERIES.leave_write, token_id=token_id, write_key=key)


def _hash(text: str) -> str:
    # A secret of 256 random bits cannot be guessed, so one hash of it is as good as a slow one.
    return sha256(text.encode()).hexdigest()


def _token_of_row(row: Row) -> AccessToken:
    token_id, name, owner, scopes, created_at, revoked_at = row
    ended = None if revoked_at is None else iso_text(revoked_at)
    return AccessToken(token_id, name, owner, tuple(scopes.split()), iso_text(created_at), ended)
