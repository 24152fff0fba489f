"""Backs a home up while it runs (`backup_home`, by the role `Backups` on a schedule), and restores it (`restore_home`).

A backup holds copies of book and tape, each of one moment, the book first: so the tape has all that a decision in the
book has seen. What waits in the spool goes to the archive or, if it cannot, into the backup. Beside it lies all that
the archive has: a place with backups is enough to go on from on a machine that has nothing else.

A restored home is made beside its place and proves itself there: hashes of its files, the chain of its log, its tables,
the checksums of its tape, and packets of past decisions made again byte for byte. Only then it gets its name, so
whoever is killed on the way leaves nothing that looks like a home.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from tapebook.anchors import note_restore
from tapebook.archive import Archive, open_archive
from tapebook.archive.backups import BackedUpFile, BackupStore, Manifest, backup_id, mirror_archive
from tapebook.archive.spool import segment_files
from tapebook.clock import Clock, SystemClock, VirtualClock, elapsed_seconds
from tapebook.db import Database, connect
from tapebook.db.copies import copy_to_file, load_file
from tapebook.desk.verify import verify_home
from tapebook.domain import files
from tapebook.domain.text import plural, redact_passwords
from tapebook.domain.units import MINUTE
from tapebook.errors import Damaged, DatabaseAway, HomeError, StoreFailed, TapebookError
from tapebook.home import DEMO_MARKER, DEMO_START, exclusive_lock, is_demo_home
from tapebook.log import Log, Stream
from tapebook.settings.config import FILE, BackupSettings, Config, load_config, with_setting
from tapebook.tape.store import Tape
from tapebook.wiring import BOOK_PACKAGES, Rooms

BackupProgress = Callable[[str], None]
ReplayPackets = Callable[[Rooms, Sequence[str]], Sequence[str]]
"""Makes the packets of runs again, and says which differ and how."""

_STAGING, _SPOOL = ".backup", "spool"
_BOOK, _TAPE, _ANSWERS = "book.db", "tape.db", "backtests/answers.db"
# Decisions whose packets a restored home makes again before it is believed.
_REPLAYED = 50
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 60.0, 3_600.0


class BackupReport(msgspec.Struct, frozen=True):
    """A backup that was made: its name, where it is, and what it took; `dropped` are older ones."""

    id: str
    place: str
    files: int
    bytes: int
    archive_objects: int
    dropped: int


class RestoreReport(msgspec.Struct, frozen=True):
    """A home that was restored and has proven itself."""

    id: str
    home: str
    made_at: int
    files: int
    bytes: int
    archive_objects: int
    streams: int
    events: int
    replayed: int
    lost_anchors: int


class RestoreTerms(msgspec.Struct, frozen=True):
    """Which backup (the newest by default), how much is proven, and where databases and archive are to be."""

    backup: str | None = None
    everything: bool = False
    book: str | None = None
    tape: str | None = None
    archive: str | None = None


def backup_place(config: Config) -> str:
    """Where a home's backups go by its settings: beside the archive unless they name another place."""
    return config.backup.place or config.archive.place


def backup_store(home: Path, place: str) -> BackupStore:
    """The backups of a home at a place."""
    return BackupStore(open_archive(place, home=home, durable=True), place)


def backup_home(rooms: Rooms, place: str, *, progress: BackupProgress) -> BackupReport:
    """Makes a backup of a home that others may write in meanwhile, and drops those that are no longer kept."""
    with exclusive_lock(rooms.home, "backup-copy"), _staging_folder(rooms.home) as staging:
        target = open_archive(place, home=rooms.home, durable=True)
        store = BackupStore(target, place)
        progress("copying the book")
        _copy_database(rooms.book_db, staging / _BOOK, BOOK_PACKAGES)
        progress("copying the tape")
        _copy_database(rooms.tape_db, staging / _TAPE, rooms.tape_packages)
        _copy_small_files(rooms.home, staging)
        made_at = SystemClock().now()
        manifest = _manifest_of(rooms.archive, rooms.clock, staging, made_at, config=rooms.config)
        _require_same_home(store, manifest, place)
        # What no pack is due for goes with the backup: a pack for every backup would be many small ones.
        rooms.archive.drain(when_due=True)
        _copy_segments(rooms.config, rooms.home, staging)
        is_archive = _same_place(rooms.home, place, rooms.config.archive.place)
        copied = 0 if is_archive else _mirror(rooms.archive.behind, target, progress)
        stored = _store_files(store, staging, progress)
        store.add(msgspec.structs.replace(manifest, files=tuple(stored)))
        settings = rooms.config.backup
        dropped = store.drop(newest=settings.keep, days=settings.keep_days)
        return BackupReport(manifest.id, place, len(stored), sum(each.size for each in stored), copied, dropped)


@contextmanager
def _staging_folder(home: Path) -> Iterator[Path]:
    """A folder of the home for copies; what a killed backup left in it is deleted first."""
    folder = home / _STAGING
    shutil.rmtree(folder, ignore_errors=True)
    try:
        files.make_folders(folder, durable=False)
        yield folder
    except OSError as error:
        raise StoreFailed(f"cannot copy to {folder}: {error.strerror}; make room, then try again") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_database(db: Database, target: Path, packages: tuple[str, ...]) -> None:
    copy_to_file(db, str(target), packages)
    with closing(connect(str(target), durable=False, create=False)) as copy:
        if problems := copy.integrity_problems():
            raise Damaged(f"{target.name} is damaged ({problems[0]}), so no backup was made; run `tapebook verify`")


def _copy_small_files(home: Path, staging: Path) -> None:
    """Settings without passwords, documents, and what models answered to backtests, which was paid for."""
    text = (home / FILE).read_text("utf-8-sig")
    files.write_private(staging / FILE, redact_passwords(text).encode(), durable=False)
    names = [home / DEMO_MARKER, home / "workspace.json", *files.walk_folder(home / "workspace")]
    for path in names:
        if path.is_file() and not path.is_symlink():
            _copy_file(path, staging / path.relative_to(home))
    if (home / _ANSWERS).is_file():
        files.make_folders((staging / _ANSWERS).parent, durable=False)
        with closing(connect(str(home / _ANSWERS), create=False)) as answers:
            copy_to_file(answers, str(staging / _ANSWERS), ())


def _copy_segments(config: Config, home: Path, staging: Path) -> None:
    spool = Path(config.archive.spool)
    # Where the restored home looks for them: its settings name a spool elsewhere no longer.
    target = staging / (_SPOOL if spool.is_absolute() else spool)
    for path in segment_files(home / spool):
        # One that is gone was packed meanwhile, and its pack is in the archive.
        with suppress(FileNotFoundError):
            _copy_file(path, target / path.name)


def _copy_file(source: Path, target: Path) -> None:
    content = source.read_bytes()
    files.make_folders(target.parent, durable=False)
    files.write_private(target, content, durable=False)


def _manifest_of(archive: Archive, clock: Clock, staging: Path, made_at: int, *, config: Config) -> Manifest:
    """What the copies say of themselves."""
    with (
        closing(connect(str(staging / _BOOK), create=False)) as book,
        closing(connect(str(staging / _TAPE), create=False)) as tape,
    ):
        log = Log(book, (), clock=clock, fetch=archive.get)
        heads = _heads(log)
        return Manifest(
            id=backup_id(made_at),
            made_at=made_at,
            version=_version(),
            home=log.hash_at(Stream(config.owner, ""), 1) or "",
            owner=config.owner,
            heads=heads,
            tape_seq=Tape(tape, clock=clock, fetch=archive.get).head()[0],
            anchor=log.newest_anchor().number,
            files=(),
        )


def _version() -> str:
    try:
        return version("tapebook")
    except PackageNotFoundError:
        return "run from source"


def _heads(log: Log) -> tuple[tuple[str, str, int, str], ...]:
    heads = {stream: log.head(stream) for stream in log.streams()}
    return tuple((stream.owner, stream.deployment, head.seq, head.hash) for stream, head in sorted(heads.items()))


def _require_same_home(store: BackupStore, manifest: Manifest, place: str) -> None:
    """Refuses a place with the backups of another home: what that one needs would be deleted as nobody's."""
    names = store.ids()
    other = store.manifest(names[0]) if names else manifest
    if other.home != manifest.home:
        raise HomeError(f"{place} has the backups of another home (owner {other.owner}): name a place of its own")


def _same_place(home: Path, first: str, second: str) -> bool:
    if "://" in first or "://" in second:
        return first.rstrip("/") == second.rstrip("/")
    return (home / first).resolve() == (home / second).resolve()


def _mirror(source: Archive, target: Archive, progress: BackupProgress) -> int:
    return mirror_archive(source, target, progress=lambda done: progress(f"{plural(done, 'object')} of the archive"))


def _store_files(store: BackupStore, staging: Path, progress: BackupProgress) -> list[BackedUpFile]:
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress(f"storing, {done / 1e6:,.0f} MB")

    places = [path for path in files.walk_folder(staging) if path.is_file()]
    return [store.store_file(path, path.relative_to(staging).as_posix(), progress=count) for path in places]


class Backups:
    """The role that makes a backup when it is time to; what goes wrong is tried again, later each time."""

    def __init__(self, rooms: Rooms) -> None:
        settings: BackupSettings = rooms.config.backup
        if not settings.place:
            raise HomeError("the settings name no place for backups: set `place` in [backup] of tapebook.toml")
        self._rooms = rooms
        self._place = settings.place
        self._every_ms = settings.every_minutes * MINUTE
        self._retry, self._look_at = _FIRST_RETRY_SECONDS, 0.0
        self._newest_ms: int | None = None
        self._problem: str | None = None
        self.made = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Makes a backup if the newest is old enough."""
        self.problem = self._problem
        if elapsed_seconds() < self._look_at:
            return False
        try:
            self._back_up_if_due()
            self._problem, self._retry = None, _FIRST_RETRY_SECONDS
        except DatabaseAway:
            raise
        except (TapebookError, OSError) as error:
            # Trading does not depend on it: said as long as it lasts, and tried again.
            self._problem = f"no backup was made: {error}"
            self._look_at = elapsed_seconds() + self._retry
            self._retry = min(2 * self._retry, _LONGEST_RETRY_SECONDS)
        self.problem = self._problem
        return False

    def _back_up_if_due(self) -> None:
        now = SystemClock().now()
        if self._newest_ms is None:
            store = backup_store(self._rooms.home, self._place)
            self._newest_ms = store.manifest().made_at if store.ids() else 0
        if now - self._newest_ms >= self._every_ms:
            backup_home(self._rooms, self._place, progress=lambda words: None)
            self.made, self._newest_ms = self.made + 1, now
        # A clock that was set back must not put the next backup off for as long.
        left_ms = min(self._every_ms, max(0, self._newest_ms + self._every_ms - now))
        self._look_at = elapsed_seconds() + left_ms / 1_000

    def progress_line(self) -> str:
        """The progress in one line."""
        return plural(self.made, "backup")

    def close(self) -> None:
        """Nothing is in hand."""


def restore_home(
    place: str, target: Path, *, terms: RestoreTerms, replay: ReplayPackets, progress: BackupProgress
) -> RestoreReport:
    """Makes a home from a backup and has it prove itself; nothing is there if it does not."""
    source = open_archive(place, home=Path.cwd(), durable=False)
    store = BackupStore(source, place)
    manifest = store.manifest(terms.backup)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise HomeError(f"{target} is there already: restore to a folder that is not, and move it when you have looked")
    with _folder_in_the_making(target) as home:
        progress(f"fetching {manifest.size / 1e6:,.0f} MB")
        _fetch_files(store, manifest, home)
        _settle_places(home, terms)
        copied = _fill_archive(source, home, progress)
        report = _prove(home, manifest, terms, replay=replay, progress=progress)
        _load_into_servers(home, terms, progress)
        files.sync_all([str(path) for path in [*files.walk_folder(home), home]])
        os.replace(home, target)
        files.sync_folder(target.parent)
    return msgspec.structs.replace(report, home=str(target), archive_objects=copied)


@contextmanager
def _folder_in_the_making(target: Path) -> Iterator[Path]:
    """A folder beside a place, for this process alone; what a killed one left in it is deleted, and so is ours."""
    folder = target.with_name(f".{target.name}.restoring")
    files.make_folders(folder, durable=False)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield folder
    except BlockingIOError:
        raise HomeError(f"another process restores to {target} just now: wait for it, or stop it") from None
    except OSError as error:
        raise StoreFailed(f"cannot write {error.filename or folder}: {error.strerror}; make room, try again") from error
    finally:
        if folder.is_dir() and os.fstat(handle).st_ino == folder.stat().st_ino:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _fetch_files(store: BackupStore, manifest: Manifest, home: Path) -> None:
    for file in manifest.files:
        path = home / file.path
        if Path(file.path).is_absolute() or ".." in Path(file.path).parts:
            raise Damaged(f"the backup names {file.path}, which is no file of a home; take another backup")
        files.make_folders(path.parent, durable=False)
        store.fetch_file(file, path, progress=lambda size: None)


def _settle_places(home: Path, terms: RestoreTerms) -> None:
    """Has the settings of a restored home name files of its own where they named those of another machine."""
    text = (home / FILE).read_text("utf-8")
    # Proven as files first; servers that are asked for get their rows afterwards.
    places = {("store", "book"): _BOOK, ("store", "tape"): _TAPE}
    places |= {("archive", "place"): terms.archive} if terms.archive else {}
    for key, value in places.items():
        text = with_setting(text, key, value)
    files.write_private(home / FILE, text.encode(), durable=False)
    spool = load_config(home).archive.spool
    if Path(spool).is_absolute():
        files.write_private(home / FILE, with_setting(text, ("archive", "spool"), _SPOOL).encode(), durable=False)


def _fill_archive(source: Archive, home: Path, progress: BackupProgress) -> int:
    """Copies the archive that lies beside the backups into a home whose archive is a folder of its own."""
    place = load_config(home).archive.place
    if "://" in place or Path(place).is_absolute():
        return 0
    return _mirror(source, open_archive(place, home=home, durable=False), progress)


def _prove(
    home: Path, manifest: Manifest, terms: RestoreTerms, *, replay: ReplayPackets, progress: BackupProgress
) -> RestoreReport:
    demo_clock = VirtualClock(DEMO_START) if is_demo_home(home) else None
    rooms = Rooms(home, clock=demo_clock or SystemClock())
    try:
        if demo_clock is not None:
            demo_clock.advance(max(demo_clock.now(), rooms.tape.head()[1]))
        if _heads(rooms.log) != manifest.heads or rooms.tape.head()[0] != manifest.tape_seq:
            raise Damaged("book or tape of the backup do not end where its manifest says; take another backup")
        lost = note_restore(rooms.archive, rooms.log, rooms.clock)
        found = verify_home(rooms, tape=True, archive=terms.everything, progress=progress, notice=progress)
        if found:
            first = f"{found[0].where}: {found[0].problem}"
            raise Damaged(f"the backup {manifest.id} has {plural(len(found), 'contradiction')} ({first}); take another")
        chosen = _sample(rooms.book.run_ids(most=2**31 - 1)[::-1], most=None if terms.everything else _REPLAYED)
        progress(f"replaying {plural(len(chosen), 'decision')}")
        if different := replay(rooms, chosen):
            raise Damaged(f"the backup {manifest.id} does not replay ({different[0]}); take another")
    finally:
        rooms.close()
    counts = {"files": len(manifest.files), "bytes": manifest.size, "archive_objects": 0, "lost_anchors": lost}
    events = sum(seq for _, _, seq, _ in manifest.heads)
    return RestoreReport(
        id=manifest.id,
        home=str(home),
        made_at=manifest.made_at,
        streams=len(manifest.heads),
        events=events,
        replayed=len(chosen),
        **counts,
    )


def _sample(run_ids: list[str], *, most: int | None) -> list[str]:
    """Decisions from the first to the newest, evenly, so that every month of a book is looked at."""
    if most is None or len(run_ids) <= most:
        return run_ids
    return [run_ids[round(index * (len(run_ids) - 1) / (most - 1))] for index in range(most)]


def _load_into_servers(home: Path, terms: RestoreTerms, progress: BackupProgress) -> None:
    """Moves the rows of proven files into the databases that were asked for."""
    if terms.book is None and terms.tape is None:
        return
    sources = Rooms(home, clock=SystemClock())
    tape_packages = sources.tape_packages
    sources.close()
    text = (home / FILE).read_text("utf-8")
    for name, place, packages in ((_BOOK, terms.book, BOOK_PACKAGES), (_TAPE, terms.tape, tape_packages)):
        if place is None:
            continue
        progress(f"loading {name}")
        with closing(connect(place, durable=True)) as db:
            load_file(str(home / name), db, packages)
        for suffix in ("", "-wal", "-shm"):
            (home / f"{name}{suffix}").unlink(missing_ok=True)
        text = with_setting(text, ("store", name.removesuffix(".db")), place)
    files.write_private(home / FILE, text.encode(), durable=False)
