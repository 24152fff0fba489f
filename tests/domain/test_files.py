"""Files of a home: private, whole, and synced in the right order."""

import os
from pathlib import Path

import pytest

from tapebook.domain import files


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced."""
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name))
    return seen


def test_a_file_is_replaced_whole_and_for_its_owner_alone(tmp_path: Path, syncs: list[str]) -> None:
    path = tmp_path / "a" / "b" / "file"
    for content in (b"one", b"two, longer"):
        files.write_whole(path, content, durable=True)
        assert path.read_bytes() == content and os.listdir(path.parent) == ["file"]
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    # Both folders are new at first; then the content, and then the name.
    assert [name for name in syncs[:2]] == [tmp_path.name, "a"] and syncs[-1] == "b"
    assert len(syncs) == 6 and syncs[2].endswith(".part") and syncs[4].endswith(".part")


def test_who_may_lose_it_does_not_wait(tmp_path: Path, syncs: list[str]) -> None:
    files.write_whole(tmp_path / "a" / "file", b"one", durable=False)
    assert syncs == []


def test_what_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_bytes(b"one")
    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(OSError, match="No space left"):
        files.write_whole(path, b"two", durable=True)
    assert path.read_bytes() == b"one" and os.listdir(tmp_path) == ["file"]


def test_all_are_synced_however_many(tmp_path: Path, syncs: list[str]) -> None:
    paths = [tmp_path / f"{number}" for number in range(9)]
    for path in paths:
        path.write_bytes(b"x")
    for many in (0, 1, 9):
        syncs.clear()
        files.sync_all(map(str, paths[:many]))
        assert sorted(syncs) == [path.name for path in paths[:many]]
    with pytest.raises(FileNotFoundError):
        files.sync_all([str(tmp_path / "none"), str(tmp_path / "nothing")])


def test_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "elsewhere").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert files.make_private(tmp_path / "link") and not files.is_open_to_others(tmp_path / "link")
    assert files.is_open_to_others(tmp_path / "elsewhere") and not files.is_open_to_others(tmp_path / "none")
    assert files.make_private(tmp_path / "elsewhere") and not files.is_open_to_others(tmp_path / "elsewhere")
