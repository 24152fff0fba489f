"""Reading an archive to its end: what is missing, torn, altered or misplaced is named, with the row that names it."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tapebook.archive import ArchiveFinding, ArchiveReference, SpooledArchive, put_content
from tapebook.archive.archives.folder import FolderArchive
from tapebook.clock import SystemClock
from tapebook.domain.canonical import content_key


@pytest.fixture
def archive(tmp_path: Path) -> SpooledArchive:
    """Ten objects of content and an anchor."""
    made = SpooledArchive(FolderArchive(tmp_path / "archive"), tmp_path / "spool", now=SystemClock().now)
    for number in range(10):
        put_content(made, b"object %d" % number)
    made.create("anchors/local/-/000000000001", b"hash")
    return made


def key(number: int) -> str:
    """The key of one of them."""
    return content_key(b"object %d" % number)


def references(*numbers: int) -> Iterator[ArchiveReference]:
    """Rows that name them."""
    return (ArchiveReference(key(number), f"packet of run {number}") for number in numbers)


def found(archive: SpooledArchive, *numbers: int) -> list[ArchiveFinding]:
    """What is wrong, in order."""
    return list(archive.check(references(*numbers)))


def test_whole_archive_has_no_findings(archive: SpooledArchive) -> None:
    seen: list[int] = []
    assert list(archive.check(references(*range(10), 3, 3), progress=seen.append)) == []
    assert seen == list(range(1, 12))


def test_missing_object_is_named_once_with_its_row(archive: SpooledArchive, tmp_path: Path) -> None:
    (tmp_path / "archive" / f"{key(4)}.z").unlink()
    (finding,) = found(archive, 1, 4, 4)
    assert (finding.key, finding.kind, finding.by) == (key(4), "missing", "packet of run 4")
    assert "has lost" in finding.problem and "restore it from a backup" in finding.problem
    # What no row names cannot be missed.
    assert found(archive, 1) == []


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _forge(path: Path) -> None:
    path.write_bytes(zlib.compress(b"forged"))


@pytest.mark.parametrize(("spoil", "kind"), [(_cut, "torn"), (_empty, "torn"), (_forge, "altered")])
@pytest.mark.parametrize("named", [True, False])
def test_damaged_object_is_named(
    archive: SpooledArchive, tmp_path: Path, spoil: Callable[[Path], None], kind: str, named: bool
) -> None:
    spoil(tmp_path / "archive" / f"{key(7)}.z")
    (finding,) = found(archive, *([7, 7] if named else []))
    assert (finding.key, finding.kind, finding.by) == (key(7), kind, "packet of run 7" if named else "")
    assert key(7) in finding.problem and "restore it from a backup" in finding.problem


def test_misplaced_files_are_named(archive: SpooledArchive, tmp_path: Path) -> None:
    right = tmp_path / "archive" / f"{key(2)}.z"
    other = tmp_path / "archive" / "sha256" / ("00" if "/00/" not in key(2) else "01") / right.name
    other.parent.mkdir(exist_ok=True)
    right.rename(other)
    (tmp_path / "archive" / "notes.txt").write_text("mine")
    kinds = {(each.key, each.kind) for each in found(archive, 2)}
    misplaced = other.relative_to(tmp_path / "archive").as_posix().removesuffix(".z")
    assert kinds == {(misplaced, "misplaced"), ("notes.txt", "misplaced"), (key(2), "missing")}


def test_what_waits_in_the_spool_is_not_missing(archive: SpooledArchive, tmp_path: Path) -> None:
    waiting = archive.store_content_or_raise(b"meanwhile")
    assert list(archive.check([ArchiveReference(waiting, "reply of run 1")])) == []
    (segment,) = (tmp_path / "spool").glob("*.seg")
    _cut(segment)
    (finding,) = archive.check([ArchiveReference(waiting, "reply of run 1")])
    assert (finding.key, finding.by) == (waiting, "reply of run 1")
