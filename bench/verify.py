"""`tapebook verify` on a long book: how long it takes, and how much memory, for a hundred thousand trades.

A thousand trades are imported for one agent; their events are written again for other agents, with names of their own.
Memory is the peak of a process that only verifies. `TAPEBOOK_BENCH_TRADES` asks for another number of trades.
"""

import csv
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, seconds
from tapebook.anchors import anchor_heads
from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import DAY, MINUTE
from tapebook.history.book_import import import_fills
from tapebook.home import make_home
from tapebook.log import Draft, Event, Stream
from tapebook.log.event import GENESIS, chain_events
from tapebook.tick.story import deploy_agent
from tapebook.wiring import PastTerms, Rooms

TRADES = int(os.environ.get("TAPEBOOK_BENCH_TRADES", "100000"))
NOON = 1_767_614_400_000
_BATCH = 1_000
_SYMBOLS = ("BTC", "ETH", "SOL", "HYPE", "DOGE")
# Names that may be there once.
_NAMES = re.compile(r'"((?:trade|fill|run|client|order|entry|exit_run|entry_run|id)(?:_id)?)":"(?=[^"])')


def run() -> list[Figure]:
    """Time and memory of one verification."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        took = seconds(lambda: _fill(home, TRADES))
        print(f"  {TRADES:,} trades written in {took:.0f} s", flush=True)
        peak = 0.0

        def verify() -> None:
            nonlocal peak
            peak = _verify(home)

        took = seconds(verify)
    return [
        Figure(f"verify a book of {TRADES:,} trades", took, "s"),
        Figure(f"peak memory of verifying {TRADES:,} trades", peak, "MB", aim="≤ 500"),
    ]


_COMMAND = """
import sys
from pathlib import Path
from tapebook.surfaces.cli import main
code = main(["verify", "--home", sys.argv[1]])
# Not getrusage: what that says of a new process begins with the peak of the one that made it.
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
sys.exit(code)
"""


def _verify(home: Path) -> float:
    """Verifies in a process of its own; its peak memory in MB."""
    done = subprocess.run([sys.executable, "-c", _COMMAND, str(home)], capture_output=True, text=True)
    said, peak = done.stdout.splitlines()[-2:]
    assert (done.returncode, said) == (0, "clean"), done.stdout[-2_000:] + done.stderr[-2_000:]
    return int(peak) / 1_000


def _fill(home: Path, trades: int) -> None:
    make_home(home)
    rooms = Rooms(home, clock=VirtualClock(NOON))
    rooms.book.save_agent(AgentProfile("a", _SYMBOLS, engine="hold"), at=NOON)
    deployment = deploy_agent(rooms.book, rooms.clock, "a")
    import_fills(rooms, _fills(home / "fills.csv"), deployment, dry_run=False)
    first = rooms.book.stream(deployment.id)
    events = list(rooms.log.events(first))
    rooms.close()
    writer = Rooms(home, clock=VirtualClock(NOON), past=PastTerms(watermark=None))
    for copy in range(1, trades // _BATCH):
        writer.log.restore_events(_renamed(events, Stream(first.owner, f"a{copy}.paper"), copy))
    anchor_heads(writer)
    writer.close()


def _renamed(events: list[Event], stream: Stream, copy: int) -> Iterator[Event]:
    previous = GENESIS
    for event in events:
        body = _NAMES.sub(lambda found: f'"{found[1]}":"{copy}-', event.body)
        body = body.replace(f'"{events[0].stream.deployment}"', f'"{stream.deployment}"')
        draft = Draft(event.kind, event.happened_at, body, event.schema)
        (again,) = chain_events(previous, [draft], stream=stream, seq=event.seq - 1, known_at=event.known_at)
        previous = again.hash
        yield again


def _fills(path: Path) -> Path:
    chance = random.Random(1)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "symbol", "side", "size", "price", "fee", "fill_id"])
        for number in range(_BATCH):
            at, price = NOON - DAY - (_BATCH - number) * 5 * MINUTE, 60_000 + 1_000 * chance.random()
            symbol = _SYMBOLS[number % len(_SYMBOLS)]
            rows.writerow([at, symbol, "buy", "0.001", f"{price:.2f}", "0.01", f"a{number}"])
            left = price + chance.gauss(0, 50)
            rows.writerow([at + 2 * MINUTE, symbol, "sell", "0.001", f"{left:.2f}", "0.01", f"b{number}"])
    return path
