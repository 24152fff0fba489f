"""What every page has: navigation, theme, a title, and the feed that redraws it when something has changed.

A page is a coroutine that reads the façade in a thread and draws. `PageFrame.live` draws a part again whenever the
streams it shows have moved; a page that nobody looks at asks for nothing.
"""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode

from nicegui import run, ui

from tapebook.api.app import Tapebook
from tapebook.errors import TapebookError
from tapebook.surfaces.web.markup import Child, Markup, alert, empty, picks, sheet, tag, together

Given = ParamSpec("Given")
Found = TypeVar("Found")
Drawing = Callable[[], Awaitable[None]]

NAVIGATION = [
    ("Overview", "/", "o"),
    ("Agents", "/agents", "a"),
    ("Decisions", "/decisions", "d"),
    ("Lessons", "/lessons", "l"),
    ("Experience", "/experience", "e"),
    ("Horizons", "/horizons", "h"),
    ("Recall", "/recall", "r"),
    ("Market", "/market", "m"),
    ("Backtests", "/backtests", "b"),
    ("Logs", "/logs", "i"),
    ("Settings", "/settings", "s"),
]
# Soon enough for somebody who watches; each look is one statement on the database.
_REDRAW_SECONDS = 2.0
# NiceGUI gives a page up after three seconds, and what it had begun to read is lost; a busy machine may take longer.
_RESPONSE_SECONDS = 60.0
_SYMBOL = Markup(
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">'
    '<path d="M4 19V5m5 14V9m5 10V3m5 16v-7"/></svg>'
)


class PageFrame:
    """A page that is being drawn: the home, and what everything on it is as of."""

    def __init__(self, book: Tapebook, path: str) -> None:
        self.book = book
        self.path = path

    async def read(self, call: Callable[Given, Found], *args: Given.args, **named: Given.kwargs) -> Found:
        """A read of the façade, in a thread: pages of others go on meanwhile."""
        found = await run.io_bound(lambda: (call(*args, **named),))
        # NiceGUI gives None instead of a result while the server stops, or when it gave the page up.
        if found is None:
            raise CancelledError
        return found[0]

    def html(self, *pieces: Child) -> ui.html:
        """Puts markup on the page, one piece below the other."""
        return ui.html(tag("div", *pieces, cls="tb-stack"), sanitize=False)

    async def live(
        self,
        draw: Drawing,
        *,
        streams: Callable[[str], bool] = lambda stream: True,
        every: float = _REDRAW_SECONDS,
    ) -> None:
        """Draws a part now, and again whenever one of its streams has moved, at most every so many seconds."""
        outer = ui.element("div")
        heads = await self.read(self.book.heads, tape=True)
        with outer:
            shown = ui.element("div").classes("tb-stack")
        with shown:
            await draw_or_say(draw)

        async def redraw() -> None:
            nonlocal heads, shown
            changed = await self.read(self.book.changes, heads)
            heads = changed.heads
            # Only what concerns this part: a chart that is drawn anew loses its zoom.
            if not any(streams(each.stream) for each in changed.moved):
                return
            # Drawn out of sight and then exchanged: reads take a moment, in which a page would jump.
            with outer:
                fresh = ui.element("div").classes("tb-stack tb-unseen")
            with fresh:
                await draw_or_say(draw)
            fresh.classes(remove="tb-unseen")
            shown.delete()
            shown = fresh

        ui.timer(every, redraw)


async def draw_or_say(draw: Drawing) -> None:
    """Draws a part of a page; an error of ours becomes a line on it."""
    try:
        await draw()
    except TapebookError as error:
        ui.html(alert("This cannot be shown", [str(error)], "bad"), sanitize=False)


def page(path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a coroutine the page of an address."""
    return ui.page(path, response_timeout=_RESPONSE_SECONDS)


@contextmanager
def page_frame(
    book: Tapebook, path: str, *, title: str, lead: Child = None, aside: Child = None
) -> Iterator[PageFrame]:
    """The frame of a page around what is drawn inside."""
    ui.page_title(f"{title} · Tapebook")
    theme = _chosen_theme()
    if theme is not None:
        ui.dark_mode(theme == "dark")
    with ui.element("div").classes("tb-root"):
        ui.html(_navigation(path), sanitize=False)
        with ui.element("div").classes("tb-main").props('id="content"'):
            head = [
                tag("h1", title),
                tag("p", lead) if lead else None,
                tag("div", aside, cls="tb-push") if aside else None,
            ]
            ui.html(tag("div", *head, cls="tb-head"), sanitize=False)
            yield PageFrame(book, path)


def _chosen_theme() -> str | None:
    """The theme this browser asked for; None is that of its system."""
    request = ui.context.client.request
    found = request.cookies.get("theme") if request is not None else None
    return found if found in ("dark", "light") else None


def _navigation(path: str) -> Markup:
    def is_here(address: str) -> bool:
        return path == address or (address != "/" and path.startswith(f"{address}/"))

    items = [
        tag(
            "a",
            name,
            tag("kbd", f"g {key}", aria_hidden="true"),
            href=address,
            cls="tb-item",
            data_key=key,
            aria_current="page" if is_here(address) else None,
        )
        for name, address, key in NAVIGATION
    ]
    brand = tag("a", _SYMBOL, tag("span", "Tapebook"), href="/", cls="tb-brand", aria_label="Tapebook")
    foot = tag(
        "div", tag("button", "Dark or light", data_theme_switch=True, type="button"), tag("span", " (t)"), cls="tb-foot"
    )
    skip = tag("a", "Skip to the content", href="#content", cls="tb-skip")
    return tag("div", skip, tag("nav", brand, items, tag("div", cls="tb-gap"), foot, cls="tb-nav", aria_label="Pages"))


async def choose_agent(frame: PageFrame, wanted: str, *, everybody: bool | None = None) -> str:
    """The agent that is asked for, or who traded most; draws the choice, with all together where that can be."""
    names = [each["name"] for each in await frame.read(frame.book.agents)]
    # An agent that was removed since the address was made is no error.
    chosen = wanted if wanted in names else ""
    if names and not chosen and not everybody:
        # Whoever traded most has the most to show; of equals the first.
        accounts = (await frame.read(frame.book.portfolio))["accounts"]
        trades = {each["agent"]: each["closed_trades"] for each in accounts}
        chosen = max(names, key=lambda name: trades.get(name, 0))
    last = [("all together", f"{frame.path}?all=1", not chosen)] if everybody is not None else []
    if names:
        choices = [(name, f"{frame.path}?{query_of(agent=name)}", name == chosen) for name in names]
        frame.html(picks("Agent", [*choices, *last]))
    else:
        frame.html(sheet("Agents", empty("No agent yet", "Add the first:", "tapebook agents add NAME --watch BTC")))
    return chosen


class LazyChart(ui.echart, component="static/chart.js"):
    """A chart that does not keep its page waiting for the library it is drawn with."""


def chart(options: Mapping[str, Any], label: str, *, size: str = "", opens: bool = False) -> LazyChart:
    """A chart with words for those who do not see it; with `opens`, a mark leads to its page."""
    made = LazyChart(dict(options), on_point_click=_follow if opens else None)
    made.props["role"], made.props["aria-label"] = "img", label
    return made.classes(f"tb-chart {size}".strip())


def _follow(event: Any) -> None:
    address = event.data.get("href") if isinstance(event.data, dict) else None
    if address:
        ui.navigate.to(address)


def sheet_of(title: str, note: Child = None) -> ui.element:
    """A titled part of a page into which elements are put."""
    outer = ui.element("section").classes("tb-sheet")
    outer.props["aria-label"] = title
    with outer:
        aside = tag("span", note, cls="tb-note") if note else None
        ui.html(together(tag("h2", title), aside), sanitize=False, tag="header")
        return ui.element("div").classes("tb-body")


def action_button(text: str, *, plain: bool = False) -> ui.button:
    """A button that does something; a plain one is the lesser choice."""
    # Without a colour of NiceGUI's, which no style of ours could overrule.
    made = ui.button(text, color=None).props("no-caps unelevated")
    return made.classes("tb-button tb-plain" if plain else "tb-button")


def query_of(**values: str | int | None) -> str:
    """The query of an address, without what is not given."""
    return urlencode({key: value for key, value in values.items() if value not in (None, "")})
