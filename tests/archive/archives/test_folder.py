"""The archive in a folder: what it leaves on the disk, and what it says when the disk is not as it should be."""

import os
import zlib
from pathlib import Path

import pytest

from tapebook.archive.archives import folder
from tapebook.domain.canonical import content_key
from tapebook.errors import Damaged, StoreFailed


def files(root: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_one_compressed_file_per_object(tmp_path: Path) -> None:
    archive = folder.create(str(tmp_path))
    archive.create("a/b", b"x" * 10_000)
    assert files(tmp_path) == ["a/b.z"]
    assert zlib.decompress((tmp_path / "a" / "b.z").read_bytes()) == b"x" * 10_000
    assert (tmp_path / "a" / "b.z").stat().st_size < 1_000


def test_reading_makes_no_folder(tmp_path: Path) -> None:
    archive = folder.create(str(tmp_path / "none"))
    assert (archive.get("a"), archive.keys("")) == (None, [])
    assert not (tmp_path / "none").exists()


def test_what_a_killed_writer_left_is_no_object(tmp_path: Path) -> None:
    archive = folder.create(str(tmp_path))
    archive.create("a", b"one")
    (tmp_path / "b.z.4711.part").write_bytes(b"half")
    assert archive.keys("") == ["a"]
    assert archive.get("b") is None


BROKEN = [b"", b"no zlib", zlib.compress(b"y" * 1_000)[:-4], zlib.compress(b"one") + b"more"]
NAMES = ["empty", "other", "cut", "longer"]


@pytest.mark.parametrize("broken", BROKEN, ids=NAMES)
def test_file_that_cannot_be_unpacked_is_damaged(tmp_path: Path, broken: bytes) -> None:
    archive = folder.create(str(tmp_path))
    (tmp_path / "a.z").write_bytes(broken)
    with pytest.raises(Damaged, match=r"a\.z cannot be unpacked .* restore it from a backup"):
        archive.get("a")


@pytest.mark.parametrize("key", ["anchors/local/-/1", content_key(b"one")], ids=["name", "content"])
@pytest.mark.parametrize("broken", BROKEN, ids=NAMES)
def test_torn_object_is_healed_by_whoever_has_its_bytes(tmp_path: Path, key: str, broken: bytes) -> None:
    archive = folder.create(str(tmp_path))
    archive.path(key).parent.mkdir(parents=True)
    archive.path(key).write_bytes(broken)
    archive.create(key, b"one")
    assert folder.create(str(tmp_path)).get(key) == b"one" and archive.keys("") == [key]
    assert archive.repaired_objects() == [key.replace("/", "_")]
    assert (tmp_path / "healed" / f"{key.replace('/', '_')}.damaged").read_bytes() == broken


def test_altered_content_is_healed_and_an_altered_name_is_refused(tmp_path: Path) -> None:
    archive, key = folder.create(str(tmp_path)), content_key(b"one")
    archive.create(key, b"one")
    archive.path(key).write_bytes(zlib.compress(b"forged"))
    folder.create(str(tmp_path)).create(key, b"one")
    assert archive.get(key) == b"one" and len(archive.repaired_objects()) == 1
    archive.create("anchors/1", b"one")
    archive.path("anchors/1").write_bytes(zlib.compress(b"forged"))
    with pytest.raises(Damaged, match="other bytes under anchors/1"):
        folder.create(str(tmp_path)).create("anchors/1", b"one")
    # Bytes that are not what the key says heal nothing.
    archive.path(key).write_bytes(b"")
    with pytest.raises(Damaged, match="other bytes"):
        folder.create(str(tmp_path)).create(key, b"two")


class Syncs:
    """What is synced, in order, with the names that could be read in the archive by then."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, bool]] = []
        self._root = root
        sync = os.fsync

        def noted(handle: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            place = path.relative_to(root.parent).as_posix() if path.is_relative_to(root.parent) else str(path)
            self.seen.append(("file" if path.is_file() else place, bool(list(root.rglob("*.z")))))
            sync(handle)

        monkeypatch.setattr(os, "fsync", noted)


def test_content_is_synced_before_its_name_and_its_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = folder.create(str(tmp_path / "archive"), durable=True)
    syncs = Syncs(tmp_path / "archive", monkeypatch)
    archive.create("sha256/ab/1", b"one")
    first_linked = next(number for number, (_, linked) in enumerate(syncs.seen) if linked)
    assert [place for place, _ in syncs.seen[:first_linked]].count("file") == 1
    assert {place for place, _ in syncs.seen[first_linked:]} >= {"archive/sha256/ab", "archive/sha256", "archive", "."}
    syncs.seen.clear()
    archive.create("sha256/ab/2", b"two")
    assert [place for place, _ in syncs.seen] == ["file", "archive/sha256/ab"], "folders that are known cost nothing"


def test_objects_stored_together_share_their_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = folder.create(str(tmp_path / "archive"), durable=True)
    archive.create("a/0", b"one")
    syncs = Syncs(tmp_path / "archive", monkeypatch)
    archive.create_all({f"a/{number}": b"%d" % number for number in range(1, 10)})
    assert sorted(place for place, _ in syncs.seen) == ["archive/a", *["file"] * 9]
    assert archive.keys("") == [f"a/{number}" for number in range(10)]
    assert [path for path in tmp_path.rglob("*.part")] == []


def test_object_of_a_careless_writer_is_synced_by_a_careful_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(tmp_path / "archive", monkeypatch)
    folder.create(str(tmp_path / "archive"), durable=False).create("a/b", b"one")
    assert syncs.seen == []
    folder.create(str(tmp_path / "archive"), durable=True).create("a/b", b"one")
    assert syncs.seen[0][0] == "file" and {place for place, _ in syncs.seen[1:]} == {"archive/a", "archive", "."}


def test_what_killed_writers_left_is_deleted_when_it_is_old(tmp_path: Path) -> None:
    archive = folder.create(str(tmp_path))
    archive.create("a/b", b"one")
    new, old = tmp_path / ".parts" / "4711.1.part", tmp_path / "a" / "c.z.4711.1.part"
    for path in (new, old):
        path.write_bytes(b"half")
    os.utime(old, (1_000, 1_000))
    assert (
        archive.delete_partial_writes(before_ms=2_000_000) == 0
        and archive.delete_partial_writes(before_ms=2_000_000, everywhere=True) == 1
    )
    assert files(tmp_path) == [".parts/4711.1.part", "a/b.z"]
    os.utime(new, (1_000, 1_000))
    assert archive.delete_partial_writes(before_ms=2_000_000) == 1 and files(tmp_path) == ["a/b.z"]


def test_objects_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder.create(str(tmp_path / "archive")).create("a/b", b"one")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "archive", *tmp_path.rglob("*")]}
    assert modes == {"archive": 0o700, "a": 0o700, "b.z": 0o600, ".parts": 0o700}


def test_disk_that_refuses_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    archive = folder.create(str(tmp_path))
    for name in ("link", "replace", "rename"):
        monkeypatch.setattr(os, name, no_room)
    with pytest.raises(StoreFailed, match="No space left on device; make room or allow writing, then start again"):
        archive.create("a/b", b"one")
    assert files(tmp_path) == []
    assert archive.get("a/b") is None


def test_file_where_a_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(StoreFailed, match=r"cannot write .*a/b\.z: "):
        folder.create(str(tmp_path)).create("a/b", b"one")


def test_what_a_killed_writer_left_is_never_written_to_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed behind the link, it leaves a second name of the object; the next process may have its number."""
    real = os.unlink
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):

        def killed(path: str) -> None:
            raise KeyboardInterrupt

        patch.setattr(os, "unlink", killed)
        folder.FolderArchive(tmp_path).create("a/first", b"first")
    assert os.unlink is real and len(list((tmp_path / ".parts").iterdir())) == 1
    archive = folder.FolderArchive(tmp_path)
    archive.create("a/second", b"second")
    assert (archive.get("a/first"), archive.get("a/second")) == (b"first", b"second")
