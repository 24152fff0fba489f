"""The contract of the archive port, kept by every archive in its folder: immutable bytes, whole or not there."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook import plug
from tapebook.archive import Archive, put_cold, put_content
from tapebook.archive.archives._bucket import BucketArchive
from tapebook.archive.port import verified_content
from tapebook.domain.canonical import content_key, sha256_hex
from tapebook.errors import BadInput, Damaged
from tests.archive.s3_server import S3Server, s3_server
from tests.contracts.archivist import FOLDER, content, opened
from tests.matrix import examples

ROOT = Path(__file__).parents[2]
ARCHIVES = plug.names(FOLDER)
OUTSIDE = ["/etc/passwd", "/", "..", "../up", "a/../../up", "a/..", "", "a//b", "./a", "a/./b", "a/", "a\x00b"]


@pytest.fixture(params=ARCHIVES)
def adapter(request: pytest.FixtureRequest) -> str:
    """The name of each archive."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server for the whole module."""
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def place(adapter: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a new archive may be."""
    # Without it the driver makes no store of Azure.
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "contracts")
    if adapter != "s3":
        return str(tmp_path / "home" / "archive")
    for name, value in request.getfixturevalue("server").environment().items():
        monkeypatch.setenv(name, value)
    # The bucket is there, whichever test is the first.
    opened(adapter, "s3://contracts/before").create("any", b"")
    return f"s3://contracts/{sha256_hex(str(tmp_path).encode())[:12]}"


@pytest.fixture
def archive(adapter: str, place: str) -> Archive:
    """An empty archive."""
    return opened(adapter, place)


@pytest.mark.parametrize("stored", [b"", b"x", b"\x00\xff" * 500, "Zürich →".encode(), b"a" * 2_000_000], ids=len)
def test_what_goes_in_comes_out(archive: Archive, stored: bytes) -> None:
    archive.create("a/b", stored)
    assert archive.get("a/b") == stored


def test_nothing_is_not_empty(archive: Archive) -> None:
    assert archive.get("a/b") is None
    archive.create("a/b", b"")
    assert archive.get("a/b") == b""
    assert archive.get("a") is None
    assert archive.get("a/b/c") is None


def test_keys_by_prefix_in_order(archive: Archive) -> None:
    assert archive.keys("") == []
    names = ["anchors/local/-/000000000002", "anchors/local/-/000000000010", "anchors/x/d.paper/1", "anchorage/1", "b"]
    for name in reversed(names):
        archive.create(name, name.encode())
    assert archive.keys("") == sorted(names)
    assert archive.keys("anchors/") == names[:3]
    assert archive.keys("anchors/local/-/00000000000") == names[:1]
    assert archive.keys("anchor") == sorted(names[:4])
    assert archive.keys("anchors/x/d.paper/1") == ["anchors/x/d.paper/1"]
    assert archive.keys("none/") == []


def test_same_bytes_again_are_fine(archive: Archive) -> None:
    for _ in range(3):
        archive.create("a", b"one")
    assert archive.get("a") == b"one"
    assert archive.keys("") == ["a"]


def test_other_bytes_under_the_same_key_are_refused(archive: Archive) -> None:
    archive.create("a", b"one")
    for other in (b"two", b"", b"one "):
        with pytest.raises(Damaged, match="other bytes under a"):
            archive.create("a", other)
    assert archive.get("a") == b"one"


def test_only_backups_are_ever_deleted(archive: Archive) -> None:
    key = put_content(archive, b"kept")
    archive.create("backups/manifests/1", b"old")
    for each in (key, "anchors/000000/000000001", "packs/ab/abc", "backups", "backupsx/1"):
        with pytest.raises(BadInput, match="no part of a backup"):
            archive.delete_backup(each)
    for _ in range(2):
        archive.delete_backup("backups/manifests/1")
        assert archive.keys("") == [key] and archive.get("backups/manifests/1") is None
    archive.create("backups/manifests/1", b"another")
    assert archive.get("backups/manifests/1") == b"another"


@pytest.mark.parametrize("key", OUTSIDE)
def test_keys_outside_are_refused(archive: Archive, place: str, key: str) -> None:
    with pytest.raises(BadInput, match="is not an archive key"):
        archive.create(key, b"x")
    with pytest.raises(BadInput, match="is not an archive key"):
        archive.get(key)
    assert [found for found in Path(place).parent.parent.rglob("*") if found.is_file()] == []


@pytest.mark.parametrize("prefix", ["../", "/etc/", "a/../../", "../archive/", "./"])
def test_prefixes_outside_are_refused(archive: Archive, prefix: str) -> None:
    archive.create("a", b"one")
    with pytest.raises(BadInput, match="is not an archive key"):
        archive.keys(prefix)


def test_another_process_sees_it(archive: Archive, adapter: str, place: str) -> None:
    archive.create("a/b", b"one")
    assert opened(adapter, place).get("a/b") == b"one"
    assert opened(adapter, place).keys("a") == ["a/b"]


def test_content_key_is_made_from_the_content(archive: Archive) -> None:
    key = put_content(archive, b"packet")
    assert key == content_key(b"packet") == f"sha256/{sha256_hex(b'packet')[:2]}/{sha256_hex(b'packet')}"
    assert put_content(archive, b"packet") == key
    assert put_content(archive, b"packet ") != key
    assert archive.get(key) == b"packet"
    assert len(archive.keys("sha256/")) == 2


def test_what_is_there_is_found_one_by_one(archive: Archive) -> None:
    assert list(archive.walk_keys()) == [] and not archive.has("a")
    names = ["a", "a/b", "anchors/local/-/1", put_content(archive, b"x")]
    for name in names[:3]:
        archive.create(name, b"one")
    assert sorted(archive.walk_keys()) == archive.keys("") == sorted(names)
    assert [archive.has(name) for name in (*names, "b", "a/b/c")] == [True] * 4 + [False] * 2
    assert (
        list(archive.stray_files()) == []
        and archive.repaired_objects() == []
        and archive.delete_partial_writes(before_ms=2**62) == 0
    )


def test_archive_is_a_mapping_that_never_changes(adapter: str, place: str) -> None:
    words = st.sampled_from(["a", "b", "a/b", "a/b.z", "b/a", "a.part", "..a", "é"])
    numbers = iter(range(10**6))

    @settings(max_examples=examples(30))
    @given(st.lists(st.tuples(words, st.binary(max_size=3)), max_size=12))
    def check(writes: list[tuple[str, bytes]]) -> None:
        archive = opened(adapter, f"{place}/{next(numbers)}")
        kept: dict[str, bytes] = {}
        for key, stored in writes:
            if kept.setdefault(key, stored) == stored:
                archive.create(key, stored)
            else:
                with pytest.raises(Damaged):
                    archive.create(key, stored)
        assert archive.keys("") == sorted(kept)
        assert {key: archive.get(key) for key in kept} == kept

    check()


def start(adapter: str, place: str, *what: str) -> subprocess.Popen[str]:
    """A process that writes."""
    command = [sys.executable, "-m", "tests.contracts.archivist", adapter, place, *what]
    keys = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "AZURE_"))}
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **keys}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=pipe, stdout=pipe)


def race(adapter: str, place: str, seeds: list[int]) -> list[str]:
    """What processes say that write to one key at the same moment."""
    with ExitStack() as stack:
        writers = [stack.enter_context(start(adapter, place, "once", "k", str(seed))) for seed in seeds]
        assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["ready\n"] * len(seeds)
        for writer in writers:
            assert writer.stdin
            writer.stdin.write("go\n")
            writer.stdin.flush()
        return [writer.stdout.read().strip() for writer in writers if writer.stdout]


def test_two_processes_write_the_same_bytes(archive: Archive, adapter: str, place: str) -> None:
    assert race(adapter, place, [7, 7]) == ["stored", "stored"]
    assert archive.get("k") == content(7)
    assert archive.keys("") == ["k"]


def test_of_processes_with_other_bytes_one_is_first(archive: Archive, adapter: str, place: str) -> None:
    answers = race(adapter, place, [1, 2, 3])
    assert sorted(answers) == ["refused", "refused", "stored"]
    assert archive.get("k") == content(1 + answers.index("stored"))


def test_threads_write_the_same_bytes(archive: Archive) -> None:
    stored = content(1)
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda _: archive.create("k", stored), range(8)):
            assert archive.get("k") == stored
    assert archive.keys("") == ["k"]


def test_killed_writer_leaves_whole_objects_only(archive: Archive, adapter: str, place: str) -> None:
    said: list[str] = []
    for pause in (0.0, 0.03, 0.1):
        with start(adapter, place, "for-ever") as writer:
            assert writer.stdout
            said.append(writer.stdout.readline())
            time.sleep(pause)
            writer.kill()
            said += writer.stdout.readlines()
        there = archive.keys("")
        assert {line.strip() for line in said if line.endswith("\n")} <= set(there)
        assert [key for key in there if content_key(archive.get(key) or b"") != key] == []
    # Whoever comes after a killed writer is not hindered by what it left.
    assert put_content(archive, content(10**6)) in archive.keys("sha256/")


def test_a_cold_month_is_a_file_that_any_tool_reads(archive: Archive, adapter: str, place: str) -> None:
    content = b"PAR1 what a table says PAR1"
    key = put_cold(archive, "tape/candles_60/2026-10", content)
    assert key == f"cold/tape/candles_60/2026-10/{sha256_hex(content)}.parquet"
    assert put_cold(archive, "tape/candles_60/2026-10", content) == key and archive.get(key) == content
    assert archive.keys("cold/tape/") == [key] == list(archive.walk_keys()) and not list(archive.stray_files())
    if adapter == "folder":
        assert (Path(place) / key).read_bytes() == content, "as it is, under its own name"


def test_a_cold_month_that_was_altered_is_replaced(archive: Archive, adapter: str, place: str) -> None:
    key = put_cold(archive, "runs/a/2026-10", b"PAR1 right")
    if adapter == "folder":
        (Path(place) / key).write_bytes(b"PAR1 wrong")
    else:
        obstore.put(cast("BucketArchive", archive)._store, key, b"PAR1 wrong")
    assert verified_or_damaged(archive, key) is None
    archive = opened(adapter, place)
    assert put_cold(archive, "runs/a/2026-10", b"PAR1 right") == key and archive.get(key) == b"PAR1 right"
    assert len(archive.repaired_objects()) == 1 and archive.keys("") == [key]


def verified_or_damaged(archive: Archive, key: str) -> bytes | None:
    """What a reader gets, None when it is told that the object is damaged."""
    try:
        return verified_content(key, archive.get(key))
    except Damaged:
        return None
