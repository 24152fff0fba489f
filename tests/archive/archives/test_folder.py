"""The archive in a folder: what it leaves on the disk, and what it says when the disk is not as it should be."""

import os
import zlib
from pathlib import Path

import pytest

from tapebook.archive.archives import folder
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


@pytest.mark.parametrize("broken", [b"", b"no zlib", zlib.compress(b"y" * 1_000)[:-4]], ids=["empty", "other", "cut"])
def test_file_that_cannot_be_unpacked_is_damaged(tmp_path: Path, broken: bytes) -> None:
    archive = folder.create(str(tmp_path))
    (tmp_path / "a.z").write_bytes(broken)
    with pytest.raises(Damaged, match=r"a\.z cannot be unpacked .* restore it from a backup"):
        archive.get("a")
    with pytest.raises(Damaged):
        archive.create("a", b"one")
    assert (tmp_path / "a.z").read_bytes() == broken


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
