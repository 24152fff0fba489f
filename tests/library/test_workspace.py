"""Which files of a workspace are documents, of what kind, whose, and why the others are not."""

import os
import threading
from pathlib import Path

import pytest

from tapebook.library import workspace
from tapebook.library.workspace import (
    MAX_DOCUMENT_BYTES,
    RefusedFile,
    WorkspaceArea,
    WorkspaceFile,
    read_document,
    walk_area,
    workspace_areas,
)


def write(root: Path, **texts: str) -> None:
    """Files below a folder; `__` in a name is a slash, and `_md` its ending."""
    for name, text in texts.items():
        file = root / (name.replace("__", "/").removesuffix("_md") + ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def scan(
    root: Path, *, agents: tuple[str, ...] = ("a", "b"), folders: dict[str, str] | None = None
) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Documents by path with scope and kind, and refusals by path."""
    there, lost = workspace_areas(root, agents=agents, folders=folders or {})
    found = [each for area in there for each in walk_area(area)]
    documents = {each.path: (each.scope, each.kind) for each in found if isinstance(each, WorkspaceFile)}
    refused = {each.path: each.why for each in [*found, *lost] if isinstance(each, RefusedFile)}
    return documents, refused


def test_every_place_has_its_kind_and_its_reader(tmp_path: Path) -> None:
    write(
        tmp_path / "agents" / "a",
        **{"SOUL_md": "s", "TRADING_MANUAL_md": "m", "journal__2026-01-05_md": "j", "journal__old__x_md": "j"},
        **{"memory__learnings_md": "l", "memory__learnings-2_md": "l", "memory__notes_md": "n"},
        **{"memory__other_md": "o", "strategies__trend_md": "t"},
    )
    write(tmp_path, agents__b__SOUL_md="b", global__runbook_md="g", global__deep__er_md="g")
    documents, refused = scan(tmp_path)
    assert refused == {}
    assert documents == {
        "agents/a/SOUL.md": ("a", "soul"),
        "agents/a/TRADING_MANUAL.md": ("a", "manual"),
        "agents/a/journal/2026-01-05.md": ("a", "journal"),
        "agents/a/journal/old/x.md": ("a", "journal"),
        "agents/a/memory/learnings.md": ("a", "learning"),
        "agents/a/memory/learnings-2.md": ("a", "learning"),
        "agents/a/memory/notes.md": ("a", "note"),
        "agents/a/memory/other.md": ("a", "memory"),
        "agents/a/strategies/trend.md": ("a", "note"),
        "agents/b/SOUL.md": ("b", "soul"),
        "global/runbook.md": ("", "global"),
        "global/deep/er.md": ("", "global"),
    }


def test_what_has_no_place_is_refused_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path, agents__a__secrets_md="x", agents__a__other__x_md="x", agents__nobody__SOUL_md="x", stray_md="x")
    (tmp_path / ".git").mkdir()
    (tmp_path / "agents" / "a" / ".hidden.md").write_text("x")
    (tmp_path / "agents" / "a" / "SOUL.md~").write_text("x")
    documents, refused = scan(tmp_path)
    assert documents == {}
    assert set(refused) == {"agents/a/secrets.md", "agents/a/other", "agents/nobody", "stray.md"}
    assert "no agent" in refused["agents/nobody"] and "journal" in refused["agents/a/other"]


def test_links_may_not_lead_out_of_their_folder(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    write(root, agents__a__journal__own_md="mine", agents__b__journal__secret_md="b's own")
    (tmp_path / "outside.md").write_text("not ours")
    journal = root / "agents" / "a" / "journal"
    for name, target in {
        "out.md": tmp_path / "outside.md",
        "theirs.md": root / "agents" / "b" / "journal" / "secret.md",
        "again.md": journal / "own.md",
        "lost.md": tmp_path / "nothing",
        "folder": root / "agents" / "b" / "journal",
        "loop.md": journal / "loop.md",
    }.items():
        (journal / name).symlink_to(target)
    documents, refused = scan(root)
    assert set(documents) == {
        "agents/a/journal/own.md",
        "agents/a/journal/again.md",
        "agents/b/journal/secret.md",
    }
    assert documents["agents/b/journal/secret.md"][0] == "b"
    for name in ("out.md", "theirs.md", "folder"):
        assert "leads out" in refused[f"agents/a/journal/{name}"], name
    assert "nowhere" in refused["agents/a/journal/lost.md"] and "nowhere" in refused["agents/a/journal/loop.md"]


def test_an_agents_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path, agents__b__SOUL_md="b")
    (tmp_path / "agents" / "a").symlink_to(tmp_path / "agents" / "b")
    documents, refused = scan(tmp_path)
    assert set(documents) == {"agents/b/SOUL.md"} and "it is a link" in refused["agents/a"]


def test_odd_files_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    write(tmp_path, global__fine_md="fine")
    os.mkfifo(tmp_path / "global" / "pipe.md")
    (tmp_path / "global" / "large.md").write_bytes(b"x" * (MAX_DOCUMENT_BYTES + 1))
    os.close(os.open(bytes(tmp_path / "global") + b"/caf\xe9.md", os.O_CREAT | os.O_WRONLY))
    (tmp_path / "global" / "two\nlines.md").write_text("x")
    done: list[set[str]] = []
    worker = threading.Thread(target=lambda: done.append({*scan(tmp_path)[1]}), daemon=True)
    worker.start()
    worker.join(60)
    assert done == [{"global/pipe.md", "global/large.md", "global/caf\ufffd.md", "global/two lines.md"}]


@pytest.mark.parametrize(("content", "says"), [(b"a\0", "binary"), (b"\xff", "UTF-8")])
def test_bytes_that_are_no_text_are_refused_when_they_are_read(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x.md").write_bytes(content)
    (found,) = walk_area(WorkspaceArea(tmp_path, "global"))
    assert isinstance(found, WorkspaceFile)
    refused = read_document(found)
    assert isinstance(refused, RefusedFile) and says in refused.why and not refused.keeps


def test_a_file_that_became_something_else_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("x")
    (tmp_path / "y.txt").write_text("secret")
    found = next(iter(walk_area(WorkspaceArea(tmp_path, "global"))))
    assert isinstance(found, WorkspaceFile) and found.path == "global/x.md"
    found.file.unlink()
    found.file.symlink_to(tmp_path / "y.txt")
    refused = read_document(found)
    assert isinstance(refused, RefusedFile) and refused.keeps
    found.file.unlink()
    os.mkfifo(found.file)
    assert isinstance(read_document(found), RefusedFile)


def test_a_folder_that_is_not_there_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    there, lost = workspace_areas(tmp_path / "workspace", agents=("a",), folders={"books": str(tmp_path / "books")})
    assert there == []
    assert {each.path for each in lost if each.keeps} == {"agents", "global", "books"}


def test_added_folders_are_for_everybody(tmp_path: Path) -> None:
    write(tmp_path / "books", ops__feed_md="reconnect")
    (tmp_path / "workspace").mkdir()
    documents, refused = scan(tmp_path / "workspace", folders={"books": str(tmp_path / "books")})
    assert documents == {"books/ops/feed.md": ("", "global")} and refused == {}


def test_a_stamp_changes_with_the_file_even_if_its_time_is_set_back(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("one")
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert workspace.file_stamp(before) != workspace.file_stamp(file.stat())
