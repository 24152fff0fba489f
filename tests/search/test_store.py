"""Documents in the database: what stood as of a sequence number, and nothing of anybody else."""

from collections.abc import Iterator

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.errors import StaleWriter, UnknownName
from tapebook.log import Log, verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tapebook.search import documents as ev
from tapebook.search.documents import MIGRATIONS, PROJECTION, Documents, Outage, ReadMark

PACKAGES = (LOG, MIGRATIONS)


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of either kind."""
    place = ":memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    opened = connect(place)
    migrate(opened, PACKAGES)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that a test moves."""
    return VirtualClock(1_000)


@pytest.fixture
def documents(db: Database, clock: VirtualClock) -> Documents:
    """The documents of one owner."""
    return Documents(Log(db, [PROJECTION], clock=clock), db, owner="ann")


def kept(path: str, sha256: str, *, scope: str = "", origin: ev.Origin = "file") -> ev.DocumentKept:
    """A version."""
    return ev.DocumentKept(scope, path, "global", sha256, 9, origin, "owner")


def write(documents: Documents, *bodies: msgspec.Struct, at: int = 0) -> None:
    """Appends events."""
    documents.append([ev.draft_document_event(at, body) for body in bodies])


def test_a_document_is_what_it_was_as_of_a_sequence(documents: Documents, clock: VirtualClock) -> None:
    assert (documents.head(), documents.log_head(), documents.files()) == (0, 0, {})
    write(documents, kept("a", "1"), kept("b", "2"))
    clock.advance(2_000)
    write(documents, ev.DocumentRemoved("", "a", "global"), kept("b", "3"), kept("log", "9", origin="log"))
    said = [getattr(documents.version("", path, seq=seq), "sha256", None) for path in "ab" for seq in (0, 1, 2, 3, 4)]
    assert said == [None, "1", "1", "", "", None, None, "2", "2", "3"]
    assert {place: each.sha256 for place, each in documents.files().items()} == {("", "a"): "", ("", "b"): "3"}
    assert documents.kinds() == {"global": 2} and documents.head() == 5
    assert [documents.seq_as_of(at) for at in (999, 1_000, 1_999, 2_000)] == [0, 2, 2, 5]
    assert [each.seq for each in documents.versions(after=2, most=2)] == [3, 4]
    assert [documents.state_as_of(seq).newest for seq in (0, 1, 4, 9)] == [0, 1, 4, 5]


def test_the_same_path_of_two_scopes_is_two_documents(documents: Documents) -> None:
    write(documents, kept("x", "1", scope="a"), kept("x", "2", scope="b"))
    assert [documents.version(scope, "x", seq=9).sha256 for scope in "ab"] == ["1", "2"]  # type: ignore[union-attr]


def test_entries_wait_until_their_file_has_a_version(documents: Documents) -> None:
    first = ev.EntryAppended("e1", "a", "note", "p", "s1", "a", "r1")
    second = ev.EntryAppended("e2", "a", "note", "p", "s2", "owner", "")
    write(documents, first, at=5)
    assert [entry.entry_id for entry in documents.unwritten_entries(after=0)] == ["e1"]
    write(documents, kept("p", "1", scope="a"))
    write(documents, second, at=6)
    assert [entry.entry_id for entry in documents.unwritten_entries(after=0)] == ["e2"]
    assert documents.unwritten_entries(after=documents.log_head()) == []
    assert documents.entry_count("a", "note", span=(0, 6)) == 1 and documents.entry_count("a", "note", span=(0, 9)) == 2
    entry = documents.entry("e1")
    assert entry is not None and (entry.run_id, entry.happened_at) == ("r1", 5) and documents.entry("e9") is None


def test_proposals_are_decided_once_and_writes_list_all(documents: Documents) -> None:
    write(documents, ev.ManualProposed("p1", "a", "b", "s", "a", "r1"), ev.ManualProposed("p2", "b", "b", "s", "b", ""))
    write(documents, ev.ProposalDecided("p1", True, "owner", 3), ev.ProposalDecided("p2", False, "owner", 0))
    write(documents, ev.EntryAppended("e1", "a", "journal", "p", "s1", "a", "r1"))
    assert [(each.proposal_id, each.status, each.version) for each in documents.proposals(most=9)] == [
        ("p2", "rejected", 0),
        ("p1", "approved", 3),
    ]
    assert {(each.kind, each.place) for each in documents.writes("a", most=9)} == {
        ("journal", "p"),
        ("proposal", "p1"),
        ("manual", "version 3"),
    }
    assert [each.kind for each in documents.writes("b", most=9)] == ["proposal"]
    with pytest.raises(UnknownName, match="no proposal"):
        documents.proposal("p9")


def test_marks_terms_and_folders_are_the_newest(documents: Documents) -> None:
    trouble = Outage(1, ("BTC",), ("BTC",), {"failed": 2}, ("x",))
    assert documents.read_mark("a.paper") == ReadMark() and documents.state_as_of(9).terms is None
    write(documents, ev.LogRead("a.paper", 7, {"decisions": trouble}), ev.LogRead("", 3), ev.TermsChosen("{}"))
    assert documents.read_mark("a.paper") == ReadMark(7, {"decisions": trouble}) and documents.read_mark("").until == 3
    write(documents, ev.LogRead("a.paper", 9), ev.TermsChosen('{"slot":"x"}'), ev.FolderAdded("books", "/b"))
    assert documents.read_mark("a.paper") == ReadMark(9) and documents.folders() == {"books": "/b"}
    write(documents, ev.FolderAdded("plans", "/p"), ev.FolderRemoved("books"))
    assert documents.folders() == {"plans": "/p"}
    write(documents, ev.FolderAdded("books", "/c"))
    assert documents.folders() == {"books": "/c", "plans": "/p"}
    assert [documents.state_as_of(seq).terms for seq in (2, 3, 4, 5)] == [None, "{}", "{}", '{"slot":"x"}']


def test_nothing_crosses_owners(documents: Documents, db: Database, clock: VirtualClock) -> None:
    log = Log(db, [PROJECTION], clock=clock)
    bob = Documents(log, db, owner="bob")
    write(documents, kept("a", "1"), ev.FolderAdded("books", "/b"))
    write(documents, ev.EntryAppended("e", "a", "note", "p", "s", "a", ""))
    write(documents, ev.ManualProposed("p1", "a", "b", "s", "a", ""), ev.LogRead("", 3), ev.TermsChosen("{}"))
    assert (bob.head(), bob.log_head(), bob.files(), bob.kinds(), bob.folders()) == (0, 0, {}, {}, {})
    assert (
        bob.writes(most=9),
        bob.proposals(most=9),
        bob.unwritten_entries(after=0),
        bob.versions(after=0, most=9),
    ) == (
        [],
        [],
        [],
        [],
    )
    assert bob.read_mark("") == ReadMark() and bob.state_as_of(99).terms is None and bob.entry("e") is None
    assert verify_log(log, db, packages=PACKAGES, anchors={}) == []


def test_of_two_writers_the_slower_writes_nothing(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    write(documents, kept("a", "1"))
    monkeypatch.setattr(documents, "log_head", lambda: 0)
    with pytest.raises(StaleWriter):
        write(documents, kept("b", "2"))
    assert documents.head() == 1
