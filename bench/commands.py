"""Commands on a large home: what `agents show`, `doctor` and a look of the executor cost after a million trades.

The floor is a home of a thousand trades, measured in the same run. Rows go straight into the projections, as in
`bench.packet`.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from bench.figure import Figure, seconds
from bench.packet import AGENT, LARGE, NOON, SMALL, _fill
from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.home import make_home

TIMES = 5


def run() -> list[Figure]:
    """All figures of commands."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = (_measured(Path(folder) / str(trades), trades) for trades in (SMALL, LARGE))
    figures = []
    for name, aim in (("agents show", "≤ 1,000"), ("doctor", "≤ 1,000"), ("orders that have not ended", "≤ 5")):
        figures.append(Figure(f"{name}, {SMALL:,} trades", small[name], "ms"))
        ratio = small[name] / large[name]
        figures.append(Figure(f"{name}, {LARGE:,} trades", large[name], "ms", small[name], ratio, aim))
    return figures


def _measured(home: Path, trades: int) -> dict[str, float]:
    """Milliseconds of each, the best of a few."""
    make_home(home)
    with app.open(home, clock=VirtualClock(NOON)) as book:
        book._rooms.book.save_agent(replace(AGENT, engine="hold"), at=NOON)
        _fill(home / "book.db", trades)
        work: dict[str, Callable[[], object]] = {
            "agents show": lambda: book.agent("bench"),
            "doctor": book.doctor,
            "orders that have not ended": book._rooms.work.deployments_with_orders,
        }
        return {name: 1e3 * min(seconds(call) for _ in range(TIMES)) for name, call in work.items()}
