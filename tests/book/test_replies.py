"""Kept answers and what they cost, on both databases."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.book import events as ev
from tapebook.book.decision_queue import StoredReplies, StoredReply
from tapebook.book.events import PROJECTION
from tapebook.book.store import MIGRATIONS, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.run import DecisionRun, Usage, Watermarks
from tapebook.log import Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tables of log and book, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (LOG, MIGRATIONS))
        yield opened


@pytest.fixture
def book(db: Database) -> Book:
    return Book(Log(db, [PROJECTION], clock=VirtualClock(1_000)), db, owner="local")


def tell(book: Book, deployment: str, body: object, *, at: int = 1_000) -> None:
    book.append(deployment, [ev.draft_event(at, body)], expected_seq=book.head(deployment))  # type: ignore[arg-type]


def decided(book: Book, run_id: str, *, at: int, cost: int) -> None:
    usage = Usage("m", 1, 1, cost, 1) if cost else None
    head = (run_id, "local", "d", "a", 1, "BTC", at, "schedule", "main", at, Watermarks(0, 0), 1, "", "", 0, "m")
    run = DecisionRun(*head, None, None, "held", (), (), usage=usage)  # type: ignore[arg-type]
    tell(book, "d", ev.RunDecided(run))


def test_first_answer_stays(db: Database) -> None:
    replies = StoredReplies(db, owner="local")
    assert replies.stored_reply("k") is None
    for text in ("one", "two"):
        replies.store_reply("k", StoredReply(text, "r"), deployment="d", cost_usd_e6=5, at=9)
    assert replies.stored_reply("k") == replies.reply_of_run("r") == StoredReply("one", "r")
    assert replies.reply_of_run("x") is StoredReplies(db, owner="other").reply_of_run("r") is None
    assert replies.spent_usd_e6("d", since=9) == 5


def test_spent_counts_a_run_once(db: Database, book: Book) -> None:
    replies = StoredReplies(db, owner="local")
    assert replies.spent_usd_e6("d", since=0) == 0
    replies.store_reply("k1", StoredReply("{}", "r1"), deployment="d", cost_usd_e6=5, at=100)
    replies.store_reply("k2", StoredReply("{}", "r2"), deployment="d", cost_usd_e6=7, at=100)
    replies.store_reply("k3", StoredReply("{}", "r3"), deployment="other", cost_usd_e6=11, at=100)
    assert replies.spent_usd_e6("d", since=0) == 12
    decided(book, "r1", at=100, cost=5)
    decided(book, "r4", at=100, cost=20)
    decided(book, "r5", at=50, cost=100)
    assert [replies.spent_usd_e6("d", since=since) for since in (0, 100, 101)] == [132, 32, 0]


def test_halts_wishes_and_deployments(book: Book) -> None:
    assert (book.halts(), book.flatten_due("d"), book.deployments()) == ({}, {}, [])
    tell(book, "", ev.DeskHalted("", "storm"))
    tell(book, "", ev.DeskHalted("d", "odd"))
    tell(book, "", ev.DeskResumed("", "over"))
    tell(book, "d", ev.DeploymentOpened("a", 1, "paper"))
    tell(book, "d", ev.DeploymentOpened("a", 2, "paper"))
    tell(book, "e", ev.DeploymentOpened("b", 1, "paper"))
    assert book.halts() == {"d": "odd"}
    assert (book.deployments(), book.deployments("b")) == ([("d", "a"), ("e", "b")], [("e", "b")])
    tell(book, "", ev.DeskFlattened("d", "enough"))
    assert book.flatten_due("d") == {}
