"""Which perps are listed, as the tape remembers it: versions with their times, and nothing twice."""

from tapebook.clock import VirtualClock
from tapebook.db import Database
from tapebook.domain.market import Delisting, Mid
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK, KnownDelisting, View
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.tape.places import db as db

NOON = 1_800_000_000_000


def test_what_was_known_of_a_listing_is_read_as_of_any_moment(db: Database) -> None:
    clock = VirtualClock(NOON)
    tape = Tape(db, clock=clock)
    tape.commit([Mid("BTC", NOON, 10**10)])
    heads = []
    for ms, settlement in ((1, None), (2, 7), (3, 7), (4, 8), (5, None), (6, None)):
        clock.advance(NOON + ms * 1_000)
        heads.append(tape.commit([Delisting("BTC", clock.now(), settlement)]))
    # What says nothing new leaves no trace, not even a commit.
    assert heads == [1, 2, 2, 3, 4, 4]
    told = {1: None, 2: 7, 3: 7, 4: 8, 5: None, 9: None}
    for reader in (tape, ForwardTape(db, clock=clock)):
        for ms, settlement in told.items():
            found = reader.delistings.newest("BTC", view=View(NOON + ms * 1_000))
            assert (found.settlement_e8 if found else None) == settlement
        assert reader.delistings.newest("BTC", view=View(NOON + 2_000)) == KnownDelisting(NOON + 2_000, 7)
        for watermark, settlement in ((1, None), (2, 7), (3, 8), (4, None), (NO_WATERMARK, None)):
            found = reader.delistings.newest("BTC", view=View(NOON + 9_000, watermark))
            assert (found.settlement_e8 if found else None) == settlement
    assert ForwardTape(db, clock=clock, watermark=2).delistings.newest(
        "BTC", view=View(NOON + 9_000)
    ) == KnownDelisting(NOON + 2_000, 7)


def test_perps_that_were_gone_before_anybody_watched_leave_no_trace(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    assert tape.commit([Delisting("MATIC", NOON, 37)]) == 0
    assert (tape.symbols(), tape.delistings.newest("MATIC", view=View(NOON))) == ([], None)


def test_perp_that_is_first_seen_and_delisted_in_one_commit(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    tape.commit([Delisting("BTC", NOON, 7), Mid("BTC", NOON, 10**10)])
    assert tape.delistings.newest("BTC", view=View(NOON)) == KnownDelisting(NOON, 7)
