"""Computes damaged tables of the book again from its log, once nobody else writes and the log is known to be whole."""

from collections.abc import Callable
from contextlib import ExitStack

from tapebook.errors import Damaged
from tapebook.log import RebuiltTables, rebuild_tables
from tapebook.loop.maintain import AnchorCheck
from tapebook.loop.verify import OPERATIONAL, book_file_findings
from tapebook.wiring import BOOK_PACKAGES, Rooms


def rebuild_book(rooms: Rooms, *, progress: Callable[[str], None]) -> RebuiltTables:
    """Writes every table anew that contradicts the log; Busy while a desk runs, Damaged when more than tables is."""
    progress("the file of the book")
    lost = book_file_findings(rooms) or list(AnchorCheck(rooms).findings())
    if lost:
        # A log that was cut off is whole in itself; tables of less would hide that.
        raise Damaged(f"{lost[0].where}: {lost[0].problem}; this is more than tables: {lost[0].remedy}")
    with ExitStack() as held:
        leases = [held.enter_context(rooms.leases.holding(stream)) for stream in rooms.log.streams()]
        return rebuild_tables(
            rooms.log,
            rooms.book_db,
            packages=BOOK_PACKAGES,
            leases=leases,
            operational=OPERATIONAL,
            progress=progress,
        )
