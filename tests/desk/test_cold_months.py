"""A month that was moved out replays byte for byte on a machine that has only the archive and what it restores."""

import shutil
import zlib
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import tapebook
from tapebook.archive import put_cold
from tapebook.archive.archives.folder import FolderArchive
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.desk.librarian import OldRunArchiver
from tapebook.domain.market import Mid
from tapebook.domain.units import DAY
from tapebook.errors import Damaged
from tapebook.home import DEMO_MARKER, DEMO_START
from tapebook.ingest.compaction import Watchlists, retention_by_channel
from tapebook.ingest.tape_recovery import store_catalogue
from tapebook.settings.config import FILE, with_setting
from tapebook.surfaces.cli import main
from tapebook.tape.recovery import decode_catalogue, encode_catalogue
from tapebook.tape.retention import retire_rows
from tapebook.wiring import Rooms
from tests.archive.s3_server import s3_server
from tests.db.places import sql


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.proof)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An archive outside of every home, on the disk and on a real S3 server."""
    if request.param == "folder":
        yield str(tmp_path / "elsewhere")
        return
    (tmp_path / "server").mkdir()
    with s3_server(tmp_path / "server") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield "s3://months/desk"


def test_a_month_that_was_moved_out_replays_where_only_the_archive_is(
    place: str, tmp_path: Path, demo_minutes: Path
) -> None:
    home, new = shutil.copytree(demo_minutes, tmp_path / "home"), tmp_path / "new"
    with tapebook.open(home) as book:
        before = [(run["run_id"], run["packet_sha256"]) for run in book.runs(most=1_000)]
    settings = with_setting((home / FILE).read_text(), ("archive", "place"), place)
    mirror = tmp_path / "copied"
    shutil.move(home / "archive", mirror)
    (home / FILE).write_text(settings)
    move_all_out(home, mirror)
    assert main(["backup", place, "--home", str(home)]) == 0
    shutil.rmtree(home)
    shutil.rmtree(mirror)
    assert main(["restore", place, str(new), "--all"]) == 0
    with tapebook.open(new) as book:
        report = book.replay()
        assert (report.checked, report.different) == (len(before), []) and report.equal == len(before) > 10
        after = [(run["run_id"], run["packet_sha256"]) for run in book.runs(most=1_000)]
        assert after == before and book.verify(tape=True, archive=True) == []


def test_a_book_and_the_archive_replay_what_was_moved_out(place: str, tmp_path: Path) -> None:
    """The tape is gone, and no backup has it: its rows are in the archive, and the book says how far it reached."""
    home, new = tmp_path / "home", tmp_path / "new"
    tapebook.demo(home, seconds=1)
    with tapebook.open(home) as book:
        before = [(run["run_id"], run["packet_sha256"]) for run in book.runs(most=1_000)]
        seq = book._rooms.tape.head()[0]
    mirror = tmp_path / "copied"
    shutil.move(home / "archive", mirror)
    (home / FILE).write_text(with_setting((home / FILE).read_text(), ("archive", "place"), place))
    move_all_out(home, mirror)
    new.mkdir(mode=0o700)
    for name in (FILE, DEMO_MARKER, "book.db"):
        shutil.copy(home / name, new / name)
    shutil.rmtree(home)
    with tapebook.open(new) as book:
        report = book.replay()
        assert (report.checked, report.different) == (len(before), []) and report.equal == len(before) > 10
        after = [(run["run_id"], run["packet_sha256"]) for run in book.runs(most=1_000)]
        assert after == before and book.verify(tape=True, archive=True) == []
        assert book._rooms.tape.head()[0] >= seq, "no number of a commit is given twice"
    # Once is enough: from now on it is a tape like others.
    with tapebook.open(new) as book:
        assert book.replay().different == []


def move_all_out(home: Path, mirror: Path) -> None:
    """Two months later: every row of the tape and every decision that may leave is in the archive."""
    with_rows = VirtualClock(DEMO_START + 62 * DAY)
    rooms = Rooms(home, clock=with_rows)
    try:
        for key, content in archived_before(mirror):
            rooms.archive.create(key, content)
        nothing = dict.fromkeys(retention_by_channel(rooms.config), 0)
        put, watched = partial(put_cold, rooms.archive), Watchlists(rooms.book).symbols
        families = rooms.tape.families
        store_catalogue(rooms.tape, rooms.archive, rooms.tape_db)
        assert retire_rows(rooms.tape_db, put, keep=nothing, now=with_rows.now(), watched=watched, families=families)
        old = OldRunArchiver(rooms.archive, rooms.log, rooms.clock, config=rooms.config)
        while old.archive_step():
            pass
        assert old.left > 10
        rows = [rooms.tape_db.all(sql(f"SELECT COUNT(*) FROM {family.table}"))[0][0] for family in families]
        assert sum(rows) == 0, "no market row is left in the tape"
        rooms.archive.drain()
        folders = {key.rpartition("/")[0] for key in rooms.archive.keys("cold/")}
        month = max(folders).rpartition("/")[2]
        assert f"cold/tape/candles_60/{month}" in folders and any(name.startswith("cold/runs/") for name in folders)
    finally:
        rooms.close()


def archived_before(mirror: Path) -> Iterator[tuple[str, bytes]]:
    """What the archive of the home had."""
    archive = FolderArchive(mirror)
    for key in archive.walk_keys():
        yield key, archive.get(key) or b""


@pytest.mark.sqlite_file("loses the file of the tape")
def test_rows_that_had_not_left_are_named_as_lost_and_commits_go_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    tapebook.demo(home, seconds=1)
    with tapebook.open(home) as book:
        seq, decisions = book._rooms.tape.head()[0], len(book.runs(most=1_000))
    rooms = Rooms(home, clock=VirtualClock(DEMO_START + 62 * DAY))
    # All but the candles.
    keep = {name: 0 for name in retention_by_channel(rooms.config) if not name.startswith("candles")}
    watched = Watchlists(rooms.book).symbols
    store_catalogue(rooms.tape, rooms.archive, rooms.tape_db)
    store_catalogue(rooms.tape, rooms.archive, rooms.tape_db)
    assert len(rooms.archive.keys("catalogue/tape/")) == 1, "the same tables are stored once"
    put, families = partial(put_cold, rooms.archive), rooms.tape.families
    retire_rows(rooms.tape_db, put, keep=keep, now=rooms.clock.now(), watched=watched, families=families)
    rooms.close()
    for path in home.glob("tape.db*"):
        path.unlink()
    with tapebook.open(home) as book:
        assert book._rooms.tape.head()[0] >= seq
        assert len(book.replay().different) == decisions
        found = book.verify(tape=True)
        assert found and all("hyperliquid_candles" in each.where and "lost" in each.problem for each in found[:-1])
        rooms = book._rooms
        assert rooms.tape.commit([Mid("BTC", rooms.clock.now(), 10**12)]) > seq


def test_a_tape_that_is_new_beside_an_empty_book_is_left_alone(tmp_path: Path) -> None:
    tapebook.init(tmp_path / "home")
    with tapebook.open(tmp_path / "home") as book:
        assert book._rooms.tape.head() == (0, 0)


@pytest.mark.parametrize("damage", ["torn", "altered"])
def test_a_damaged_catalogue_is_said(tmp_path: Path, damage: str) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, ("tapebook.tape",))
        first = encode_catalogue(db, seq=7)
        assert first is not None
        key, content = first
        # The same rows at a later commit are kept already.
        assert encode_catalogue(db, seq=9, newest=key) is None
    assert key.startswith("catalogue/tape/000000000007-") and decode_catalogue(key, content)["tape_symbols"] == []
    other = content[:-9] if damage == "torn" else zlib.compress(b'{"tape_symbols":[]}')
    with pytest.raises(Damaged, match="restore the archive"):
        decode_catalogue(key, other)
