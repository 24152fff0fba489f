"""Backups: of a home in use, whole or not there, kept as asked; and homes restored from them prove themselves."""

import os
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import tapebook
from tapebook.api import app
from tapebook.archive import open_archive
from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.backups import BackupStore
from tapebook.clock import VirtualClock
from tapebook.db import connect
from tapebook.db.copies import copy_to_file
from tapebook.desk import backup
from tapebook.desk.backup import Backups, RestoreTerms
from tapebook.errors import Damaged, HomeError, StoreFailed, UnknownName
from tapebook.home import DEMO_START
from tapebook.settings.config import FILE, load_config, with_setting
from tapebook.wiring import Rooms
from tests.db.places import sql


@pytest.fixture
def home(demo_minutes: Path, tmp_path: Path) -> Path:
    """A home in which agents have traded."""
    return shutil.copytree(demo_minutes, tmp_path / "home")


def proves_itself(home: Path) -> bool:
    """Whether a home is whole in all its parts, and replays."""
    with tapebook.open(home) as book:
        replay = book.replay()
        return book.verify(tape=True, archive=True) == [] and replay.different == [] and replay.checked > 0


def set_archive(home: Path, place: str) -> None:
    """Has a home use another archive, to which its objects are moved."""
    shutil.copytree(home / "archive", place)
    shutil.rmtree(home / "archive")
    (home / FILE).write_text(with_setting((home / FILE).read_text(), ("archive", "place"), place))


def test_a_machine_with_only_the_backups_goes_on(home: Path, tmp_path: Path) -> None:
    (home / "workspace").mkdir(exist_ok=True)
    (home / "workspace" / "notes.md").write_text("mine")
    with tapebook.open(home) as book:
        before = [run["run_id"] for run in book.runs(most=1_000)]
        made = book.backup(str(tmp_path / "elsewhere"))
        assert book.backups(str(tmp_path / "elsewhere"))[0].id == made.id
    shutil.rmtree(home)
    new = tmp_path / "new"
    done = app.restore(str(tmp_path / "elsewhere"), new)
    assert done.id == made.id and done.replayed == len(before) and done.lost_anchors == 0
    assert proves_itself(new) and (new / "workspace" / "notes.md").read_text() == "mine"
    with tapebook.open(new) as book:
        assert [run["run_id"] for run in book.runs(most=1_000)] == before
        book.tick("btc-5m", "BTC")
    assert proves_itself(new)
    for place in (tmp_path / "elsewhere", new):
        assert not [each for each in [place, *place.rglob("*")] if each.stat().st_mode & 0o077]


@pytest.mark.parametrize("spool", ["spool", "var/waiting", "/elsewhere"])
def test_what_waits_in_the_spool_is_in_the_backup_and_as_old_as_it_was(home: Path, tmp_path: Path, spool: str) -> None:
    """A backup makes no pack that is not due, and a restored home finds what waited wherever the spool was."""
    folder = tmp_path / "elsewhere" if spool.startswith("/") else home / spool
    if spool != "spool":
        folder.parent.mkdir(exist_ok=True)
        (home / "spool").rename(folder)
    named = str(folder) if spool.startswith("/") else spool
    (home / FILE).write_text(with_setting((home / FILE).read_text(), ("archive", "spool"), named))
    with tapebook.open(home) as book:
        book.tick("btc-5m", "BTC")
        assert (names := sorted(path.name for path in folder.glob("*.seg")))
        packs = list((home / "archive" / "packs").rglob("*.z"))
        book.backup(str(tmp_path / "backups"))
    assert list((home / "archive" / "packs").rglob("*.z")) == packs
    new = tmp_path / "new"
    app.restore(str(tmp_path / "backups"), new)
    restored = new / ("spool" if spool.startswith("/") else spool)
    assert sorted(path.name for path in restored.glob("*.seg")) == names and proves_itself(new)


def test_what_came_after_the_backup_is_lost_and_not_cut_off(home: Path, tmp_path: Path) -> None:
    set_archive(home, str(tmp_path / "archive"))
    with tapebook.open(home) as book:
        made = book.backup()
        assert made.archive_objects == 0 and made.place == str(tmp_path / "archive")
        book.edit_agent("btc-5m", {"every_minutes": "15"})
    with tapebook.open(home) as book:
        book.edit_agent("btc-5m", {"every_minutes": "30"})
    new = tmp_path / "new"
    assert app.restore(str(tmp_path / "archive"), new).lost_anchors == 2
    assert proves_itself(new)
    # A drill beside the home it was made from leaves no trace in their archive.
    assert proves_itself(home)
    with tapebook.open(new) as book:
        book.edit_agent("btc-5m", {"every_minutes": "60"})
    assert proves_itself(new)
    # The archive knows it too now: a second copy of the book need not.
    with closing(connect(str(new / "book.db"))) as db:
        db.execute(sql("DELETE FROM log_restores"))
    assert proves_itself(new)
    with tapebook.open(home) as book:
        assert "differs from the anchor" in " ".join(found.problem for found in book.verify()), "two go on, one archive"


def test_a_book_that_was_cut_off_is_still_found_after_a_restore(home: Path, tmp_path: Path) -> None:
    with tapebook.open(home) as book:
        book.backup(str(tmp_path / "elsewhere"))
    new = tmp_path / "new"
    app.restore(str(tmp_path / "elsewhere"), new)
    shutil.copy(new / "book.db", tmp_path / "older.db")
    with tapebook.open(new) as book:
        book.edit_agent("btc-5m", {"every_minutes": "15"})
    shutil.copy(tmp_path / "older.db", new / "book.db")
    with tapebook.open(new) as book:
        assert any("cut off" in found.problem for found in book.verify())


def in_a_process_that_is_killed(act: Callable[[], object], *, at: int) -> bool:
    """Acts in a process of its own that dies before a call of the archive; False when it came to its end."""
    child = os.fork()
    if child == 0:
        calls = 0

        def dying(method: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **named: object) -> object:
                nonlocal calls
                calls += 1
                if calls > at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return method(*args, **named)

            return call

        try:
            for name in ("create", "get", "delete_backup", "keys"):
                setattr(FolderArchive, name, dying(getattr(FolderArchive, name)))
            backup._copy_database = dying(backup._copy_database)  # type: ignore[assignment]
            os.replace = dying(os.replace)  # type: ignore[assignment]
            act()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def chunks(place: Path) -> set[str]:
    """The pieces that are there, and those that some backup names."""
    archive = FolderArchive(place)
    named = {key for each in BackupStore(archive, "").manifests() for file in each.files for key in file.chunks}
    assert named <= set(archive.keys("backups/chunks/"))
    return set(archive.keys("backups/chunks/")) - named


def test_a_backup_that_is_killed_leaves_the_one_before_it(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"

    def back_up() -> str:
        with tapebook.open(home) as book:
            return book.backup(str(place)).id

    first = back_up()
    (home / FILE).write_text(with_setting((home / FILE).read_text(), ("backup", "keep"), "1").replace('"1"', "1"))
    (home / "workspace").mkdir(exist_ok=True)
    steps = range(0, 400, 7)
    for at in steps:
        (home / "workspace" / "notes.md").write_text(f"as of {at}")
        killed = in_a_process_that_is_killed(back_up, at=at)
        names = [each.id for each in BackupStore(FolderArchive(place), "").manifests()]
        assert names and (first in names or not killed or len(names) == 1)
        chunks(place)
        if not killed:
            break
    assert at > steps[2] and not killed
    # What the killed ones left is deleted with the next that comes to its end.
    back_up()
    assert chunks(place) == set() and not (home / ".backup").exists()
    app.restore(str(place), tmp_path / "new")
    assert (tmp_path / "new" / "workspace" / "notes.md").read_text() == f"as of {at}"


def test_a_restore_that_is_killed_leaves_nothing_that_looks_like_a_home(home: Path, tmp_path: Path) -> None:
    place, new = tmp_path / "elsewhere", tmp_path / "new"
    with tapebook.open(home) as book:
        book.backup(str(place))
    for at in range(0, 100, 3):
        if not in_a_process_that_is_killed(lambda: app.restore(str(place), new), at=at):
            break
        assert not new.exists()
    assert at > 9 and proves_itself(new)
    assert not list(tmp_path.glob(".new*"))


def test_a_copy_beside_a_writer_is_of_one_moment(tmp_path: Path) -> None:
    with closing(connect(str(tmp_path / "a.db"), durable=False)) as db:
        db.execute_script("CREATE TABLE debit (n BIGINT); CREATE TABLE credit (n BIGINT);")
    stop, written = threading.Event(), [0]

    def write() -> None:
        with closing(connect(str(tmp_path / "a.db"), durable=False)) as writer:
            while not stop.is_set():
                with writer.transaction():
                    writer.many(sql("INSERT INTO debit (n) VALUES (:n)"), [(written[0],)] * 20)
                    writer.many(sql("INSERT INTO credit (n) VALUES (:n)"), [(written[0],)] * 20)
                written[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with closing(connect(str(tmp_path / "a.db"), durable=False)) as source:
            for number in range(5):
                before = written[0]
                while written[0] < before + 10:
                    pass
                copy_to_file(source, str(tmp_path / f"copy{number}.db"), ())
                with closing(connect(str(tmp_path / f"copy{number}.db"))) as copy:
                    counts = copy.one(sql("SELECT (SELECT COUNT(*) FROM debit), (SELECT COUNT(*) FROM credit)"))
                assert counts and counts[0] == counts[1] >= 20 * before
    finally:
        stop.set()
        thread.join()


def test_a_home_moves_to_a_server_and_back(home: Path, tmp_path: Path, postgres_url: str) -> None:
    with tapebook.open(home) as book:
        book.backup(str(tmp_path / "files"))
    on_server = tmp_path / "on-server"
    app.restore(str(tmp_path / "files"), on_server, terms=RestoreTerms(book=postgres_url, tape=postgres_url))
    assert load_config(on_server).store.book == postgres_url and not list(on_server.glob("*.db"))
    assert proves_itself(on_server)
    with pytest.raises(HomeError, match="has rows already"):
        app.restore(str(tmp_path / "files"), tmp_path / "twice", terms=RestoreTerms(book=postgres_url))
    assert not (tmp_path / "twice").exists()
    with tapebook.open(on_server) as book:
        book.backup(str(tmp_path / "server"))
        heads = book.heads()
    back = tmp_path / "back"
    app.restore(str(tmp_path / "server"), back)
    assert proves_itself(back) and load_config(back).store.book == "book.db"
    with tapebook.open(back) as book, tapebook.open(home) as original:
        assert book.heads() == heads == original.heads()


def test_passwords_are_in_no_backup(home: Path, tmp_path: Path) -> None:
    text = (home / FILE).read_text() + "\n# postgresql://desk:pl4nted@db.example/book\n"
    (home / FILE).write_text(text)
    place = tmp_path / "elsewhere"
    with tapebook.open(home) as book:
        book.backup(str(place))
    app.restore(str(place), tmp_path / "new")
    assert "pl4nted" not in (tmp_path / "new" / FILE).read_text()
    assert "db.example/book" in (tmp_path / "new" / FILE).read_text()


def test_what_cannot_be_restored_says_so_in_a_line(home: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    with pytest.raises(UnknownName, match="there is no backup in"):
        app.restore(str(place), tmp_path / "new")
    with tapebook.open(home) as book:
        made = book.backup(str(place))
    with pytest.raises(UnknownName, match=made.id):
        app.restore(str(place), tmp_path / "new", terms=RestoreTerms(backup="20200101T000000.000Z"))
    with pytest.raises(HomeError, match="is there already"):
        app.restore(str(place), home)
    other = tmp_path / "other"
    app.init(other)
    with tapebook.open(other) as book, pytest.raises(HomeError, match="backups of another home"):
        book.backup(str(place))
    (file,) = [each for each in BackupStore(FolderArchive(place), "").manifest().files if each.path == "book.db"]
    FolderArchive(place).path(file.chunks[0]).unlink()
    with pytest.raises(Damaged, match="has lost"):
        app.restore(str(place), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_book_is_not_backed_up_over_good_ones(home: Path, tmp_path: Path) -> None:
    content = bytearray((home / "book.db").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4_096] = b"\xff" * 4_096
    rooms = Rooms(home, clock=VirtualClock(DEMO_START))
    try:
        (home / "book.db").write_bytes(bytes(content))
        with pytest.raises(Damaged):
            backup.backup_home(rooms, str(tmp_path / "elsewhere"), progress=lambda words: None)
    finally:
        rooms.close()
    assert not BackupStore(open_archive(str(tmp_path / "elsewhere"), home=home, durable=False), "").ids()


def test_the_role_makes_one_when_it_is_due(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "elsewhere"
    (home / FILE).write_text(with_setting((home / FILE).read_text(), ("backup", "place"), str(place)))
    now = [0.0]
    monkeypatch.setattr(backup, "elapsed_seconds", lambda: now[0])
    rooms = Rooms(home, clock=VirtualClock(DEMO_START))
    try:
        role = Backups(rooms)
        place.write_text("in the way")
        role.turn()
        assert role.problem and "no backup was made" in role.problem and role.made == 0
        place.unlink()
        role.turn()
        assert role.made == 0, "not at once again"
        now[0] = 61.0
        role.turn()
        assert role.made == 1 and not role.problem
        now[0] = 1_000.0
        role.turn()
        assert role.made == 1
        again = Backups(rooms)
        again.turn()
        assert again.made == 0, "one that is started again sees what is there"
    finally:
        rooms.close()


def test_a_role_without_a_place_is_refused(home: Path) -> None:
    rooms = Rooms(home, clock=VirtualClock(DEMO_START))
    try:
        with pytest.raises(HomeError, match=r"\[backup\]"):
            Backups(rooms)
    finally:
        rooms.close()


def test_no_room_for_a_copy_is_said(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_copy_small_files", full)
    with tapebook.open(home) as book, pytest.raises(StoreFailed, match="No space left"):
        book.backup(str(tmp_path / "elsewhere"))
