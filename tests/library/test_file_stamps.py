"""The memory of files: kept whole, forgiving when it is lost, and wary of what is young."""

from pathlib import Path

from tapebook.library import workspace
from tapebook.library.workspace import RefusedFile, WorkspaceFile, WorkspaceState, is_stamp_reliable

STAMP = (3, 10**18, 10**18, 7)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = WorkspaceState({"a": (STAMP, "f" * 64)}, 5, (RefusedFile("b", "binary"),), "trouble", 9)
    workspace.save_workspace_state(tmp_path, kept)
    assert workspace.load_workspace_state(tmp_path) == kept and [file.name for file in tmp_path.iterdir()] == [
        workspace.STATE_FILE
    ]


def test_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    assert workspace.load_workspace_state(tmp_path) == WorkspaceState()
    (tmp_path / workspace.STATE_FILE).write_text("{half")
    assert workspace.load_workspace_state(tmp_path) == WorkspaceState()


def test_only_the_same_stamp_has_the_same_hash() -> None:
    kept = WorkspaceState({"a": (STAMP, "f")})
    found = WorkspaceFile("", "a", "global", Path("a"), STAMP, "global")
    other = WorkspaceFile("", "a", "global", Path("a"), (3, 10**18, 10**18, 8), "global")
    assert kept.hash_of(found) == "f" and kept.hash_of(other) is None
    assert kept.hash_of(WorkspaceFile("", "b", "global", Path("b"), STAMP, "global")) is None


def test_a_file_that_changed_just_now_is_looked_at_again() -> None:
    assert not is_stamp_reliable(STAMP, now_ms=10**12 + 1_999) and is_stamp_reliable(STAMP, now_ms=10**12 + 2_001)
