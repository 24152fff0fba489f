"""Commands on documents: readable answers, JSON when asked, and one line for whatever is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.library.sync import sync_documents
from tests.desk.desks import desk, reply
from tests.library.libraries import ANN, with_note

Run = Callable[..., tuple[int, str, str]]
MANUAL = "# Manual\n\nNever average down.\n"


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with its first agents and a runbook for everybody."""
    app.init(tmp_path / "home")
    folder = tmp_path / "home" / "workspace" / "global"
    folder.mkdir(parents=True)
    (folder / "feed.md").write_text("# Feed\n\nWhen the feed disconnects, halt the desk first.\n")
    return str(tmp_path / "home")


def test_sync_search_and_status(run: Run, home: str) -> None:
    assert run("recall", "search", "feed", "--home", home) == (
        0,
        "there are no documents yet: write some to the workspace and run `tapebook recall sync`\n",
        "",
    )
    assert run("recall", "sync", "--home", home) == (0, "1 file changed, 1 chunk indexed\n", "")
    assert run("recall", "sync", "--home", home)[1] == "1 unchanged\n"
    code, out, err = run("recall", "search", "what do I do when the feed disconnects", "--home", home)
    first, second = out.splitlines()
    assert (code, err) == (0, "") and first.startswith("global/feed.md:1-3  0.") and first.endswith("  hybrid")
    assert second.startswith("    ") and "halt the desk first" in second
    assert "words 0." in run("recall", "search", "feed", "--explain", "--home", home)[1]
    said = run("recall", "status", "--home", home)[1]
    assert "documents  1\n" in said and "global 1" in said and "chunks     1\n" in said and "at 4 of 4\n" in said
    assert run("recall", "search", "zebra", "--home", home)[1].count("\n") == 1


def test_search_as_json_has_the_names_of_the_contract(run: Run, home: str) -> None:
    run("recall", "sync", "--home", home)
    words = ("recall", "search", "feed", "--agent", "btc-5m", "--limit", "1")
    found = json.loads(run(*words, "--home", home, "--json")[1])
    (cited,) = found["citations"]
    assert {key: cited[key] for key in ("path", "startLine", "endLine", "source")} == {
        **{"path": "global/feed.md", "startLine": 1, "endLine": 3, "source": "hybrid"}
    }
    assert 0 < cited["score"] <= 1 and len(cited["contentSha256"]) == 64 and found["why"] == ""
    past = run("recall", "search", "feed", "--as-of", "2020-01-01", "--home", home, "--json")[1]
    assert json.loads(past)["why"] == "there were no documents by then"
    assert json.loads(run("recall", "status", "--home", home, "--json")[1])["kinds"] == {"global": 1}


def test_folders_refusals_and_reindex(run: Run, home: str, tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    (books / "ops.md").write_text("restart the worker")
    (books / "image.png").write_bytes(b"\0\1")
    code, out, _ = run("recall", "add", str(books), "--home", home)
    assert code == 0
    assert out.splitlines() == ["2 files changed, 2 chunks indexed", "refused books/image.png: it is a binary file"]
    assert "books/image.png: it is a binary file" in run("recall", "status", "--home", home)[1]
    assert run("recall", "reindex", "--home", home)[1] == "2 versions indexed, 2 chunks written\n"
    assert json.loads(run("recall", "reindex", "--home", home, "--json")[1])["versions"] == 2
    assert run("recall", "search", "worker", "--home", home)[1].startswith("books/ops.md:1-1")


def test_a_folder_is_removed_and_what_was_known_of_it_stays(run: Run, home: str, tmp_path: Path) -> None:
    for name in ("books", "plans"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ops.md").write_text(f"restart the worker of {name}")
        run("recall", "add", str(tmp_path / name), "--home", home)
    with app.open(home) as book:
        before = book.horizons.now()
    assert "books" in run("recall", "status", "--home", home)[1]
    code, out, err = run("recall", "remove", "books", "--home", home)
    assert (code, out.splitlines()[0]) == (0, "books is read no more; what it said stays known as of before"), err
    assert out.splitlines()[1].startswith("1 removed, ")
    assert "books/ops.md" not in run("recall", "search", "restart worker", "--home", home)[1]
    assert "plans/ops.md" in run("recall", "search", "restart worker", "--home", home)[1]
    assert "books/ops.md" in run("recall", "search", "restart worker", "--as-of", str(before), "--home", home)[1]
    # By its place as well, also when the folder itself is gone.
    (tmp_path / "plans" / "ops.md").unlink()
    (tmp_path / "plans").rmdir()
    assert run("recall", "remove", str(tmp_path / "plans"), "--home", home)[0] == 0
    assert run("recall", "remove", "plans", "--home", home) == (
        *(2, ""),
        "error: no folder 'plans' was added; folders: none\n",
    )
    # The name is free again.
    assert run("recall", "add", str(tmp_path / "books"), "--home", home)[0] == 0
    assert "books/ops.md" in run("recall", "search", "restart worker", "--home", home)[1]
    assert run("verify", "--home", home)[0] == 0


def test_append_and_what_was_written(run: Run, home: str) -> None:
    code, out, err = run("recall", "append", "note", "btc-5m", "thin book at the open", "--home", home)
    assert (code, err) == (0, "") and out.endswith(" is in agents/btc-5m/memory/notes.md\n")
    assert run("recall", "search", "thin book", "--home", home)[1].startswith("agents/btc-5m/memory/notes.md:")
    assert run("recall", "search", "thin book", "--agent", "demo-ensemble", "--home", home)[1].count("\n") == 1
    (row,) = json.loads(run("recall", "writes", "--home", home, "--json")[1])
    assert (row["kind"], row["agent"], row["written_by"], row["run_id"]) == ("note", "btc-5m", "owner", "")
    assert "agents/btc-5m/memory/" in run("recall", "writes", "--agent", "btc-5m", "--home", home)[1]
    assert run("recall", "writes", "--agent", "demo-ensemble", "--home", home)[1] == "nothing was written yet\n"


def test_a_manual_is_proposed_shown_and_approved(run: Run, home: str, tmp_path: Path) -> None:
    file = tmp_path / "manual.md"
    file.write_text(MANUAL)
    code, out, _ = run("recall", "propose", "btc-5m", "--file", str(file), "--home", home)
    first, *diff, last = out.splitlines()
    name = first.split()[1]
    assert code == 0 and first == f"proposal {name} for btc-5m, by owner: open"
    assert diff[-3:] == ["+# Manual", "+", "+Never average down."] and f"approve {name}" in last
    assert name in run("recall", "proposals", "--home", home)[1]
    assert json.loads(run("recall", "proposal", name, "--home", home, "--json")[1])["diff"] == diff
    approved = run("recall", "approve", name, "--home", home)[1]
    assert approved.startswith("--- agents/btc-5m/TRADING_MANUAL.md (now)\n") and "\n+Never average down.\n" in approved
    assert approved.endswith("\nbtc-5m has the proposed manual as version 2\n")
    shown = json.loads(run("agents", "show", "btc-5m", "--home", home, "--json")[1])
    assert shown["manual"] == MANUAL.strip()
    code, _, err = run("recall", "reject", name, "--home", home)
    assert code == 2 and "approved already" in err and err.count("\n") == 1


def test_a_rejected_proposal(run: Run, home: str, tmp_path: Path) -> None:
    (tmp_path / "m.md").write_text("short")
    name = json.loads(run("recall", "propose", "btc-5m", "--file", str(tmp_path / "m.md"), "--home", home, "--json")[1])
    said = run("recall", "reject", name["proposal"]["proposal_id"], "--home", home)[1]
    assert said.endswith("was turned down; the manual of btc-5m stays\n")


@pytest.mark.parametrize(
    "words",
    [
        ("search", " "),
        ("search", "feed", "--agent", "nobody"),
        ("append", "rule", "btc-5m", "x"),
        ("append", "note", "nobody", "x"),
        ("append", "note", "btc-5m", "x", "--run", "nosuch"),
        ("propose", "btc-5m", "--file", "nosuch.md"),
        ("approve", "nosuch"),
        ("proposal", "nosuch"),
        ("add", "nosuchfolder"),
    ],
)
def test_what_is_wrong_is_one_line(run: Run, home: str, words: tuple[str, ...]) -> None:
    code, out, err = run("recall", *words, "--home", home)
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1


def test_watch_syncs_and_says_what_changed(run: Run, home: str) -> None:
    assert run("recall", "watch", "--seconds", "0.2", "--home", home) == (0, "1 file changed, 1 chunk indexed\n", "")


def test_a_run_is_shown_with_its_citations(run: Run, tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(ANN)
        notes = tmp_path / "home" / "workspace" / "agents" / "ann" / "memory"
        notes.mkdir(parents=True)
        (notes / "rules.md").write_text("Never chase a breakout of BTC.\n")
        sync_documents(floor.rooms)
        floor.later(60_000, BTC=100)
        made = floor.say(agent, with_note(reply("hold", cites=["c1"]), "noted"))
    code, out, _ = run("runs", "show", made.run_id, "--home", str(tmp_path / "home"))
    assert code == 0
    assert "citations  [c1, cited] agents/ann/memory/rules.md:1-1 0." in out and "Never chase a breakout of BTC." in out
