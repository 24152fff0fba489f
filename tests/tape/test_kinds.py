"""Kinds of subjects: said by sources, perps without a word, read by kind, and under the checksum of the symbols."""

from tapebook.clock import VirtualClock
from tapebook.db import Database
from tapebook.domain.market import Mid
from tapebook.tape.seals import UnsealedCounts, check_tape
from tapebook.tape.store import Tape
from tests.db.places import sql
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

T0 = 1_767_571_200_000


def findings(db: Database) -> list[str]:
    found = check_tape(db, anchored={}, counts=UnsealedCounts(), progress=lambda table, rows: None)
    return [each.where for each in found]


def test_a_subject_is_of_the_kind_its_source_says_and_else_a_perp(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(T0))
    tape.commit([Mid("BTC", T0, 1)], kinds={"PURR/USDC": "spot", "aave": "protocol"})
    assert tape.symbols() == ["BTC"], "nothing is written of a symbol before it has a row"
    tape.commit([Mid("PURR/USDC", T0, 2), Mid("ETH", T0, 3)])
    again = Tape(db, clock=VirtualClock(T0))
    for each in (tape, again):
        assert each.symbols("perp") == ["BTC", "ETH"] and each.symbols("spot") == ["PURR/USDC"]
        assert each.symbols("perp", "spot") == each.symbols() and each.symbols("chain") == []
        assert [each.kind_of(name) for name in ("BTC", "PURR/USDC", "aave")] == ["perp", "spot", None]


def test_a_symbol_that_was_stored_as_a_perp_gets_its_kind_when_it_is_said(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(T0))
    tape.commit([Mid("BTC", T0, 1), Mid("@107", T0, 2)])
    assert tape.kind_of("@107") == "perp"
    Tape(db, clock=VirtualClock(T0)).commit([Mid("BTC", T0 + 5_000, 1)], kinds={"@107": "spot"})
    assert tape.symbols("spot") == ["@107"] and tape.symbols("perp") == ["BTC"]
    assert findings(db) == []


def test_a_kind_that_is_altered_is_found(db: Database) -> None:
    Tape(db, clock=VirtualClock(T0)).commit([Mid("BTC", T0, 1), Mid("@107", T0, 2)], kinds={"@107": "spot"})
    assert findings(db) == []
    db.execute(sql("UPDATE tape_symbols SET kind = 'perp' WHERE symbol = '@107'"))
    assert findings(db) == ["tape_symbols"]
