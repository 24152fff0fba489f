"""Damaged tables are named, computed again from the log in one transaction, and then say what they said before."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.db import connect
from tapebook.domain.units import MINUTE
from tapebook.errors import Busy, Damaged
from tapebook.settings.config import load_config
from tapebook.surfaces.cli import main
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.replay import desk
from tests.replay.conftest import Servers
from tests.replay.faults import Fuse, lit, stop, until_blown
from tests.replay.home_fingerprint import Remains, assert_whole
from tests.replay.stage import Stage

DAMAGE = {
    "orders": "UPDATE orders SET size_e8 = size_e8 + 1",
    "fills": "DELETE FROM fills",
    "trade_history": "UPDATE trade_history SET status = 'closed' WHERE status = 'open'",
    "decision_runs": "UPDATE decision_runs SET status = 'done' WHERE seq = (SELECT MAX(seq) FROM decision_runs)",
    "deployments": "INSERT INTO deployments SELECT owner, deployment, seq + 9, agent, 1, broker, 7 FROM deployments",
    "context_metadata": "DELETE FROM context_metadata",
}


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def home(request: pytest.FixtureRequest, place: Path, server: Servers) -> Iterator[Path]:
    """A desk that has traded for a while, with its book on either store."""
    stage = Stage(place, server(request.param))
    made = stage.make("home")
    desk.trade(made, until=desk.START + 44 * MINUTE)
    yield made
    stage.remove(made)


def execute(home: Path, statement: str) -> None:
    """Changes the book behind its back."""
    book = load_config(home, {}).store.book
    with closing(connect(book if "://" in book else str(home / book), create=False)) as db, db.transaction():
        db.execute(sql(statement))


def test_damaged_tables_are_computed_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, words = Remains.of(home), ["--home", str(home)]
    for statement in DAMAGE.values():
        execute(home, statement)
    assert main(["verify", *words]) == 3
    named = capsys.readouterr()
    assert all(table in named.out for table in DAMAGE) and "`tapebook rebuild` computes the table again" in named.out
    assert "run `tapebook rebuild`" in named.err
    assert main(["rebuild", *words]) == 0
    written = capsys.readouterr().out
    assert written.startswith(f"{len(DAMAGE)} tables written again from ") and ", ".join(sorted(DAMAGE)) in written
    whole.assert_same_in(home)
    assert_whole(home)
    assert main(["rebuild", *words]) == 0
    assert capsys.readouterr().out == "nothing to rebuild: every table says what the log says\n"


def test_all_of_them_are_written_or_none(copied: Path, place: Path) -> None:
    whole, fuse = Remains.of(copied), Fuse()
    execute(copied, DAMAGE["fills"])
    execute(copied, DAMAGE["orders"])
    damaged, undisturbed = Remains.of(copied), shutil.copytree(copied, place / "undisturbed")
    with lit(fuse), app.open(undisturbed, clock=VirtualClock(0)) as book:
        assert book.rebuild().tables == ("fills", "orders")
    writes = [at for at, act in enumerate(fuse.acts, start=1) if act.startswith(("DELETE", "INSERT", "COMMIT"))]
    for point in writes[:: 1 + len(writes) // 5]:
        with until_blown(Fuse(point, stop)), app.open(copied, clock=VirtualClock(0)) as book:
            book.rebuild()
        # The dead hold leases for a while.
        execute(copied, "DELETE FROM leases")
        if not _is_rebuilt(copied, whole):
            damaged.assert_same_in(copied)
    with app.open(copied, clock=VirtualClock(0)) as book:
        book.rebuild()
    whole.assert_same_in(copied)


def _is_rebuilt(home: Path, whole: Remains) -> bool:
    return Remains.of(home).tables == whole.tables


def test_what_cannot_be_computed_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with app.open(home, clock=VirtualClock(0)) as book:
        holder = Rooms(home, clock=VirtualClock(0))
        # Somebody is at work: a sign of life comes while it is waited for.
        monkeypatch.setattr(book._rooms.leases, "_sleep", lambda _seconds: holder.leases.heartbeat())
        with closing(holder), holder.leases.holding(holder.log.streams()[-1]), pytest.raises(Busy, match="is at work"):
            book.rebuild()
    execute(home, DAMAGE["fills"])
    execute(home, "UPDATE log_events SET happened_at = happened_at + 1 WHERE kind = 'order.intended'")
    before = Remains.of(home)
    with app.open(home, clock=VirtualClock(0)) as book:
        with pytest.raises(Damaged, match="its hash does not follow; tables can only be computed from a log that is"):
            book.rebuild()
        before.assert_same_in(home)
        assert main(["rebuild", "--home", str(home)]) == 3


def test_a_log_that_was_cut_off_is_not_made_to_look_whole(place: Path) -> None:
    home = place / "home"
    app.init(home)
    with app.open(home) as book:
        book.tick("btc-5m", "BTC")
    shutil.copy(home / "book.db", place / "before.db")
    with app.open(home) as book:
        book.tick("demo-ensemble", "BTC")
    for beside in home.glob("book.db*"):
        beside.unlink()
    shutil.copy(place / "before.db", home / "book.db")
    with app.open(home) as book, pytest.raises(Damaged, match="this is more than tables"):
        book.rebuild()
