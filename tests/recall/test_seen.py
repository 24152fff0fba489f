"""The memory of files: kept whole, forgiving when it is lost, and wary of what is young."""

from pathlib import Path

from tapebook.recall import seen
from tapebook.recall.refuse import Refused
from tapebook.recall.seen import Seen, settled
from tapebook.recall.workspace import Found

STAMP = (3, 10**18, 10**18, 7)


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = Seen({"a": (STAMP, "f" * 64)}, 5, (Refused("b", "binary"),), "trouble", 9)
    seen.save(tmp_path, kept)
    assert seen.load(tmp_path) == kept and [file.name for file in tmp_path.iterdir()] == [seen.FILE]


def test_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    assert seen.load(tmp_path) == Seen()
    (tmp_path / seen.FILE).write_text("{half")
    assert seen.load(tmp_path) == Seen()


def test_only_the_same_stamp_has_the_same_hash() -> None:
    kept = Seen({"a": (STAMP, "f")})
    found = Found("", "a", "global", Path("a"), STAMP, "global")
    other = Found("", "a", "global", Path("a"), (3, 10**18, 10**18, 8), "global")
    assert kept.hash_of(found) == "f" and kept.hash_of(other) is None
    assert kept.hash_of(Found("", "b", "global", Path("b"), STAMP, "global")) is None


def test_a_file_that_changed_just_now_is_looked_at_again() -> None:
    assert not settled(STAMP, now_ms=10**12 + 1_999) and settled(STAMP, now_ms=10**12 + 2_001)
