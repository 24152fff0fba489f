"""What a book keeps of decisions equals what its tables say, whoever has written them and whatever was taken back."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.store import MIGRATIONS, Book
from tapebook.db import Database, connect, migrate
from tapebook.db.buffered import BufferedDatabase
from tapebook.domain.run import Action, DecisionRun, Verdict
from tapebook.domain.units import HOUR, MINUTE
from tapebook.log.store import MIGRATIONS as LOG
from tests.book.test_store import NOON, book_of, run, write

HOLD = Action("hold", "BTC", None, 0, 1, "market", None, 0, "")
ALLOWED, REFUSED = Verdict(True, None, ""), Verdict(False, "R3_POSITION_CAP", "too much")
SYMBOLS = ("BTC", "ETH")
# Who decides (we, or another process), on what, how it goes, how much later, and whether we look at it at once.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ours", "theirs", "taken back"]),
        st.sampled_from(SYMBOLS),
        st.sampled_from(["held", "refused", "unreadable", "expired", "shadow", "ended"]),
        st.sampled_from([MINUTE, 25 * MINUTE]),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.fixture
def db() -> Iterator[Database]:
    """A database with the tables of the book."""
    with closing(connect(":memory:")) as plain:
        migrate(plain, (LOG, MIGRATIONS))
        yield BufferedDatabase(plain)


def step_body(name: str, symbol: str, how: str, as_of: int) -> ev.RunDecided | ev.RunEnded:
    """What is written of a step."""
    if how == "ended":
        return ev.RunEnded(f"run-{int(name[4:]) - 1}", "done")
    verdict = REFUSED if how == "refused" else ALLOWED
    made = run(name, (HOLD, verdict), symbol=symbol, as_of=as_of, scheduled_for=as_of)
    if how == "unreadable":
        made = run(name, symbol=symbol, as_of=as_of, scheduled_for=as_of, status="rejected", error="no JSON")
    elif how == "expired":
        made = run(name, symbol=symbol, as_of=as_of, scheduled_for=as_of, status="expired", packet_sha256="")
    elif how == "shadow":
        made = run(name, (HOLD, verdict), symbol=symbol, as_of=as_of, scheduled_for=as_of, trigger="shadow")
    return ev.RunDecided(made)


def known(book: Book, as_of: int) -> tuple[list[DecisionRun | None], tuple[str, ...]]:
    """The newest decision on each symbol, and the refusals of the hour."""
    seq = book.head("d1")
    runs = [book.last_run("d1", symbol, seq=seq) for symbol in SYMBOLS]
    return runs, book.session("d1", book.account("d1", seq=seq), as_of=as_of).refusals


@given(steps=STEPS)
def test_what_is_kept_is_what_is_stored(steps: list[tuple[str, str, str, int, bool]]) -> None:
    with closing(connect(":memory:")) as plain:
        migrate(plain, (LOG, MIGRATIONS))
        db = BufferedDatabase(plain)
        ours, theirs, now = book_of(db), book_of(db), NOON
        for number, (who, symbol, how, later, looks) in enumerate(steps):
            now += later
            body = step_body(f"run-{number}", symbol, how, now)
            if who == "taken back":
                with pytest.raises(KeyboardInterrupt), ours._log.one_transaction():
                    write(ours, "d1", body)
                    known(ours, now)
                    raise KeyboardInterrupt
            else:
                write(ours if who == "ours" else theirs, "d1", body)
            if looks or number == len(steps) - 1:
                assert known(ours, now) == known(book_of(db), now)


def test_refusals_are_forgotten_after_an_hour_without_another_read(db: Database) -> None:
    book = book_of(db)
    write(book, "d1", step_body("run-0", "BTC", "refused", NOON))
    assert known(book, NOON)[1] == ("R3_POSITION_CAP",)
    write(book, "d1", step_body("run-1", "BTC", "held", NOON + 1))
    assert known(book, NOON + HOUR - 1)[1] == ("R3_POSITION_CAP",)
    assert known(book, NOON + HOUR)[1] == ()
    assert known(book, NOON - 1)[1] == (), "an earlier moment is read again"
