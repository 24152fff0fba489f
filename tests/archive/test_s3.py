"""An archive in a bucket of a real S3 server: outages, wrong keys, what a decision waits for, and another machine."""

import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from starlette.testclient import TestClient

import tapebook
from tapebook import uploads
from tapebook.anchors import AnchorTimer
from tapebook.archive import ArchiveReference, SpooledArchive, spool
from tapebook.archive.archives._bucket import BucketArchive
from tapebook.archive.archives.folder import FolderArchive
from tapebook.clock import SystemClock
from tapebook.desk import roles
from tapebook.desk.document_writes import append_entry
from tapebook.desk.roles import RoleProgress, StopSignal
from tapebook.domain.canonical import content_key
from tapebook.domain.market import Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput, ConfigError, Damaged, StoreFailed
from tapebook.ingest import compaction
from tapebook.ingest.compaction import RowMover
from tapebook.ingest.live import _recorder
from tapebook.library.search import index_as_of
from tapebook.library.sync import sync_documents
from tapebook.settings.config import FILE
from tapebook.surfaces.cli import main
from tapebook.surfaces.http import server as http_server
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tests.archive.s3_server import ACCESS_KEY, SECRET_KEY, Gate, S3Server, s3_server
from tests.desk.desks import desk, reply
from tests.library.libraries import library, use_plain_index
from tests.replay.power import compiler


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server for the whole module."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def gate(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The way to it, and the environment of a program that takes it."""
    way = Gate(server.url)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
    yield way
    way.close()


@pytest.mark.sqlite_file("copies a home with its database files")
def test_a_desk_trades_through_an_outage_and_another_machine_replays_it(
    gate: Gate, tmp_path: Path, demo_minutes: Path
) -> None:
    home = shutil.copytree(demo_minutes, tmp_path / "home")
    folder, bucket = FolderArchive(home / "archive"), BucketArchive("s3://desk/one")
    for key in folder.walk_keys():
        bucket.create(key, folder.get(key) or b"")
    (home / FILE).write_text('[archive]\nplace = "s3://desk/one"\n', "utf-8")
    shutil.rmtree(home / "archive")
    with tapebook.open(home) as book:
        book.doctor(fix=True)
        assert not list((home / "spool").glob("*.seg")) and not (home / "archive").exists()
        before = len(book.runs(most=1_000))
        gate.shut()
        run = book.tick("btc-5m", "BTC")
        assert run.degraded_causes == () and run.packet_key, "a decision does not notice"
        gate.open()
        book.doctor(fix=True)
        assert book.replay().different == [] and book.verify(archive=True) == []
    # One request for many texts.
    assert len(bucket.keys("packs/")) <= 3 and len(book_texts(home)) > before
    (home / "spool" / "packs.db").unlink()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(home, elsewhere)
    shutil.rmtree(elsewhere / "spool")
    with tapebook.open(elsewhere) as book:
        assert book.replay().different == [] and book.verify(archive=True) == []


def book_texts(home: Path) -> list[str]:
    """The keys of all texts that the bucket and the spool hold."""
    archive = SpooledArchive(BucketArchive("s3://desk/one"), home / "spool", now=SystemClock().now)
    try:
        return archive.keys("sha256/")
    finally:
        archive.close()


def test_nobody_who_trades_or_listens_waits_for_a_bucket_that_does_not_answer(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = '[archive]\nplace = "s3://desk/silent"\nraw = true\n[retention]\ncold_file_hours = 0\n'
    monkeypatch.setattr(compaction, "_FIRST_RETRY_SECONDS", 0.1)
    gate.hang()
    with desk(tmp_path / "home", settings=settings) as floor:
        agent, recorder = floor.hire(), _recorder(floor.rooms.archive, floor.rooms.config, floor.rooms.tape_db)
        floor.quote(BTC=100, ETH=10)
        floor.later(3 * HOUR, BTC=101, ETH=10)
        before = floor.rooms.tape.facts(Mid, "BTC", since=0, until=2**62, view=View(floor.clock.now()))
        anchors, mover = AnchorTimer(floor.rooms), RowMover(floor.rooms.clock, floor.rooms.home)
        began = time.monotonic()
        for turn in range(5):
            floor.say(agent, reply("hold"))
            assert recorder is not None
            recorder(floor.clock.now(), f'{{"turn":{turn}}}')
            floor.later(2 * MINUTE, BTC=101, ETH=10)
            assert anchors.anchor_if_due() is mover.move_if_due() is recorder.archive_due(floor.clock.now()) is None
        assert time.monotonic() - began < 4, "a request that is not answered takes 20 seconds"
        now = floor.clock.now()
        assert floor.rooms.tape.facts(Mid, "BTC", since=0, until=now, view=View(now))[:2] == before
        gate.shut()
        gate.open()
        wait_for(lambda: anchors.anchor_if_due() is None and floor.rooms.log.newest_anchor().number > 0)
        wait_for(lambda: mover.move_if_due() is None and mover.moved > 0)
        after = floor.rooms.tape.facts(Mid, "BTC", since=0, until=2**62, view=View(floor.clock.now()))
        assert after[: len(before)] == before and len(BucketArchive("s3://desk/silent").keys("cold/tape/mids/")) == 1
        anchors.close()
        mover.close()


def test_a_machine_with_workers_alone_sends_its_texts_to_the_bucket(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_SECONDS", 0.2)
    monkeypatch.setattr(spool, "_LONGEST_WAIT_MS", 0)
    with desk(tmp_path / "home", settings='[archive]\nplace = "s3://desk/workers"\n') as floor, StopSignal() as stop:
        agent = floor.hire()
        floor.quote(BTC=100, ETH=10)
        run = floor.say(agent, reply("hold"))

        def stop_when_sent(progress: RoleProgress) -> None:
            stop.asked = not list((tmp_path / "home" / "spool").glob("*.seg"))

        roles.run_role(floor.rooms, "worker", stop=stop, seconds=30, report=stop_when_sent)
        elsewhere = SpooledArchive(BucketArchive("s3://desk/workers"), tmp_path / "elsewhere", now=SystemClock().now)
        assert run.packet_key and elsewhere.get(run.packet_key)
        elsewhere.close()


@pytest.mark.parametrize("archive", ["s3://desk/shared", "archive"])
def test_documents_of_one_machine_are_read_by_the_decisions_of_another(
    gate: Gate, tmp_path: Path, postgres_url: str, archive: str
) -> None:
    settings = f'[archive]\nplace = "{archive}"\n[store]\nbook = "{postgres_url}"\n'
    with library(tmp_path / "librarian", settings=settings) as shelf:
        shelf.write("global/rules.md", "# Funding\n\nFunding above 0.01 % an hour has ended most rallies.")
        sync_documents(shelf.rooms)
        append_entry(shelf.rooms, "ann", "journal", "ETH moved first.", by="ann", at=shelf.floor.clock.now())
        waits = list((tmp_path / "librarian" / "spool").glob("*.seg"))
        assert bool(waits) == (archive == "archive"), "what is on this machine alone is sent at once"
        if archive == "archive":
            return
        seq = shelf.rooms.documents.head()
        # A machine with a home of its own: the same settings, another spool.
        (tmp_path / "worker").mkdir(mode=0o700)
        (tmp_path / "worker" / FILE).write_text((tmp_path / "librarian" / FILE).read_text())
        other = Rooms(tmp_path / "worker", clock=shelf.floor.clock)
        try:
            use_plain_index(other)
            assert index_as_of(other.documents, other.archive, other.indexes, seq).head() == seq
        finally:
            other.close()
        # While the bucket is away, documents are written all the same, and go with the next that can.
        gate.shut()
        shelf.write("global/more.md", "# More\n\nSpreads widen on Sundays.")
        sync_documents(shelf.rooms)
        gate.open()
        shelf.write("global/most.md", "# Most\n\nDepth thins at night.")
        sync_documents(shelf.rooms)
        assert not list((tmp_path / "librarian" / "spool").glob("*.seg"))


def test_a_machine_with_the_api_alone_sends_its_texts_to_the_bucket(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(spool, "_LONGEST_WAIT_MS", 0)
    with desk(tmp_path / "home", settings='[archive]\nplace = "s3://desk/api"\n') as floor:
        agent = floor.hire()
        floor.quote(BTC=100, ETH=10)
        floor.say(agent, reply("hold"))
    waiting = tmp_path / "home" / "spool"
    assert list(waiting.glob("*.seg"))
    gate.shut()
    with tapebook.open(tmp_path / "home") as book:
        with pytest.raises(StoreFailed, match=r"not in the archive yet: cannot write s3://desk/api"):
            book.send_due_texts()
        gate.open()
        with TestClient(http_server.create_app(book)):
            wait_for(lambda: not list(waiting.glob("*.seg")))


def wait_for(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to be so")


def test_an_outage_loses_nothing(gate: Gate, tmp_path: Path) -> None:
    spooled = SpooledArchive(BucketArchive("s3://outage"), tmp_path / "spool", now=SystemClock().now)
    contents = {content_key(text): text for text in (b"packet %d" % number for number in range(50))}
    assert all(each.key for each in spooled.store_contents(list(contents.values())[:25]))
    gate.shut()
    assert all(each.key for each in spooled.store_contents(list(contents.values())[25:]))
    drained = spooled.drain()
    assert drained.left == 50 and isinstance(drained.problem, StoreFailed)
    assert "cannot write s3://outage" in str(drained.problem) and "\n" not in str(drained.problem)
    assert {key: spooled.get(key) for key in contents} == contents
    # An upload that is cut off leaves no object.
    gate.cut_after(1_000)
    assert spooled.drain().left == 50
    gate.open()
    assert BucketArchive("s3://outage").keys("") == []
    assert spooled.drain().moved == 50
    new = SpooledArchive(BucketArchive("s3://outage"), tmp_path / "new", now=SystemClock().now)
    assert {key: new.get(key) for key in contents} == contents
    assert list(new.check(ArchiveReference(key, "a run") for key in contents)) == []
    assert len(BucketArchive("s3://outage").keys("packs/")) == 1


def test_wrong_keys_are_said_in_a_line_without_them(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "this-is-the-wrong-secret"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", wrong)
    spooled = SpooledArchive(BucketArchive("s3://locked"), tmp_path / "spool", now=SystemClock().now)
    key = spooled.store_content_or_raise(b"one")
    problem = str(spooled.drain().problem)
    assert "refuses the keys" in problem and wrong not in problem and ACCESS_KEY not in problem
    assert spooled.get(key) == b"one"
    with pytest.raises(StoreFailed, match="cannot read s3://locked"):
        spooled.get(content_key(b"never stored"))


SKEWED = """
from tapebook.archive.archives._bucket import BucketArchive
from tapebook.errors import StoreFailed
try:
    BucketArchive("s3://desk/skewed").create("a/b", b"x")
except StoreFailed as error:
    print(error)
"""


@pytest.mark.parametrize("seconds", [-7_200, 7_200], ids=["behind", "ahead"])
def test_a_clock_that_is_wrong_is_named_and_writes_nothing(gate: Gate, tmp_path: Path, seconds: int) -> None:
    """The process signs its requests two hours off; the server refuses them, and the message says what to look at."""
    library = tmp_path / "skewed_clock.so"
    source = Path(__file__).with_name("skewed_clock.c")
    program = compiler()
    if program is None:
        pytest.skip("no C compiler")
    subprocess.run([program, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    archive = BucketArchive("s3://desk/skewed")
    # The bucket is there, whichever tests ran before.
    archive.create("known", b"x")
    skew = {"LD_PRELOAD": str(library), "TAPEBOOK_SKEW_SECONDS": str(seconds)}
    done = subprocess.run(
        [sys.executable, "-c", SKEWED], env={**os.environ, **skew}, capture_output=True, text=True, check=True
    )
    assert "clock is wrong" in done.stdout and SECRET_KEY not in done.stdout + done.stderr
    assert archive.keys("") == ["known"]


def test_altered_and_torn_objects_are_noticed_and_replaced(gate: Gate) -> None:
    archive = BucketArchive("s3://damage/below")
    key = content_key(b"what was sent")
    archive.create(key, b"what was sent")
    for lie in (b"torn", b""):
        obstore.put(archive._store, f"{key}.z", lie)
        with pytest.raises(Damaged):
            archive.get(key)
        archive.create(key, b"what was sent")
        assert archive.get(key) == b"what was sent" and len(archive.repaired_objects()) == 1
    assert list(archive.stray_files()) == [] and archive.keys("") == [key]


@pytest.mark.parametrize("address", ["s3://", "s3://x", "s3://UPPER", "s3://bucket?key=1", "s3://bucket/../up"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises((ConfigError, BadInput)):
        BucketArchive(address)


def test_keys_of_a_bucket_are_in_no_pickle_backup_message_or_page(
    gate: Gate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capfd: pytest.CaptureFixture[str],
    demo_minutes: Path,
) -> None:
    archive = BucketArchive("s3://desk/secret")
    archive.create("a/b", b"x")
    pickled = pickle.dumps(archive)
    assert SECRET_KEY.encode() not in pickled and ACCESS_KEY.encode() not in pickled
    assert pickle.loads(pickled).get("a/b") == b"x"
    home = shutil.copytree(demo_minutes, tmp_path / "home")
    assert main(["backup", "s3://desk/backups", "--home", str(home)]) == 0
    assert main(["restore", "s3://desk/backups", str(tmp_path / "new")]) == 0
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET_KEY}-wrong")
    assert main(["--log-json", "backup", "s3://desk/backups", "--home", str(home)]) == 3
    gate.shut()
    assert main(["backup", "s3://desk/backups", "--home", str(home)]) == 3
    gate.open()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    out, err = capfd.readouterr()
    assert "refuses the keys" in err and SECRET_KEY not in out + err and ACCESS_KEY not in out + err
    for folder in (home, tmp_path / "new"):
        for path in folder.rglob("*"):
            assert not path.is_file() or SECRET_KEY.encode() not in path.read_bytes(), path
    backups = BucketArchive("s3://desk/backups")
    for key in backups.walk_keys():
        assert SECRET_KEY.encode() not in (backups.get(key) or b"")
    with tapebook.open(tmp_path / "new") as book:
        assert book.verify(archive=True) == [] and book.replay().different == []
