"""The pages: how long a browser takes for each with 100,000 trades, against that of a home without any, in one run.

Both homes know the same day of a market, and the trades come in as fills of the past do. A page counts as drawn when
its first sheet is there and, on an agent's page, the grid of its trades with the first row if there is one.
"""

import csv
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Literal

import uvicorn
from playwright.sync_api import Page, sync_playwright

from bench.figure import Figure, seconds
from bench.packet import NOON, write_market
from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.domain.units import MINUTE, SECOND, iso_text
from tapebook.home import make_home
from tapebook.surfaces.web.server import create_page_app
from tapebook.wiring import Rooms

TRADES = 100_000
LOADS = 7
PAGES = {
    "overview": "",
    "agents": "/agents",
    "agent": "/agents/bench",
    "decisions": "/decisions",
    "lessons": "/lessons?agent=bench",
    "experience": "/experience?agent=bench",
    "horizons": "/horizons?agent=bench",
    "recall": "/recall",
    "market": "/market",
    "backtests": "/backtests",
    "logs": "/logs",
    "settings": "/settings",
}
# What is waited for in a home without trades, and in one with them.
_SHEET = (".tb-main .tb-sheet", ".tb-main .tb-sheet")
_GRID = (".tb-grid .ag-root", ".tb-grid .ag-row [col-id=symbol]")
# What was imported is known a moment after the clock that it was imported by.
_LATER = NOON + SECOND
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def run() -> list[Figure]:
    """Every page in both homes, by turns: what else the machine does falls on both alike."""
    with tempfile.TemporaryDirectory() as folder:
        empty = make_trading_home(Path(folder) / "empty", 0)
        full = make_trading_home(Path(folder) / "full", TRADES)
        with served_apart(empty) as floor, served_apart(full) as address, open_page() as page:
            times = {
                name: _median_times(page, {floor + path: drawn[0], address + path: drawn[1]})
                for name, path in PAGES.items()
                for drawn in [_GRID if name == "agent" else _SHEET]
            }
    return [
        Figure(f"page, {name}, {TRADES:,} trades", took, "ms", least, least / took, "≥ 0.5")
        for name, (least, took) in times.items()
    ]


def make_trading_home(home: Path, trades: int) -> Path:
    """A home with an agent that made so many trades, a minute each."""
    make_home(home)
    rooms = Rooms(home, clock=VirtualClock(NOON))
    write_market(rooms)
    rooms.close()
    with app.open(home, clock=VirtualClock(NOON)) as book:
        book.add_agent("bench", {"watch": "BTC, ETH"})
        if trades:
            fills = home.parent / "fills.csv"
            _write_fills(fills, trades)
            took = seconds(lambda: book.import_fills(fills, agent="bench"))
            print(f"  {trades:,} trades booked in {took:.0f} s", flush=True)
    return home


@contextmanager
def served_apart(home: Path) -> Iterator[str]:
    """The address of a home's pages, served by a process of their own: NiceGUI has one application in each."""
    spawn = get_context("spawn")
    addresses, done = spawn.Queue(), spawn.Event()
    process = spawn.Process(target=_serve_home, args=(home, addresses, done), daemon=True)
    process.start()
    try:
        yield addresses.get(timeout=60)
    finally:
        done.set()
        process.join(20)


def _serve_home(home: Path, addresses: "Queue[str]", done: Event) -> None:
    with app.open(home, clock=VirtualClock(_LATER)) as book, serving(book) as address:
        addresses.put(address)
        done.wait()


def _median_times(page: Page, addresses: Mapping[str, str]) -> list[float]:
    """The median time of each address in milliseconds, until what is named beside it is there."""

    def show(address: str, drawn: str) -> None:
        page.goto(address)
        page.wait_for_selector(drawn)

    for address, drawn in addresses.items():
        show(address, drawn)
    took: dict[str, list[float]] = {address: [] for address in addresses}
    for _ in range(LOADS):
        for address, drawn in addresses.items():
            took[address].append(1000 * seconds(partial(show, address, drawn)))
    return [statistics.median(each) for each in took.values()]


def _write_fills(path: Path, trades: int) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "symbol", "side", "size", "price", "fee", "order_id"])
        for place in range(trades):
            opened = NOON - (trades - place + 1) * 2 * MINUTE
            price = 65_000 + place % 97
            closed, moved = opened + MINUTE, place % 13 - 6
            rows.writerow([iso_text(opened), "BTC", "buy", "0.01", price, "0.3", f"o{place}"])
            rows.writerow([iso_text(closed), "BTC", "sell", "0.01", price + moved, "0.3", f"c{place}"])


@contextmanager
def serving(book: app.Tapebook) -> Iterator[str]:
    """The address of a home's pages, served in a thread."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(create_page_app(book), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def open_page(*, width: int = 1440, height: int = 900, theme: str = "light") -> Iterator[Page]:
    """A page of a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        scheme: Literal["dark", "light"] = "dark" if theme == "dark" else "light"
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        yield context.new_page()
        browser.close()
