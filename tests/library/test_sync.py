"""Files become versions, once, and only when they changed; whatever happens in between, nothing is lost or doubled."""

import os
import shutil
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tapebook.errors import BadInput, Busy, Damaged
from tapebook.library import sync as sync_module
from tapebook.library import workspace
from tapebook.library.search import search_documents
from tapebook.search.documents import FolderAdded, draft_document_event
from tapebook.wiring import Rooms
from tests.library.libraries import Library, library
from tests.matrix import examples

NAMES = ["global/a.md", "global/deep/b.md", "agents/ann/journal/c.md", "agents/bob/SOUL.md"]
Change = tuple[str, str | None]


def test_only_what_changed_is_a_new_version(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "first")
        shelf.write("agents/ann/SOUL.md", "calm")
        report = shelf.sync()
        assert (report.kept, report.removed, report.unchanged) == (2, 0, 0)
        assert (shelf.sync().kept, shelf.sync().unchanged) == (0, 2)
        shelf.write("global/a.md", "second")
        report = shelf.sync()
        assert (report.kept, report.unchanged, report.indexed.versions) == (1, 1, 1)
        (shelf.workspace / "global" / "a.md").unlink()
        assert shelf.sync().removed == 1 and shelf.paths() == {"agents/ann/SOUL.md"}
        assert shelf.floor.is_whole()


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "first")
        shelf.round_trip(note="went well")
        shelf.sync()
        shelf.sync()
        before = shelf.rooms.documents.log_head()
        report = shelf.sync()
        assert shelf.rooms.documents.log_head() == before and not report.has_changes


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.text(max_size=8)), max_size=4), max_size=6)
)
def test_documents_are_what_the_files_were_at_the_last_sync(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Change]]
) -> None:
    with library(tmp_path_factory.mktemp("x") / "home") as shelf:
        files: dict[str, str] = {}
        for step in steps:
            for name, text in step:
                if text is None:
                    (shelf.workspace / name).unlink(missing_ok=True)
                    files.pop(name, None)
                elif "\0" not in text:
                    shelf.write(name, text)
                    files[name] = (shelf.workspace / name).read_bytes().decode()
            # The shortcut is taken in half of the syncs, and forgotten in the others.
            if len(step) % 2:
                (shelf.rooms.home / workspace.STATE_FILE).unlink(missing_ok=True)
            shelf.sync()
            assert {path: shelf.text(path) for path in shelf.paths()} == files


def test_a_file_with_the_same_size_and_time_is_still_read_when_it_changed(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        file = shelf.write("global/a.md", "one")
        before = file.stat()
        shelf.sync()
        file.write_text("two")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert shelf.sync().kept == 1


def test_a_file_that_did_not_change_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "one")
        monkeypatch.setattr(workspace, "is_stamp_reliable", lambda stamp, now_ms: True)
        shelf.sync()
        monkeypatch.setattr(workspace, "read_document", lambda found: pytest.fail(f"{found.path} was read"))
        assert shelf.sync().unchanged == 1


def test_refusals_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/fine.md", "fine")
        (shelf.workspace / "global" / "binary.md").write_bytes(b"\0\1")
        (shelf.workspace / "global" / "latin.md").write_bytes(b"caf\xe9")
        report = shelf.sync()
        assert report.kept == 1
        assert {each.path for each in report.refused} == {"global/binary.md", "global/latin.md"}
        assert shelf.status().refused == report.refused


def test_a_document_that_becomes_binary_is_removed_and_one_that_cannot_be_read_stays(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        text, gone = shelf.write("global/text.md", "text"), shelf.write("global/deep/x.md", "x")
        shelf.sync()
        text.write_bytes(b"\0")
        shutil.move(gone.parent, tmp_path / "aside")
        gone.parent.symlink_to(tmp_path / "aside")
        assert shelf.sync().removed == 2
        assert shelf.paths() == set()


def test_a_workspace_that_is_away_takes_nothing_with_it(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        (tmp_path / "books").mkdir()
        (tmp_path / "books" / "ops.md").write_text("reconnect")
        shelf.write("global/a.md", "a")
        shelf.add_folder(tmp_path / "books")
        shelf.sync()
        shutil.move(tmp_path / "books", tmp_path / "away")
        assert (shelf.sync().removed, shelf.paths()) == (0, {"global/a.md", "books/ops.md"})
        shutil.move(shelf.workspace, tmp_path / "elsewhere")
        with pytest.raises(BadInput, match="put it back"):
            shelf.sync()
        assert shelf.paths() == {"global/a.md", "books/ops.md"}
        shutil.move(tmp_path / "elsewhere", shelf.workspace)
        assert not shelf.sync().has_changes


def test_a_killed_sync_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library(tmp_path / "home") as shelf:
        for number in range(20):
            shelf.write(f"global/{number:02}.md", f"text {number}")
        monkeypatch.setattr(sync_module, "VERSIONS_PER_APPEND", 5)
        append, appended = shelf.rooms.documents.append, []

        def killed(drafts: list[object]) -> object:
            appended.extend([1] * (len(drafts) == 5))
            if len(appended) > 2:
                raise KeyboardInterrupt
            return append(drafts)  # type: ignore[arg-type]

        monkeypatch.setattr(shelf.rooms.documents, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            shelf.sync()
        monkeypatch.setattr(shelf.rooms.documents, "append", append)
        left = shelf.sync()
        assert (left.kept, left.unchanged) == (10, 10)
        assert len(shelf.paths()) == len(shelf.rooms.documents.versions(after=0, most=99)) == 20


def test_two_syncs_at_once_are_kept_apart(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        other = Rooms(shelf.rooms.home, clock=shelf.floor.clock)
        try:
            with other.leases.holding(other.documents.stream) as lease:
                beats = iter(range(10))

                def slept(_seconds: float) -> None:
                    next(beats)
                    other.leases.heartbeat()

                shelf.rooms.leases._sleep = slept
                with pytest.raises(Busy):
                    shelf.sync()
                assert other.leases.in_hand.get(lease.stream) == lease
        finally:
            other.close()
        shelf.write("global/a.md", "a")
        assert shelf.sync().kept == 1


def test_what_goes_wrong_is_shown_by_status_until_it_goes_well(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "a")
        shelf.sync()
        (version,) = [each for each in shelf.rooms.documents.versions(after=0, most=9)]
        assert version.sha256 in shelf.rooms.archive.keys("sha256/")[0]
        shelf.rooms.archive.drain()
        (body,) = (shelf.rooms.home / "archive" / "packs").rglob("*.z")
        kept = body.read_bytes()
        body.unlink()
        shelf.rooms.indexes.close()
        (shelf.rooms.home / "recall-r3.db").unlink()
        with pytest.raises(Damaged, match="restore"):
            shelf.sync()
        assert "restore it from a backup" in shelf.status().problem
        body.write_bytes(kept)
        shelf.sync()
        assert shelf.status().problem == ""


def test_the_index_can_be_thrown_away(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "reconnect the feed")
        shelf.sync()
        before = _found(shelf)
        (shelf.rooms.home / "recall-r3.db").unlink()
        assert _found(shelf) == before and before


def _found(shelf: Library) -> list[str]:
    return [each.path for each in search_documents(shelf.rooms, "feed").citations]


def test_a_file_that_lies_in_two_folders_is_one_document(tmp_path: Path) -> None:
    books = tmp_path / "books"
    (books / "feeds").mkdir(parents=True)
    (books / ".private").mkdir()
    (books / "feeds" / "outage.md").write_text("reconnect, then wait")
    (books / "sizing.md").write_text("small")
    (books / ".private" / "more.md").write_text("more")
    (books / "again.md").symlink_to(books / "feeds" / "outage.md")
    (tmp_path / "links").symlink_to(books)
    with library(tmp_path / "home") as shelf:
        shelf.add_folder(books / "feeds")
        shelf.sync()
        assert shelf.paths() == {"feeds/outage.md"}
        for folder in (books, tmp_path / "links", books / ".private"):
            shelf.add_folder(folder)
        # Homes of before may have a folder by way of a link.
        shelf.rooms.documents.append(
            [draft_document_event(shelf.floor.clock.now(), FolderAdded("aside", str(tmp_path / "links")))]
        )
        report = shelf.sync()
        # The place it was first found at stays; what only another folder shows is found there.
        assert shelf.paths() == {"feeds/outage.md", "books/sizing.md", ".private/more.md"}
        assert len(search_documents(shelf.rooms, "reconnect")) == 1
        assert [(each.path, each.why) for each in report.refused] == [
            ("books", "2 of its files are documents of feeds already: each is found once"),
            ("aside", "2 of its files are documents of feeds already: each is found once"),
            ("aside", "1 of its files is a document of books already: each is found once"),
        ]
        assert not shelf.sync().has_changes
        (books / "feeds" / "outage.md").unlink()
        assert shelf.sync().removed == 1 and shelf.paths() == {"books/sizing.md", ".private/more.md"}
