"""Anchors: the heads of book and tape, written to the archive, so that a cut-off or rolled-back home is found.

An anchor names the head of every stream that has moved since the one before it, the newest commit of the tape with
the checksums of the chunks that have changed, and the hash of the anchor before it. The book notes the newest one.
So neither a shorter log nor an older copy of a database, nor a lost or altered anchor goes unnoticed: each
contradicts another.

Anchors are written when a command that changed something ends, and by the processes of a desk once a minute and when
they stop (docs/decisions/0005). The object comes first and the note in the book after it: the next process takes an
anchor of which a killed one made no note into the chain.

A book that was restored from a backup is shorter than the anchors say. It knows so (`Log.restores`), and the first
anchor after that tells the archive too: what anchors name that were written in between is lost, and not cut off.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from tapebook.archive import Archive, SpooledArchive
from tapebook.background import BackgroundCall
from tapebook.clock import Clock, elapsed_seconds
from tapebook.domain.canonical import sha256_hex
from tapebook.errors import Damaged, DatabaseAway, StaleWriter, TapebookError
from tapebook.log import Finding, Head, Log, NotedAnchor, Restore, Stream
from tapebook.log.event import GENESIS
from tapebook.tape.seals import Seal, SealPlace, TapeMark, commit_at, sealed_places, tape_mark
from tapebook.wiring import Rooms

ANCHOR_SECONDS = 60.0
"""How often the processes of a desk write an anchor, if anything has changed."""

# A process that stops waits so long for an archive that is being asked.
_LAST_ANCHOR_SECONDS = 5.0
_FOLDER = "anchors/"
_RESTORES = f"{_FOLDER}restored/"
# An owner's stream has no deployment, and no file can have an empty name.
_OWNER_STREAM = "-"
# A folder with a hundred thousand files is slow to list on some file systems.
_PER_FOLDER = 1_000
# More findings of one kind tell a person nothing new.
_SHOWN = 5
_ALTERED = "restore the archive's `anchors` folder from a backup; until then nothing shows what was cut off"
_CUT = "restore book.db from a backup that is as new as the anchors; what was decided since is in no other place"
_TAPE_CUT = "restore tape.db from a backup, or import candles and funding again; midpoints and books are nowhere else"


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One anchor, as it lies in the archive; a head is owner, deployment, sequence number and hash."""

    number: int
    previous: str
    written_at: int
    heads: tuple[tuple[str, str, int, str], ...]
    tape: TapeMark


_decode_anchor = msgspec.json.Decoder(Anchor).decode


class _AnchorDraft(msgspec.Struct, frozen=True):
    """What is to be anchored: the anchor it follows, the heads that moved, and what a restore has lost."""

    anchor: Anchor
    reach: dict[Stream, int]
    restores: tuple[Restore, ...]


def anchor_heads(rooms: Rooms) -> int | None:
    """Anchors what has changed since the last anchor; returns its number, None when nothing has."""
    # The archive's anchors before the heads: a head that is read later is never behind an anchored one.
    follows = _newest_anchor(rooms.archive, rooms.log.newest_anchor())
    draft = _draft_anchor(rooms, follows)
    if draft is None:
        return None
    _write_anchor(rooms.archive, draft)
    _note_anchor(rooms.log, draft)
    return draft.anchor.number


def _draft_anchor(rooms: Rooms, follows: NotedAnchor) -> _AnchorDraft | None:
    """The next anchor behind another one, from the book and the tape alone; None when nothing has changed."""
    if _is_backtest(rooms.home):
        return None
    anchored = rooms.log.anchored_seqs()
    heads = {stream: rooms.log.head(stream) for stream in rooms.log.streams()}
    moved = {stream: head for stream, head in heads.items() if anchored.get(stream) != head.seq}
    mark = tape_mark(rooms.tape_db, after=follows.tape_seq)
    if not moved and mark.seq == follows.tape_seq:
        return None
    # An anchor is durable: a tape that loses what it names in a power cut would look cut off.
    rooms.sync_tape(mark.seq)
    named = tuple((stream.owner, stream.deployment, head.seq, head.hash) for stream, head in sorted(moved.items()))
    # Here and not when it was restored: until it goes on, a restored book may be a drill beside the real one.
    restores = tuple(each for each in rooms.log.restores() if follows.number <= each.until_anchor)
    anchor = Anchor(follows.number + 1, follows.sha256, rooms.clock.now(), named, mark)
    return _AnchorDraft(anchor, {stream: head.seq for stream, head in moved.items()}, restores)


def _write_anchor(archive: Archive, draft: _AnchorDraft) -> None:
    """Writes an anchor to the archive; StaleWriter when another process has written one of its number."""
    for restore in draft.restores:
        archive.create(_restore_key(restore), msgspec.json.encode(restore))
    try:
        # Before the note and outside of its transaction: others write to the book while an archive elsewhere answers.
        archive.create(_anchor_key(draft.anchor.number), msgspec.json.encode(draft.anchor))
    except Damaged as error:
        # Another process is about to note its own of that number; the next anchor follows it.
        raise StaleWriter(f"anchor {draft.anchor.number} was written by another process") from error


def _note_anchor(log: Log, draft: _AnchorDraft) -> None:
    anchor = draft.anchor
    digest = sha256_hex(msgspec.json.encode(anchor))
    log.note_anchor(NotedAnchor(anchor.number, digest, anchor.tape.seq, anchor.written_at), draft.reach)


def try_anchor_heads(rooms: Rooms) -> str | None:
    """Anchors what has changed; returns the reason when it could not."""
    # Not raised: what the command did before it is done all the same.
    try:
        anchor_heads(rooms)
    except StaleWriter:
        # Somebody else has anchored the same just now.
        return None
    except TapebookError as error:
        return _problem_of(error)
    return None


def _problem_of(error: TapebookError) -> str:
    return f"no anchor was written, so `tapebook verify` cannot find what is cut off since the last one: {error}"


class AnchorTimer:
    """Anchors once a minute for a process that runs on, and when it stops.

    An archive elsewhere is asked in a thread: what trades or listens does not wait for it. An anchor takes two such
    calls then, one for the newest anchor there is and one that writes the next; heads are read in between, here.
    """

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._due = elapsed_seconds()
        self._newest = BackgroundCall[NotedAnchor]("newest anchor")
        self._write = BackgroundCall[None]("anchor")
        self._draft: _AnchorDraft | None = None
        self._problem: str | None = None

    def anchor_if_due(self) -> str | None:
        """Anchors if it is time to and nobody else has; returns why it could not, until it can."""
        if self._newest.is_pending or self._write.is_pending:
            self._go_on()
            return self._problem
        if elapsed_seconds() < self._due:
            return self._problem
        self._due = elapsed_seconds() + ANCHOR_SECONDS
        # The processes of a desk take turns: one of them is enough.
        noted = self._rooms.log.newest_anchor()
        if 0 <= self._rooms.clock.now() - noted.written_at < ANCHOR_SECONDS * 500:
            self._problem = None
        elif self._rooms.archive.is_local:
            self._problem = try_anchor_heads(self._rooms)
        elif not _is_backtest(self._rooms.home):
            self._newest.start(partial(_newest_anchor, self._rooms.archive, noted))
        return self._problem

    def close(self) -> str | None:
        """Anchors for the last time; returns why it could not. An archive that did not answer is not asked again."""
        while (pending := self._newest if self._newest.is_pending else self._write).is_pending:
            if not pending.wait(_LAST_ANCHOR_SECONDS):
                return "no last anchor was written: the archive does not answer"
            self._go_on()
        return self._problem or try_anchor_heads(self._rooms)

    def _go_on(self) -> None:
        """Takes the next step of an anchor that is being written, if the one before has ended."""
        try:
            if self._newest.has_ended:
                self._draft = _draft_anchor(self._rooms, self._newest.take_result())
                self._problem = None
                if self._draft is not None:
                    self._write.start(partial(_write_anchor, self._rooms.archive, self._draft))
            elif self._write.has_ended and self._draft is not None:
                self._write.take_result()
                _note_anchor(self._rooms.log, self._draft)
        except StaleWriter:
            # Somebody else has anchored the same just now.
            self._problem = None
        except DatabaseAway:
            raise
        except TapebookError as error:
            self._problem = _problem_of(error)


def _is_backtest(home: Path) -> bool:
    """Whether a home is that of a backtest: it shares the archive of the home above, whose anchors are not its own."""
    return (home / "plan.json").is_file()


def _newest_anchor(archive: Archive, noted: NotedAnchor) -> NotedAnchor:
    """The anchor the next one follows: what the archive has beyond the book's note is of a process that died."""
    while (content := archive.get(_anchor_key(noted.number + 1))) is not None:
        noted = NotedAnchor(noted.number + 1, sha256_hex(content), noted.tape_seq, noted.written_at)
    return noted


def newest_tape_mark(archive: Archive, log: Log) -> TapeMark:
    """The tape as the newest anchor that the book has noted names it; an empty one without any anchor."""
    number = log.newest_anchor().number
    content = archive.get(_anchor_key(number)) if number else None
    return TapeMark() if content is None else _decode_anchor(content).tape


def note_restore(archive: SpooledArchive, log: Log, clock: Clock) -> int:
    """Has a book that was just restored know which anchors name what was lost; returns how many there are."""
    noted = log.newest_anchor()
    newest = _newest_anchor(archive, noted).number
    if newest > noted.number:
        log.note_restore(Restore(newest, noted.number, clock.now()))
    return newest - noted.number


def lost_anchors(restores: Iterable[Restore], *, last: int) -> list[range]:
    """The numbers of anchors that name what was lost, seen from a book that goes on after the last one.

    A book may be restored several times, also to what an earlier restore had left behind: what counts are the anchors
    that led to where it was restored to.
    """
    lost, reached = list[range](), last + 1
    for restore in sorted(restores, reverse=True):
        if restore.until_anchor < reached:
            lost.append(range(restore.to_anchor + 1, restore.until_anchor + 1))
            # What led there was written before; restores that came later are of other ways.
            reached = restore.to_anchor
    return lost


def _restore_key(restore: Restore) -> str:
    return f"{_RESTORES}{restore.to_anchor:09d}-{restore.until_anchor:09d}"


def _anchor_key(number: int) -> str:
    return f"{_FOLDER}{number // _PER_FOLDER:06d}/{number:09d}"


class AnchorCheck:
    """What the anchors say against the book and the tape; `sealed` are the newest checksums of chunks still here."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._tape_head = 0
        self._places: set[SealPlace] = set()
        self._left: dict[tuple[str, int], int] = {}
        self._reached: dict[Stream, int] = {}
        self._lost: list[range] = []
        self.sealed: dict[SealPlace, Seal] = {}

    def findings(self) -> Iterator[Finding]:
        """Every contradiction, the first few of a kind."""
        if _is_backtest(self._rooms.home):
            return
        # The note before the archive, and both before the databases: whoever writes meanwhile only adds to the latter.
        noted, anchored = self._rooms.log.newest_anchor(), self._rooms.log.anchored_seqs()
        keys = self._rooms.archive.keys(_FOLDER)
        numbers = [int(name) for key in keys if key.count("/") == 2 and (name := key.rpartition("/")[2]).isdigit()]
        self._tape_head = self._rooms.tape.head()[0]
        self._places, self._left = sealed_places(self._rooms.tape_db)
        yield from self._heads_alone(key for key in keys if key.count("/") == 3)
        last = max([noted.number, *numbers])
        told = [self._told_restore(key) for key in keys if key.startswith(_RESTORES)]
        restores = {*self._rooms.log.restores(), *(each for each in told if each is not None)}
        self._lost = lost_anchors(restores, last=last)
        found = self._chain(noted, last=last)
        shown = list(islice(found, _SHOWN))
        yield from shown
        if rest := sum(1 for _ in found):
            yield Finding("anchors", f"and {rest} more", _ALTERED)
        if noted.number == last and not shown and anchored != self._reached:
            odd = sorted({stream.name for stream, _ in anchored.items() ^ self._reached.items()})
            yield Finding("log_anchored", f"differs from the anchors for {', '.join(odd[:_SHOWN])}", _CUT)
        elif noted.number < (1 if anchored else 0):
            yield Finding("log_anchors", "the newest anchor is not noted any more", _CUT)

    def _told_restore(self, key: str) -> Restore | None:
        content = self._rooms.archive.get(key)
        return None if content is None else msgspec.json.decode(content, type=Restore)

    def _heads_alone(self, keys: Iterator[str]) -> Iterator[Finding]:
        """Anchors of an older tapebook: an object for each head, which no other names."""
        for key in keys:
            owner, deployment, seq = key.removeprefix(_FOLDER).split("/")
            content = self._rooms.archive.get(key)
            if content is not None:
                stream = Stream(owner, "" if deployment == _OWNER_STREAM else deployment)
                yield from self._head(stream, int(seq), content.decode())

    def _chain(self, noted: NotedAnchor, *, last: int) -> Iterator[Finding]:
        before: str | None = GENESIS
        for number in range(1, last + 1):
            try:
                content = self._rooms.archive.get(_anchor_key(number))
                anchor = _decode_anchor(content) if content is not None else None
            except (TapebookError, msgspec.MsgspecError, UnicodeError) as error:
                yield Finding(f"anchor {number}", f"cannot be read: {error}", _ALTERED)
                before = None
                continue
            if content is None or anchor is None:
                yield Finding(f"anchor {number}", "is missing from the archive", _ALTERED)
                before = None
                continue
            digest = sha256_hex(content)
            if before is not None and anchor.previous != before:
                yield Finding(f"anchor {number - 1}", f"is not the one that anchor {number} names", _ALTERED)
            note = NotedAnchor(number, digest, anchor.tape.seq, anchor.written_at)
            if anchor.number != number or (number == noted.number and note != noted):
                yield Finding(f"anchor {number}", "is not the one that the book has noted", _ALTERED)
            before = digest
            if not any(number in lost for lost in self._lost):
                yield from self._contents(anchor)

    def _contents(self, anchor: Anchor) -> Iterator[Finding]:
        for owner, deployment, seq, digest in anchor.heads:
            self._reached[Stream(owner, deployment)] = seq
            yield from self._head(Stream(owner, deployment), seq, digest)
        mark = anchor.tape
        known = commit_at(self._rooms.tape_db, mark.seq)
        if mark.seq > self._tape_head:
            cut = f"the tape ends at {self._tape_head}: it was cut off"
            yield Finding("tape.db", f"the archive has an anchor of commit {mark.seq}, but {cut}", _TAPE_CUT)
        elif known is not None and known != (mark.known_at, mark.checksum):
            yield Finding(f"tape.db, commit {mark.seq}", "differs from the anchor in the archive", _TAPE_CUT)
        for table, granularity, chunk, rows, digest, seq in mark.seals:
            # Of chunks that have left there are many, and nothing to compare.
            if chunk >= self._left.get((table, granularity), 0) or (table, granularity, chunk) in self._places:
                self.sealed[table, granularity, chunk] = Seal(rows, digest, seq)

    def _head(self, stream: Stream, seq: int, digest: str) -> Iterator[Finding]:
        stored = self._rooms.log.hash_at(stream, seq)
        if stored is None:
            head: Head = self._rooms.log.head(stream)
            cut = f"the archive has an anchor here, but the stream ends at {head.seq}: it was cut off"
            yield Finding(f"{stream.name}#{seq}", cut, _CUT)
        elif stored != digest:
            yield Finding(f"{stream.name}#{seq}", "differs from the anchor in the archive", _CUT)
