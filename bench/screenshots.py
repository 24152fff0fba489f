"""Screenshots of every page into docs/screenshots: light and dark, on a desk and on a phone.

`python -m bench screenshots` makes a small demo home with documents for it; the figures are how long each page took.
"""

import tempfile
from pathlib import Path

from bench.figure import Figure, seconds
from bench.page import open_page, serving
from tapebook.api import app
from tapebook.desk.demo import prepare_demo_home
from tapebook.surfaces.web.frame import NAVIGATION

FOLDER = Path(__file__).parent.parent / "docs" / "screenshots"
SIZES = {"desk": (1280, 860), "phone": (390, 844)}
DEMO_SECONDS = 40.0
# What a page needs to draw its charts after its first sheet is there.
SETTLE_MS = 900
_RUNBOOK = """# Runbook: trend on bars of five minutes

Follow a trend when the average of 8 bars is ten basis points from that of 32, and leave when they cross back.

## BTC and ETH together
Two longs at once are one position of twice the size: count them together.
"""


def run() -> list[Figure]:
    """Makes all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, app.open(_make_home(Path(folder))) as book, serving(book) as base:
        newest = next(run for run in book.runs(most=500) if run["actions"] and run["actions"][0]["action"] == "open")
        paths = {name.lower(): path for name, path, _ in NAVIGATION}
        paths |= {"agent": "/agents/btc-5m", "decision": f"/decisions/{newest['run_id']}", "recall": "/recall?q=trend"}
        return [_shoot(base, paths, theme, device) for theme in ("light", "dark") for device in SIZES]


def _make_home(folder: Path) -> Path:
    home, docs = folder / "home", folder / "docs"
    docs.mkdir()
    (docs / "trend.md").write_text(_RUNBOOK)
    prepare_demo_home(home, seed=7)
    with app.open(home) as book:
        book.recall.add(docs)
    app.demo(home, seconds=DEMO_SECONDS, paced=False)
    with app.open(home) as book:
        book.recall.propose("btc-5m", "Follow the trend. Count BTC and ETH as one position.\n")
    return home


def _shoot(base: str, paths: dict[str, str], theme: str, device: str) -> Figure:
    width, height = SIZES[device]
    with open_page(width=width, height=height, theme=theme) as page:

        def shoot_all() -> None:
            for name, path in paths.items():
                page.goto(base + path)
                page.wait_for_selector(".tb-main .tb-sheet")
                page.wait_for_timeout(SETTLE_MS)
                place = FOLDER / f"{name}-{theme}-{device}.jpg"
                page.screenshot(path=str(place), type="jpeg", quality=72)

        return Figure(f"{len(paths)} pages, {theme}, {device}", seconds(shoot_all), "s")
