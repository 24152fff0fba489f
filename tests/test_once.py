"""What workers share is made by one of them, and none reads what another writes."""

from pathlib import Path

import pytest

from tests.once import made_once


@pytest.fixture
def bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of two workers of one run."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    found = [tmp_path / "popen-gw0", tmp_path / "popen-gw1"]
    for base in found:
        base.mkdir()
    return found


def test_the_second_worker_takes_a_copy_of_what_the_first_made(bases: list[Path]) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "file").write_text("as it was made", "utf-8")

    first = made_once(bases[0], "thing", make)
    (first / "file").write_text("changed", "utf-8")
    second = made_once(bases[1], "thing", make)
    assert len(made) == 1
    assert (second / "file").read_text("utf-8") == "as it was made"


def test_what_failed_halfway_is_made_again(bases: list[Path]) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        made_once(bases[0], "thing", fail)
    assert not (made_once(bases[1], "thing", lambda folder: (folder / "whole").touch()) / "half").exists()
