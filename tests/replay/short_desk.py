"""A desk that decides, retires old rows, anchors its heads and keeps a document, for some minutes of market time.

    python -m tests.replay.short_desk HOME MINUTES [archive|tape]

A home that has come so far already is gone on with. The last word says which of both is not waited for.
"""

import sys
from functools import partial
from pathlib import Path

from tapebook.anchors import anchor_heads
from tapebook.archive import put_cold
from tapebook.clock import VirtualClock
from tapebook.domain import files
from tapebook.domain.units import DAY, MINUTE
from tapebook.library.entries import EntryWriter
from tapebook.tape.retention import retire_rows
from tapebook.wiring import Rooms
from tests.desk.desks import BRIEF, START, Desk, reply

# Midpoints leave after twenty minutes; there is nothing of the others.
CHANNELS = ("books", "contexts", "predicted", "funding", "volatility", "pressure", "positioning", "gaps", "candles")
KEEP = {name: DAY for name in (*CHANNELS, "candles_60", "candles_3600")} | {"mids": 20 * MINUTE, "commits": 20 * MINUTE}


def run(home: Path, *, minutes: int) -> None:
    """Goes on to so many minutes after the start."""
    rooms = Rooms(home, clock=VirtualClock(START))
    known_at = rooms.tape.head()[1]
    clock = VirtualClock(max(START, known_at))
    rooms.close()
    rooms = Rooms(home, clock=clock)
    floor = Desk(rooms, clock)
    agent = floor.hire()
    while clock.now() < START + minutes * MINUTE:
        passed = (clock.now() - START) // MINUTE
        floor.later(MINUTE, BTC=100 + passed % 7, ETH=10 + passed % 3)
        if passed % 2 == 0:
            held = bool(floor.held(agent))
            said = reply("close", "long") if held else reply("open", "long", 500)
            floor.say(agent, said if passed % 10 == 0 else reply("hold"))
            floor.work(agent)
        if passed % 10 == 9:
            now, put = clock.now(), partial(put_cold, rooms.archive)
            retire_rows(rooms.tape_db, put, keep=KEEP, now=now, watched=lambda: set(BRIEF.watchlist))
            anchor_heads(rooms)
            said = f"{passed} minutes have passed"
            entry = EntryWriter(rooms.documents, rooms.archive).draft_entry(
                "a", "journal", said, by="test", run_id="", at=now, entry_id=f"entry-{now}"
            )
            rooms.documents.append([entry])
    rooms.close()


# What waits for the disk, by the word that turns it off: to see that it is needed.
WAITS = {"archive": (files, "sync_all"), "tape": (Rooms, "sync_tape")}


if __name__ == "__main__":
    for word in sys.argv[3:]:
        setattr(*WAITS[word], lambda *_: None)
    run(Path(sys.argv[1]), minutes=int(sys.argv[2]))
