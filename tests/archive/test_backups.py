"""Which backups are kept, and that files come back as they were, pieces that did not change being stored once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.backups import BackupStore, Manifest, backup_id, kept_backups
from tapebook.domain.units import DAY
from tapebook.errors import BadInput, Damaged

MOMENTS = st.lists(st.integers(0, 60 * DAY), unique=True, max_size=60)


@given(MOMENTS, st.integers(1, 10), st.integers(1, 10))
def test_the_newest_are_kept_and_the_last_of_each_day(moments: list[int], newest: int, days: int) -> None:
    kept = kept_backups(moments, newest=newest, days=days)
    assert set(sorted(moments)[-newest:]) <= kept <= set(moments)
    recent = sorted({moment // DAY for moment in moments})[-days:]
    assert {max(each for each in moments if each // DAY == day) for day in recent} <= kept
    assert len(kept) <= newest + days
    # Deciding again over what is left drops nothing more.
    assert kept_backups(kept, newest=newest, days=days) == kept


@given(st.lists(st.integers(0, 1_000), unique=True))
def test_names_are_in_the_order_of_time(moments: list[int]) -> None:
    assert sorted(map(backup_id, moments)) == [backup_id(each) for each in sorted(moments)]


def manifest(name: str, store: BackupStore, source: Path, *, at: int) -> Manifest:
    """A backup of one file."""
    file = store.store_file(source, name, progress=lambda size: None)
    return Manifest(backup_id(at), at, "0", "", "local", (), 0, 0, (file,))


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 3_500_000])
def test_files_come_back_as_they_were(tmp_path: Path, size: int) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    store = BackupStore(FolderArchive(tmp_path / "archive"), "here")
    store.add(manifest("a.db", store, source, at=1))
    store.fetch_file(store.manifest().files[0], back, progress=lambda size: None)
    assert back.read_bytes() == source.read_bytes() and back.stat().st_mode & 0o077 == 0


def test_what_did_not_change_is_stored_once_and_deleted_when_no_backup_needs_it(tmp_path: Path) -> None:
    source, archive = tmp_path / "source", FolderArchive(tmp_path / "archive")
    store = BackupStore(archive, "here")
    pieces = [bytes([number]) * (1 << 20) for number in range(4)]
    source.write_bytes(b"".join(pieces))
    store.add(manifest("a.db", store, source, at=DAY))
    source.write_bytes(b"".join([*pieces[:3], b"other"]))
    store.add(manifest("a.db", store, source, at=DAY + 1))
    assert len(archive.keys("backups/chunks/")) == 5
    archive.create("anchors/1", b"x")
    assert store.drop(newest=1, days=1) == 1
    assert len(archive.keys("backups/chunks/")) == 4 and store.ids() == [backup_id(DAY + 1)]
    assert archive.has("anchors/1")
    store.fetch_file(store.manifest().files[0], tmp_path / "back", progress=lambda size: None)
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_a_torn_piece_and_a_manifest_of_another_version_are_named(tmp_path: Path) -> None:
    source, archive = tmp_path / "source", FolderArchive(tmp_path / "archive")
    source.write_bytes(b"content")
    store = BackupStore(archive, "here")
    made = manifest("a.db", store, source, at=1)
    store.add(made)
    archive.path(made.files[0].chunks[0]).write_bytes(b"torn")
    with pytest.raises(Damaged, match="cannot be unpacked"):
        store.fetch_file(made.files[0], tmp_path / "back", progress=lambda size: None)
    archive.create("backups/manifests/9", b'{"id": 1}')
    with pytest.raises(Damaged, match="no manifest"):
        store.manifest()
    content = archive.get(f"backups/manifests/{made.id}") or b""
    archive.create("backups/manifests/99", content.replace(b'"format":1', b'"format":2'))
    with pytest.raises(BadInput, match="newer tapebook"):
        store.manifest()
