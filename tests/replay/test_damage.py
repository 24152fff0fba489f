"""`tapebook verify --all` notices every damage of a desk's home that changes what the home says; no command breaks."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.api import app
from tapebook.errors import Damaged
from tapebook.surfaces.cli import main
from tests.replay import damage
from tests.replay.damage import Damage, Verdict

FIGURES = Path(__file__).parent.parent.parent / "docs" / "figures" / "damage.json"
TARGETS = ("book.db", "tape.db", "archive/sha256", "archive/packs", "archive/anchors", "spool", "archive")


class Ruins:
    """A home, an older copy of it, and what it says while it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.home, self._older = damage.make_homes(folder)
        self._whole = damage.content(self.home)

    def damaged(self, done: Damage) -> Path:
        """A copy with one damage."""
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.home, copy)
        done.strike(copy, self._older)
        return copy

    def verdict(self, done: Damage) -> Verdict:
        """Whether a damage is noticed; if not, whether it had to be."""
        copy = self.damaged(done)
        harmless = damage.is_harmless(self._whole, copy)
        try:
            noticed = bool(app.find_damage(copy, archive=True))
        except Damaged:
            noticed = True
        return "noticed" if noticed else "harmless" if harmless else "missed"


@pytest.fixture(scope="module")
def ruins(tmp_path_factory: pytest.TempPathFactory) -> Ruins:
    """The home of all damages."""
    return Ruins(tmp_path_factory.mktemp("ruins"))


def sample(home: Path) -> Iterator[Damage]:
    """Some thirty damages, of every kind and target."""
    yield from damage.flips(1, home, 12)
    for kind in (damage.zeroed_pages, damage.truncations, damage.deletions):
        yield from kind(1, home, 4)
    forged = list(damage.forgeries(home))
    yield from [forged[0], *forged[-4:]]
    yield from damage.rollbacks()


def test_a_whole_home_is_clean_and_a_damaged_one_is_not(ruins: Ruins) -> None:
    assert app.find_damage(ruins.home, archive=True) == []
    told = {done.detail: ruins.verdict(done) for done in sample(ruins.home)}
    assert len(told) > 25
    assert [detail for detail, verdict in told.items() if verdict == "missed"] == []
    assert Counter(told.values())["noticed"] > 20


@pytest.mark.parametrize("words", [["runs"], ["trades", "a"], ["replay", "--all"], ["doctor"], ["context", "a", "BTC"]])
def test_commands_on_a_damaged_home_say_one_line(
    ruins: Ruins, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    (page,) = [each for each in damage.zeroed_pages(5, ruins.home, 1)]
    copy = ruins.damaged(page)
    code = main([*words, "--home", str(copy)])
    err = capfd.readouterr().err
    assert code in (0, 1, 2, 3) and len(err.splitlines()) <= 1, err


@pytest.mark.proof
def test_table_of_damage(ruins: Ruins, capfd: pytest.CaptureFixture[str]) -> None:
    """500 flips, and pages, truncations, deletions, forgeries and rollbacks beside them; the table is kept in docs."""
    told: Counter[tuple[str, str, Verdict]] = Counter()
    missed = []
    for done in damage.every_damage(ruins.home, seed=14, size=500):
        verdict = ruins.verdict(done)
        told[done.kind, done.target, verdict] += 1
        if verdict == "missed":
            missed.append(f"{done.kind} of {done.target}: {done.detail}")
    rows = [
        {"damage": kind, "target": target}
        | {verdict: told[kind, target, verdict] for verdict in ("noticed", "harmless", "missed")}
        for kind, target in dict.fromkeys(key[:2] for key in told)
    ]
    with capfd.disabled():
        print()
        for row in rows:
            print("{damage:12} {target:16} noticed {noticed:4}  harmless {harmless:4}  missed {missed:4}".format(**row))
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode({"damages": rows}), indent=1) + b"\n")
    assert missed == []
    assert sum(told.values()) > 640


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(6))
def test_no_command_breaks_on_a_damaged_home(ruins: Ruins, seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is damaged, a command prints at most one line of error, and its exit code says what to do."""
    with app.open(ruins.home) as book:
        run = book.runs()[0]["run_id"]
    commands = [["runs", "show", run], ["trades", "a"], ["context", "a", "BTC"], ["replay", "--all"], ["doctor"]]
    damages = [*damage.flips(seed, ruins.home, 24), *damage.zeroed_pages(seed, ruins.home, 4)]
    for done in damages:
        for words in commands:
            copy = ruins.damaged(done)
            code = main([*words, "--home", str(copy)])
            err = capfd.readouterr().err
            assert code in (0, 1, 2, 3) and len(err.splitlines()) <= 1, (done.detail, words, err)
