"""Every command block of the documents runs as it stands there, on a home that was just made.

The README's blocks of plain commands and the first steps are in test_docs.py, the plug-in that is installed in
test_plug.py. Servers get a few seconds and ports of their own; whatever asks an exchange asks the invented market.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tapebook
from tapebook.domain.agent import Note
from tapebook.lessons.notes import draft_note_written, hash_lessons_text
from tapebook.surfaces import cli
from tests.surfaces.cli.test_desk import free_port, start
from tests.test_docs import HOME, PAGES, README, blocks
from tests.tick.test_skills import LESSON

# Pages whose blocks run elsewhere.
ELSEWHERE = {"README.md", "first-steps.md", "add-a-plugin.md"}
SERVERS = ("ingest", "up", "web", "api")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_hour: Path) -> Path:
    """The home of commands that name none: agents that have traded, one of them with a note."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_hour, tmp_path / HOME)
    with tapebook.open(tmp_path / HOME) as tb:
        tb.add_agent("eth-5m", {"watch": ["ETH"], "engine": "trend"})
        rooms, name = tb._rooms, "btc-5m.paper"
        seq, now = rooms.book.head(name), rooms.clock.now()
        note = Note("n1", "btc-5m", 1, now, now, now, 20, LESSON, hash_lessons_text(LESSON), "statistics")
        rooms.book.append(name, [draft_note_written(note)], expected_seq=seq)
    return tmp_path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[str]:
    """The address of the invented market."""
    port = free_port()
    server = start("world", "--port", str(port))
    assert server.stdout and "serving" in server.stdout.readline()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.communicate()


def lines_of(text: str, language: str) -> list[str]:
    return [line for block in blocks(text, language) for line in block.splitlines() if line.startswith("tapebook ")]


def test_no_page_with_commands_is_left_out() -> None:
    assert {page.name for page in PAGES if lines_of(page.read_text("utf-8"), "(?:console|sh)")} - ELSEWHERE == {
        *("agents.md", "experience.md", "lessons.md")
    }


@pytest.mark.parametrize("page", [page for page in PAGES if page.name in ("agents.md", "experience.md", "lessons.md")])
def test_the_commands_of_a_page_run(page: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text, kept = page.read_text("utf-8"), ""
    (home / "agent.toml").write_text(next(iter(blocks(text, "toml")), ""))
    for line in lines_of(text, "console"):
        # The id that a page shows is another one each time: the last one that was printed.
        words = [kept if re.fullmatch("[0-9a-f]{8}", word) else word for word in shlex.split(line)[1:]]
        code = cli.main(words)
        out, err = capfd.readouterr()
        kept = next(iter(re.findall(r"\b[0-9a-f]{8}\b", out)), kept)
        assert (code, bool(out.strip())) == (0, True), f"{line}: {err}"


def test_the_servers_of_the_readme_run(home: Path, world: str, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "runbooks").mkdir()
    (home / "runbooks" / "feed.md").write_text("# Feed\n\nWhen the feed disconnects, wait for the backfill.\n")
    lines = lines_of(README, "sh")
    assert cli.main(["init", "--home", "study"]) == 0
    assert {line.split()[1] for line in lines} >= {*SERVERS, "world", "mcp", "download", "recall", "backup"}
    # The market runs already, begun with the same words.
    for line in lines:
        words = shlex.split(line.replace("http://127.0.0.1:3001", world), comments=True)[1:]
        if words[0] in SERVERS:
            port = ["--port", str(free_port())] if words[0] in ("web", "api") else []
            assert served(*words, *port, "--seconds", "2"), line
        elif words[0] == "mcp":
            assert served(*words), line
        elif words[0] not in ("world", "backtests"):
            # Comparing needs two backtests: test_docs.py makes them, tests/surfaces/cli/test_compare.py compares.
            # Into a home of its own: a demo's clock stands still, and the desk has the same bars already.
            asked = ["--url", world, "--days", "0.5", "--home", "study"] if words[0] == "download" else []
            assert cli.main([*words, *asked]) == 0, f"{line}: {capfd.readouterr().err}"


def served(*words: str) -> bool:
    """Whether a process ends well by itself, with nobody who asks it anything."""
    command = [sys.executable, "-m", "tapebook", *words]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, f"{words}: {ran.stderr}"
    return True
