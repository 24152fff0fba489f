"""Live ingestion: sources run as tasks, and their buffer is emptied a few times a second until they are stopped."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from tapebook.anchors import AnchorTimer
from tapebook.archive import SpooledArchive
from tapebook.clock import Clock, elapsed_seconds
from tapebook.database_wait import DatabaseWait
from tapebook.db import Database
from tapebook.domain.units import SECOND, iso_text
from tapebook.errors import Busy, DatabaseAway, Retry, StoreFailed
from tapebook.ingest.compaction import RowMover
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.ingest.world_process import is_world
from tapebook.log.store import is_clock_set_back
from tapebook.settings.config import Config
from tapebook.tape.recording import Recorder
from tapebook.tape.source import ProgressTable, Source, SourceAdapter, SourceContext
from tapebook.tape.store import Tape
from tapebook.uploads import SpoolUploads
from tapebook.wiring import Rooms

# One commit holds the frames of a quarter of a second: a row per commit would wait for the disk each time.
FLUSH_SECONDS = 0.25
# What is due is done in between: so long at once, one step more at most, and then frames come first for so long.
_WORK_SECONDS = 0.02
_REST_SECONDS = 0.03


class IngestProgress(msgspec.Struct, frozen=True):
    """How ingestion goes: rows by channel, gaps found, what is wrong just now, what is to be said once, and what the
    settings ask in vain.
    """

    market_time: int
    rows: dict[str, int]
    gaps: int
    problem: str | None
    notice: str | None = None
    unlisted: tuple[str, ...] = ()


def clock_address(config: Config, url: str | None) -> str:
    """Where the first source listens, whose clock the home follows; empty where it has no address."""
    address: str = getattr(config.source_section(config.sources[0]), "url", "")
    return url or address


async def ingest_live(
    rooms: Rooms, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Ingests until `seconds` have passed or the task is cancelled; what was received by then is committed.

    While the database is away, what is received waits in memory. Retry when the seconds are over and nothing was
    received: there was no connection, or nothing to be watched.
    """
    before, unheard = rooms.tape.rows_written(), None
    unlisted: tuple[str, ...] = ()
    recorder = _recorder(rooms.archive, rooms.config, rooms.tape_db)
    listening = _LiveIngest(rooms, recorder, url=url)
    anchors, mover = AnchorTimer(rooms), RowMover(rooms.clock, rooms.home)
    uploads = SpoolUploads(rooms.archive, rooms.config, rooms.home)
    end = None if seconds is None else elapsed_seconds() + seconds
    wait, newest = DatabaseWait(), IngestProgress(rooms.clock.now(), {}, 0, None)
    try:
        while end is None or elapsed_seconds() < end:
            try:
                line = await listening.restart_if_set_back() if wait.should_retry else None
            except DatabaseAway as error:
                line = wait.note_away(error)
            if line:
                report(msgspec.structs.replace(newest, problem=line))
            if listening.is_stopped:
                await asyncio.sleep(FLUSH_SECONDS)
                continue
            behind = await _until_the_next_flush(listening.running, None if wait.is_away else listening.ingester)
            if listening.running.done():
                # No source ends by itself: whatever stopped one is raised here.
                listening.running.result()
            if not wait.should_retry:
                continue
            unheard = next(filter(None, (source.connection_problem() for source in listening.sources)), None)
            unlisted = tuple(line for source in listening.sources for line in source.unlisted_settings())
            try:
                problem = listening.ingester.flush() or behind
                unrecorded = recorder.archive_due(rooms.clock.now()) if recorder else None
                unmoved, unanchored = mover.move_if_due(), anchors.anchor_if_due()
                problem = problem or unrecorded or unmoved or unanchored or uploads.upload_if_due() or unheard
                newest = _progress(rooms.tape, rooms.clock, problem, unlisted=unlisted)
            except DatabaseAway as error:
                report(msgspec.structs.replace(newest, problem=wait.note_away(error)))
            else:
                report(msgspec.structs.replace(newest, notice=wait.note_back()))
    finally:
        await listening.stop()
        try:
            listening.ingester.close()
        finally:
            if recorder:
                recorder.close()
            mover.close()
        unanchored = anchors.close()
    if unanchored:
        report(_progress(rooms.tape, rooms.clock, unanchored, unlisted=unlisted))
    reasons = [unheard] if unheard else list(unlisted)
    if reasons and rooms.tape.rows_written() == before:
        raise Retry(f"nothing was received: {'; '.join(reasons)}")


class _LiveIngest:
    """Sources at work and the ingester that takes what they bring, for as long as the clock goes forward."""

    def __init__(self, rooms: Rooms, recorder: Recorder | None, *, url: str | None) -> None:
        self._rooms = rooms
        self._recorder, self._url = recorder, url
        self._intake = FactBuffer()
        self._set_back_s: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._latest = self._rooms.clock.now()
        if is_clock_set_back(self._rooms.tape.head()[1], self._latest):
            # A commit says that the clock was set back: what a source resumes from must not be ahead.
            self._rooms.tape.commit([])
        # Old rows are moved by a thread (`RowMover`).
        self.ingester = Ingester(self._rooms, self._intake, keep=None)
        self.sources = [
            _create_source(
                self._rooms.tape,
                adapter,
                self._intake,
                self._recorder,
                url=self._url if place == 0 or is_world(self._url) else None,
                clock=self._rooms.clock,
                config=self._rooms.config,
                tape_db=self._rooms.tape_db,
            )
            for place, adapter in enumerate(self._rooms.sources)
        ]
        self.running = asyncio.create_task(run_sources(self.sources))

    @property
    def is_stopped(self) -> bool:
        """Whether the source has ended because the clock was set back, and could not begin anew yet."""
        return self._set_back_s is not None

    async def restart_if_set_back(self) -> str | None:
        """Begins anew when the clock has gone back, for polls and bars are due by it; says that it has.

        DatabaseAway when it cannot yet: the next call goes on with it.
        """
        now = self._rooms.clock.now()
        if not self.is_stopped:
            if not is_clock_set_back(self._latest, now):
                self._latest = max(self._latest, now)
                return None
            self._set_back_s = (self._latest - now) // SECOND
            await self.stop()
        # What was received by then is written first: its commit says that the clock was set back.
        problem = self.ingester.flush()
        self._begin()
        back, self._set_back_s = self._set_back_s, None
        return problem or f"the clock was set back by {back} s, to {iso_text(now)}: ingestion has begun anew"

    async def stop(self) -> None:
        """Ends the source."""
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


async def run_sources(sources: Sequence[Source]) -> None:
    """Runs sources until one of them fails; none ends by itself."""
    tasks = [asyncio.create_task(source.run()) for source in sources]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _create_source(
    tape: Tape,
    adapter: SourceAdapter,
    intake: FactBuffer,
    recorder: Recorder | None,
    *,
    clock: Clock,
    config: Config,
    tape_db: Database,
    url: str | None,
) -> Source:
    context = SourceContext(
        sink=intake,
        tape=tape,
        clock=clock.now,
        monotonic=clock.seconds,
        sleep=clock.sleep,
        url=url,
        record=recorder,
        progress=ProgressTable(tape_db).parts(adapter.name),
    )
    return adapter.create(config.source_section(adapter.name), context)


def _recorder(archive: SpooledArchive, config: Config, tape_db: Database) -> Recorder | None:
    """What keeps raw payloads, if the settings ask for them."""
    if not config.archive.raw:
        return None
    # Into the spool: nobody who listens waits for an archive elsewhere.
    return Recorder(tape_db, archive.store_content_or_raise)


async def _until_the_next_flush(running: "asyncio.Task[None]", ingester: Ingester | None) -> str | None:
    """Lets frames come in, and does what is due meanwhile, if it can be done now; says why it could not."""
    flush_at = elapsed_seconds() + FLUSH_SECONDS
    problem = None
    while not running.done() and (left := flush_at - elapsed_seconds()) > 0:
        works = ingester is not None and problem is None and ingester.is_behind()
        await asyncio.wait([running], timeout=min(left, _REST_SECONDS) if works else left)
        problem = _do_due_work(ingester) if ingester is not None and works else problem
    return problem


def _do_due_work(ingester: Ingester) -> str | None:
    """Keeps up with the time, or says why not: a full disk must not end what still listens."""
    stop_at = elapsed_seconds() + _WORK_SECONDS
    try:
        while ingester.is_behind() and elapsed_seconds() < stop_at:
            ingester.do_due_work(at_once=1)
    except DatabaseAway:
        # The commit that follows says so.
        return None
    except (StoreFailed, Busy) as error:
        return str(error)
    return None


def _progress(tape: Tape, clock: Clock, problem: str | None, *, unlisted: tuple[str, ...]) -> IngestProgress:
    rows = {channel.name: channel.rows for channel in tape.channels()}
    return IngestProgress(clock.now(), rows, tape.gap_count(), problem, unlisted=unlisted)
