"""A commit that fails leaves nothing, not even in the memory of the process that tries again."""

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Liquidity, Mid, Observation
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View

NOON = 1_767_614_400_000
REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON tape_commits BEGIN SELECT RAISE(ABORT, 'refused'); END"


def test_symbols_of_a_failed_commit_get_their_numbers_again() -> None:
    db = connect(":memory:")
    migrate(db, (MIGRATIONS,))
    tape = Tape(db, clock=VirtualClock(NOON))
    facts: list[Observation] = [Mid("BTC", NOON, 65_000), Liquidity("BTC", NOON, 1, 1.0, 1.0, 1.0, 1.0, 0.0)]
    db.execute_script(REFUSE)
    with pytest.raises(Exception, match="refused"):
        tape.commit(facts)
    db.execute_script("DROP TRIGGER refuse")
    assert tape.symbols() == []
    tape.commit(facts)
    Tape(db, clock=VirtualClock(NOON)).commit([Mid("ETH", NOON, 3_000)])
    later = Tape(db, clock=VirtualClock(NOON))
    found = {symbol: later.newest(Mid, symbol, view=View(NOON + 60_000)) for symbol in ("BTC", "ETH")}
    assert found == {"BTC": facts[0], "ETH": Mid("ETH", NOON, 3_000)}
