"""A small demo home with documents and a proposal, served in this process, and a page of a real browser on it."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page

from tapebook.api import app
from tapebook.desk.demo import prepare_demo_home
from tapebook.surfaces.web.server import create_page_app
from tests.sources.polymarket.hostile_market import add_hostile_market
from tests.surfaces.web.panels import PANELS, page_name

# Long enough for a trade that has ended.
DEMO_SECONDS = 4.0
# An hour and a half of the demo's tape.
BACKTEST_START = "2026-01-05T00:00:00Z"
HOSTILE = '<img src="http://elsewhere.invalid/x.png" onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="session")
def aged_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decisions with citations, trades, a proposal, and texts of others that are written as markup."""
    folder, docs = tmp_path_factory.mktemp("page") / "home", tmp_path_factory.mktemp("docs", numbered=False)
    (docs / "trend.md").write_text("# Trend of BTC on bars of 5 minutes\n\nLeave when the averages cross back.\n" * 3)
    (docs / "hostile.md").write_text(f"# {HOSTILE} trend\n\nTrend of BTC and ETH, bars, volatility {HOSTILE}\n")
    prepare_demo_home(folder, seed=7)
    with app.open(folder) as book:
        book.recall.add(docs)
        book.add_agent("mix-5m", {"watch": "BTC", "engine": "ensemble", "strategy": "Several rules."})
    app.demo(folder, seconds=DEMO_SECONDS, paced=False)
    add_hostile_market(folder)
    with app.open(folder) as book:
        for memory in ("on", "none"):
            book.backtest("btc-5m", start=BACKTEST_START, memory=memory, chunks="none")
        book.recall.append("journal", "btc-5m", f"A note of somebody: {HOSTILE}")
        book.recall.propose("btc-5m", f"Follow the trend. {HOSTILE}\n")
        book.edit_agent("btc-5m", {"strategy": f"Follow the trend {HOSTILE}"}, reason=HOSTILE)
    return folder


@pytest.fixture(scope="session")
def served(aged_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pages of a copy of that home."""
    folder = shutil.copytree(aged_home, tmp_path_factory.mktemp("served") / "home")
    with app.open(folder) as book:
        yield from serve(book)


def serve(book: app.Tapebook) -> Iterator[str]:
    """Serves a home in a thread; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(create_page_app(book), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server ended before it began"
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


class Watched:
    """A page of the browser, and everything it complained about or asked elsewhere for."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.problems: list[str] = []
        page.set_default_timeout(10_000)
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._note_request(request.url))

    def open(self, path: str) -> Page:
        """Opens a page and waits until it is drawn."""
        self.page.goto(f"{self.base}{path}")
        return self.drawn()

    def drawn(self) -> Page:
        """The page that is open, when it is drawn; each of its panels has to stand in docs/page.md."""
        self.page.wait_for_selector(".tb-main .tb-sheet")
        name = page_name(urlsplit(self.page.url).path)
        titles = self.page.locator("section.tb-sheet").evaluate_all("found => found.map(each => each.ariaLabel)")
        known = [pattern for row in PANELS if row.page == name for pattern in row.patterns]
        unknown = [title for title in titles if not any(each.fullmatch(title) for each in known)]
        self.problems += [f"no row of docs/page.md has the panel {title!r} of {name}" for title in unknown]
        return self.page

    def _note_request(self, url: str) -> None:
        if not url.startswith((self.base, self.base.replace("http", "ws"), "data:", "blob:")):
            self.problems.append(f"asked elsewhere: {url}")


@pytest.fixture(scope="module")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Somebody who has been here before: scripts and styles, which are most of a page, are fetched once."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def watched(served: str, visitor: BrowserContext) -> Iterator[Watched]:
    """A fresh page; whatever it complains about fails the test."""
    found = Watched(visitor.new_page(), served)
    try:
        yield found
        assert found.problems == []
        # What was chosen, such as the theme, is the test's own.
        found.page.evaluate("localStorage.clear()")
        visitor.clear_cookies()
    finally:
        found.page.close()
