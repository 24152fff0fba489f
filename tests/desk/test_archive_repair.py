"""What the archive has lost is found by doctor, and comes back from wherever its bytes still are, or is named."""

import shutil
from pathlib import Path

import pytest

import tapebook
from tapebook.archive.archives.folder import FolderArchive
from tapebook.desk.health import Check
from tapebook.settings.config import FILE, with_setting
from tapebook.surfaces.cli import main


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, demo_minutes: Path) -> Path:
    """A home whose texts are in packs, backed up beside it; only to be copied."""
    folder = shutil.copytree(demo_minutes, tmp_path_factory.mktemp("repair") / "home")
    (folder / FILE).write_text(with_setting((folder / FILE).read_text(), ("backup", "place"), "../backups"))
    with tapebook.open(folder) as book:
        book.doctor(fix=True)
        book.backup()
    return folder


@pytest.fixture
def home(packed: Path, tmp_path: Path) -> Path:
    """Such a home."""
    shutil.copytree(packed.parent / "backups", tmp_path / "backups")
    return shutil.copytree(packed, tmp_path / "home")


def check_of(checks: list[Check], name: str) -> Check:
    """One check."""
    return next(check for check in checks if check.name == name)


def pack_of(home: Path) -> Path:
    """The file of the only pack."""
    archive = FolderArchive(home / "archive")
    (key,) = archive.keys("packs/")
    return archive.path(key)


def test_a_whole_archive_is_said_to_be(home: Path) -> None:
    with tapebook.open(home) as book:
        checks = book.doctor()
        assert check_of(checks, "objects").ok and "no row names" not in check_of(checks, "objects").detail
        assert check_of(checks, "backups").ok
        told: list[str] = []
        book.doctor(fix=True, archive=True, notice=told.append)
        assert told == []


@pytest.mark.parametrize("damage", ["gone", "torn", "altered"])
def test_lost_objects_come_back_from_the_backups(home: Path, damage: str, capfd: pytest.CaptureFixture[str]) -> None:
    pack = pack_of(home)
    whole = pack.read_bytes()
    pack.unlink()
    if damage == "torn":
        pack.write_bytes(whole[: len(whole) // 2])
    elif damage == "altered":
        FolderArchive(home / "archive").create("packs/other", b"other")
        FolderArchive(home / "archive").path("packs/other").rename(pack)
    with tapebook.open(home) as book:
        if damage == "gone":
            found = check_of(book.doctor(), "objects")
            assert not found.ok and "missing" in found.detail and "of run" in found.detail
        else:
            assert book.verify(archive=True) != []
    assert main(["doctor", "--fix", "--archive", "--home", str(home)]) == 0
    assert "brought back" in capfd.readouterr().err
    with tapebook.open(home) as book:
        assert book.verify(archive=True) == [] and check_of(book.doctor(), "objects").ok
        assert book.replay().different == []


def test_without_backups_packets_are_made_again_and_the_rest_is_named(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tmp_path / "backups")
    pack_of(home).unlink()
    assert main(["doctor", "--fix", "--home", str(home)]) == 3
    said = capfd.readouterr().err
    assert "brought back: packet of run" in said and "lost: reply of run" in said
    with tapebook.open(home) as book:
        left = book.verify(archive=True)
        assert left and not any("packet of run" in found.where for found in left)


def test_what_no_row_names_is_counted_and_kept(home: Path) -> None:
    with tapebook.open(home) as book:
        key = book._home.writer.archive.store_content(b"of a writer that was killed").key
        found = check_of(book.doctor(fix=True), "objects")
        assert found.ok and "1 object that no row names" in found.detail
        assert key and book._home.writer.archive.get(key)
