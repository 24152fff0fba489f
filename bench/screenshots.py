"""Screenshots of every page into docs/screenshots: light and dark, on a desktop and on a phone.

`TAPEBOOK_HOME=home python -m bench screenshots` takes them of a home; without one a small demo is made for them. The
figures are how long a set took and what it weighs. Pictures are PNG with a palette: pages have few colours, and a
quarter of the bytes shows them.
"""

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

from bench.figure import Figure, seconds
from bench.page import open_page, serving
from tapebook.api import app
from tapebook.desk.demo import prepare_demo_home
from tapebook.surfaces.web.frame import NAVIGATION

FOLDER = Path(__file__).parent.parent / "docs" / "screenshots"
SIZES = {"": (1280, 860), "-phone": (390, 844)}
DEMO_SECONDS = 40.0
# What a page needs to draw its charts after its last panel is there.
SETTLE_MS = 1_500
_COLOURS = 256
_RUNBOOK = """# Runbook: trend on bars of five minutes

Follow a trend when the average of 8 bars is ten basis points from that of 32, and leave when they cross back.

## BTC and ETH together
Two longs at once are one position of twice the size: count them together.
"""


def run() -> list[Figure]:
    """Takes all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _shown_home() as home, app.open(home) as book, serving(book) as base:
        paths = pages_of(book)
        return [
            figure for theme in ("light", "dark") for device in SIZES for figure in _shoot(base, paths, theme, device)
        ]


def pages_of(book: app.Tapebook) -> dict[str, str]:
    """The address of every page by the name of its picture, with what the home has most of."""
    paths = {name.lower(): path for name, path, _ in NAVIGATION}
    # The agent that traded most has most to show.
    agents = sorted(book.portfolio()["accounts"], key=lambda account: -account["closed_trades"])
    if agents:
        name = agents[0]["agent"]
        paths |= {"agent": f"/agents/{name}", "lessons": f"/lessons?agent={name}"}
        paths |= {"experience": f"/experience?agent={name}", "horizons": f"/horizons?agent={name}"}
        trades = book.trades(name, status="closed", most=200)
        runs = [run for trade in trades if (run := trade["entry_snapshot_id"])]
        # One whose reply cited a document shows more than one that did not.
        cited = [run for run in runs[:40] if any(each["cited"] for each in book.run(run)["citations"] or [])]
        if runs:
            paths["decision"] = f"/decisions/{[*cited, *runs][0]}"
    done = [each["id"] for each in book.backtests.all() if each["status"] == "done"]
    if done:
        paths["backtest"] = f"/backtests/{done[0]}"
    if len(done) > 1:
        paths["comparison"] = f"/backtests/compare?first={done[0]}&second={done[1]}"
    return paths | {"recall": "/recall?q=trend"}


@contextmanager
def _shown_home() -> Iterator[Path]:
    """The home that is named, or one that is made for this."""
    if named := os.environ.get("TAPEBOOK_HOME"):
        yield Path(named)
        return
    with tempfile.TemporaryDirectory() as folder:
        home, docs = Path(folder) / "home", Path(folder) / "docs"
        docs.mkdir()
        (docs / "trend.md").write_text(_RUNBOOK)
        prepare_demo_home(home, seed=7)
        with app.open(home) as book:
            book.recall.add(docs)
        app.demo(home, seconds=DEMO_SECONDS, paced=False)
        with app.open(home) as book:
            book.recall.propose("btc-5m", "Follow the trend. Count BTC and ETH as one position.\n")
            for memory in ("on", "off"):
                book.backtest("btc-5m", memory=memory, chunks="none")
        yield home


def _shoot(base: str, paths: dict[str, str], theme: str, device: str) -> list[Figure]:
    width, height = SIZES[device]
    places = [FOLDER / f"{name}-{theme}{device}.png" for name in paths]
    with open_page(width=width, height=height, theme=theme) as page:
        # A machine that others use too may be slow; a picture is worth the wait.
        page.set_default_timeout(120_000)

        def shoot_all() -> None:
            for place, path in zip(places, paths.values(), strict=True):
                _take_picture(page, base + path, place)

        took = seconds(shoot_all)
    weight = sum(place.stat().st_size for place in places) / 2**20
    what = f"{len(paths)} pages, {theme}, {device.strip('-') or 'desktop'}"
    return [Figure(what, took, "s"), Figure(f"{what}, weight", weight, "MB")]


def _take_picture(page: Page, address: str, place: Path) -> None:
    page.goto(address)
    page.wait_for_selector(".tb-main .tb-sheet")
    # Parts come one after another: the picture is taken when no more of them come.
    before = -1
    while before != (before := page.locator(".tb-sheet").count()):
        page.wait_for_timeout(SETTLE_MS)
    place.write_bytes(with_palette(page.screenshot(type="png")))


def with_palette(png: bytes) -> bytes:
    """A picture of a browser in at most 256 colours: the most frequent, and for every other the nearest of them."""
    pixels = _pixels(png)
    rows, columns, _ = pixels.shape
    packed = pixels[:, :, 0].astype(np.uint32) << 16 | pixels[:, :, 1].astype(np.uint32) << 8 | pixels[:, :, 2]
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    chosen = colours[np.argsort(-counts)[:_COLOURS]]
    every, few = _channels(colours), _channels(chosen)
    # Squares by the binomial formula: a table of all differences would be large.
    distance = (few**2).sum(1)[None, :] - 2 * (every @ few.T)
    indices = distance.argmin(1).astype(np.uint8)[places].reshape(rows, columns)
    lines = np.zeros((rows, columns + 1), np.uint8)
    lines[:, 1:] = indices
    palette = few.astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    data = zlib.compress(lines.tobytes(), 9)
    parts = [(b"IHDR", header), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _channels(packed: NDArray[np.uint32]) -> NDArray[np.int64]:
    return np.stack([packed >> 16 & 255, packed >> 8 & 255, packed & 255], axis=1).astype(np.int64)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _pixels(png: bytes) -> NDArray[np.uint8]:
    """The pixels of a PNG as browsers write them: eight bits, three or four channels, no interlacing."""
    place, data, size = 8, b"", (0, 0, 0)
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        content = png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            columns, rows, _, colour = struct.unpack(">IIBB", content[:10])
            size = (rows, columns, 4 if colour == 6 else 3)
        data += content if kind == b"IDAT" else b""
        place += 12 + length
    rows, columns, depth = size
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(rows, 1 + columns * depth)
    found = np.zeros((rows, columns * depth), np.uint8)
    before = np.zeros(columns * depth, np.uint8)
    for row in range(rows):
        found[row] = before = _unfiltered(raw[row, 0], raw[row, 1:], before, depth=depth)
    return found.reshape(rows, columns, depth)[:, :, :3]


def _unfiltered(kind: int, line: NDArray[np.uint8], above: NDArray[np.uint8], *, depth: int) -> NDArray[np.uint8]:
    """A line of a PNG without the prediction of its filter."""
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    if kind == 1:
        sums: NDArray[np.uint8] = np.cumsum(line.reshape(-1, depth), axis=0, dtype=np.uint8).ravel()
        return sums
    # The average and Paeth's predictor depend on the pixel to the left, so they go pixel by pixel.
    made = bytearray(len(line))
    values, upper = line.tobytes(), above.tobytes()
    for place, value in enumerate(values):
        left = made[place - depth] if place >= depth else 0
        corner = upper[place - depth] if place >= depth else 0
        guess = (left + upper[place]) // 2 if kind == 3 else _paeth(left, upper[place], corner)
        made[place] = value + guess & 255
    return np.frombuffer(bytes(made), np.uint8)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    near = (abs(guess - left), abs(guess - above), abs(guess - corner))
    return left if near[0] <= near[1] and near[0] <= near[2] else above if near[1] <= near[2] else corner
