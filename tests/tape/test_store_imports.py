"""Imported history is there to be read, and says nothing of how far a channel has come by itself."""

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Mid
from tapebook.domain.units import DAY
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View

NOON = 1_767_614_400_000


def test_an_import_does_not_move_a_channel() -> None:
    db = connect(":memory:")
    migrate(db, (MIGRATIONS,))
    tape = Tape(db, clock=VirtualClock(NOON + 10 * DAY))
    tape.commit([Mid("BTC", NOON - DAY, 1)], assumed=lambda fact: fact.bucket_ts + 7_000)
    assert tape.newest_buckets() == {}
    tape.commit([Mid("ETH", NOON, 2)])
    tape.commit([Mid("BTC", NOON + 9 * DAY, 3)], assumed=lambda fact: fact.bucket_ts + 7_000)
    assert tape.newest_buckets() == {"mids": NOON}
    assert [channel.rows for channel in tape.channels()] == [3]
    assert tape.newest(Mid, "BTC", view=View(NOON + 9 * DAY + 7_000)) == Mid("BTC", NOON + 9 * DAY, 3)
    assert tape.newest(Mid, "BTC", view=View(NOON + 9 * DAY + 6_999)) == Mid("BTC", NOON - DAY, 1)
