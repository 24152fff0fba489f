"""Begins a tape that was lost again from the archive, and keeps there what that takes (`tapebook.tape.recovery`)."""

import logging

import msgspec

from tapebook.anchors import newest_tape_mark
from tapebook.archive import Archive
from tapebook.db import Database
from tapebook.tape.recovery import (
    CATALOGUES,
    COLD_FILES,
    Catalogue,
    decode_catalogue,
    encode_catalogue,
    recover_tape,
)
from tapebook.tape.store import Tape
from tapebook.wiring import Rooms

_LOG = logging.getLogger("tapebook.ingest")


def recover_lost_tape(rooms: Rooms) -> bool:
    """Begins an empty tape of a book that has decisions again, where the archive has rows of it; says whether it did.

    So a machine with nothing but the archive and a restored book replays what was decided on rows that had left.
    """
    if rooms.tape.head()[0]:
        return False
    newest = rooms.book.run_ids(most=1)
    # A backtest reads the tape of the home above, and has none of its own.
    if not newest or (rooms.home / "plan.json").is_file() or not (keys := rooms.archive.keys(COLD_FILES)):
        return False
    mark, run = newest_tape_mark(rooms.archive, rooms.log), rooms.book.run(newest[0])
    if run is not None and run.watermarks.tape > mark.seq:
        mark = msgspec.structs.replace(mark, seq=run.watermarks.tape, known_at=run.as_of, checksum=None)
    found = recover_tape(
        rooms.tape_db,
        rooms.tape.families,
        keys=keys,
        fetch=rooms.archive.get,
        catalogue=_newest_catalogue(rooms.archive),
        newest=mark,
    )
    rooms.tape_db.sync()
    _LOG.warning("tape begun again from the archive", extra={"fields": msgspec.structs.asdict(found)})
    return True


def store_catalogue(tape: Tape, archive: Archive, tape_db: Database) -> None:
    """Keeps the small tables of the tape in the archive, unless the newest there are the same."""
    newest = max(archive.keys(CATALOGUES), default="")
    if (changed := encode_catalogue(tape_db, seq=tape.head()[0], newest=newest)) is not None:
        archive.create(*changed)


def _newest_catalogue(archive: Archive) -> Catalogue:
    """What was last kept; nothing where no catalogue is, as in homes of an older tapebook."""
    known = sorted(archive.keys(CATALOGUES))
    content = archive.get(known[-1]) if known else None
    return decode_catalogue(known[-1], content) if content is not None else {}
