"""A desk that decides, retires old rows, anchors its heads and keeps a document, for some minutes of market time.

    python -m tests.replay.short_desk HOME MINUTES [archive|tape]

A home that has come so far already is gone on with. The last word says which of both is not waited for.
"""

import sys
from pathlib import Path

from tapebook.archive import put_content
from tapebook.clock import VirtualClock
from tapebook.domain import files
from tapebook.domain.instants import DAY, MINUTE
from tapebook.loop.entries import Pen
from tapebook.loop.maintain import anchor_heads
from tapebook.tape.retention import retire
from tapebook.wiring import Rooms
from tests.loop.desks import BRIEF, START, Desk, reply

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
            put, now = lambda content: put_content(rooms.archive, content), clock.now()
            retire(rooms.tape_db, put, keep=KEEP, now=now, watched=lambda: set(BRIEF.watchlist))
            anchor_heads(rooms)
            words = {"by": "test", "run_id": "", "at": now, "entry_id": f"entry-{now}"}
            rooms.documents.append([Pen(rooms).entry("a", "journal", f"{passed} minutes have passed", **words)])
    rooms.close()


def careless_of(what: str) -> None:
    """Turns the waits for the archive or for the tape off, to see that they are needed."""
    if what == "archive":
        files.sync_all = lambda paths: None
    else:
        Rooms.sync_tape = lambda self, seq: None  # type: ignore[method-assign]


if __name__ == "__main__":
    for each in sys.argv[3:]:
        careless_of(each)
    run(Path(sys.argv[1]), minutes=int(sys.argv[2]))
