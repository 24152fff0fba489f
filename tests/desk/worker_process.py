"""A worker as a process of its own, with an engine that takes its time and then buys.

Run as `python -m tests.desk.worker_process HOME SECONDS THINKS`; it prints a line when it begins, one when
a question is out, and one with what it did at the end.
"""

import json
import sys
import time
from pathlib import Path

from tapebook.clock import SystemClock
from tapebook.decision import EngineAnswer
from tapebook.decision.reply import make_answer
from tapebook.desk.roles import RoleProgress, StopSignal, run_role
from tapebook.domain.packet import Packet
from tapebook.wiring import Rooms


class Slow:
    """Buys a little after thinking about it."""

    identity = ""

    def __init__(self, thinks: float) -> None:
        self._thinks = thinks

    def decide(self, packet: Packet) -> EngineAnswer:
        """An order, later; the first one to be asked says so."""
        print(json.dumps({"asked": packet.symbol}), flush=True)
        time.sleep(self._thinks)
        return make_answer(packet, "open", reason="thought about it", side="long", notional_usd=50.0, leverage=1)


def main(home: Path, *, seconds: float, thinks: float) -> None:
    """Works for a while; without time to think, with the engines the agents name."""
    rooms = Rooms(home, clock=SystemClock())
    slow = Slow(thinks)
    if thinks:
        rooms.engine = lambda agent: slow  # type: ignore[method-assign]
    said: list[RoleProgress] = []
    print(json.dumps({"begun": str(home)}), flush=True)
    with StopSignal() as stop:
        run_role(rooms, "worker", stop=stop, seconds=seconds, report=said.append)
    problems = sorted({each.problem for each in said if each.problem})
    print(json.dumps({"words": said[-1].words, "problems": problems}), flush=True)
    rooms.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), seconds=float(sys.argv[2]), thinks=float(sys.argv[3]))
