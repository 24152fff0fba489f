"""A power cut at any moment of a desk leaves a home in which nothing dangles, and every decision replays."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tapebook.home import make_home
from tests.matrix import covering
from tests.replay.power import CUTS, Act, Cut, Disk, Recorder, compiler, survivors
from tests.replay.short_desk import run
from tests.replay.storm import ROOT, environment

MINUTES = 40

needs_compiler = pytest.mark.skipif(compiler() is None, reason="a power cut needs a C compiler (cc) to be recorded")


Recorded = tuple[Path, Path, list[Act]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A home before a short desk has run on it, where it is, and everything the desk did to its files."""
    return record(tmp_path_factory.mktemp("power"))


def record(folder: Path, *words: str) -> Recorded:
    """Runs a short desk and notes what it does."""
    home, before = folder / "home", folder / "before"
    make_home(home)
    shutil.copytree(home, before)
    recorder = Recorder(home, folder)
    command = [sys.executable, "-m", "tests.replay.short_desk", str(home), str(MINUTES), *words]
    subprocess.run(command, cwd=ROOT, env=environment(**recorder.environment()), check=True, timeout=120)
    return before, home, recorder.acts()


def cut_home(recorded: Recorded, share: float, cut: Cut) -> Path:
    """The home as a cut leaves it after a share of everything that was done."""
    before, home, acts = recorded
    shutil.rmtree(home)
    shutil.copytree(before, home)
    disk = Disk(home)
    disk.play(acts[: int(len(acts) * share)])
    disk.after_cut(cut, seed=int(share * 1_000))
    return home


@needs_compiler
@pytest.mark.parametrize(("share", "cut"), covering([0.65, 0.83, 1.0], CUTS))
def test_cut_leaves_nothing_dangling(recorded: Recorded, share: float, cut: Cut) -> None:
    seen = survivors(cut_home(recorded, share, "kept"))
    assert seen.runs > 5 and seen.references > 10 and seen.wrong == []
    left = survivors(cut_home(recorded, share, cut))
    assert left.wrong == []
    assert seen.runs - left.runs <= 1, "a decision was committed and is lost"
    run(recorded[1], minutes=MINUTES + 2)
    assert survivors(recorded[1]).wrong == []


@needs_compiler
@pytest.mark.parametrize(("careless_of", "says"), [("archive", "lost"), ("tape", "inputs differ")])
def test_without_the_waits_a_cut_does_harm(tmp_path: Path, careless_of: str, says: str) -> None:
    """That the cuts are real: who does not wait for the disk loses what the book names."""
    left = survivors(cut_home(record(tmp_path, careless_of), 0.83, "lost"))
    assert any(says in each for each in left.wrong), left


@needs_compiler
def test_everything_a_desk_writes_is_recorded(recorded: Recorded) -> None:
    home, acts = cut_home(recorded, 1.0, "kept"), Counter(act.op for act in recorded[2])
    assert {"c", "w", "F", "D", "m", "u", "l"} <= acts.keys()
    assert survivors(home).runs == MINUTES // 2 and (home / "archive" / "anchors").is_dir()
