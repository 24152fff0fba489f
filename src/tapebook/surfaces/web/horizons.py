"""Horizons: a tree from all time over years, quarters and months to days, and what the chosen period came to.

A day opens its trades, and each trade its decisions. Weeks lie across months, so they stand below their year.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, parse_instant
from tapebook.surfaces.web.charts import bars_options
from tapebook.surfaces.web.frame import (
    PageFrame,
    chart,
    choose_agent,
    draw_or_say,
    page,
    page_frame,
    query_of,
    sheet_of,
)
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    Markup,
    badge,
    empty,
    figures,
    key_values,
    label,
    link,
    number,
    plain_value,
    price,
    share,
    sheet,
    side_badge,
    signed_usd,
    table,
    tag,
    usd,
)

LAYERS = {"L1": "All time", "L2": "Year", "L3": "Quarter", "L4": "Month", "L5": "Week", "L6": "Day", "L7": "Now"}
"""The layers from the longest to this moment."""

# As many trades of a day as somebody reads; the agent's page has all.
_TRADES_SHOWN = 100
_TRADES = [
    *(Cells("closed", "tb-fit"), Cells("symbol", "tb-fit"), Cells("side", "tb-fit"), Cells("entry", "num")),
    *(Cells("exit", "num"), Cells("net USD", "num"), Cells("exit reason", "long"), Cells("decisions", "tb-fit")),
]
_CHILDREN = [
    *(Cells("period", "tb-fit"), Cells("result USD", "num"), Cells("trades", "num"), Cells("won", "num")),
    Cells(""),
]


ALL_TIME = ("L1", "LEGACY")
"""The layer and the name of all time."""


class ShownPeriod(NamedTuple):
    """A span of time of a layer, by the name its layer gives it, and what is known of it by key."""

    layer: str
    name: str
    rows: Sequence[Mapping[str, Any]]
    # All time keeps the mean of its years; what it came to is their sum.
    years_usd: float | None = None

    @property
    def values(self) -> dict[str, Any]:
        """What was computed, by key."""
        return {row["key"]: row["value"] for row in self.rows if row["origin"] != "curated"}

    @property
    def result_usd(self) -> float | None:
        """What it came to."""
        if self.years_usd is not None:
            return self.years_usd
        found = next(
            (value for key, value in self.values.items() if key.endswith("_pnl") and key != "ledger_pnl"), None
        )
        return found if isinstance(found, int | float) else None

    @property
    def won_share(self) -> float | None:
        """The share of its trades that won; None without a trade."""
        return self.values["win_count"] / self.values["trade_count"] if self.values.get("trade_count") else None

    @property
    def title(self) -> str:
        """Its name as people say it."""
        return {"L1": "All time", "L7": "Now"}.get(self.layer, self.name)


def register(book: Tapebook) -> None:
    """Adds the page."""

    @page("/horizons")
    async def horizons(agent: str = "", all: int = 0, layer: str = "", period: str = "") -> None:
        with page_frame(book, "/horizons", title="Horizons", lead="From all time down to a day's trades") as frame:
            name = await choose_agent(frame, agent, everybody=bool(all))
            await draw_or_say(lambda: _horizons(frame, name, (layer, period)))


async def _horizons(frame: PageFrame, agent: str, wanted: tuple[str, str]) -> None:
    periods: dict[tuple[str, str], ShownPeriod] = {}
    for layer in LAYERS:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in await frame.read(frame.book.horizons.show, agent or None, layer=layer):
            found.setdefault(row["timeframe"], []).append(row)
        periods |= {(layer, name): ShownPeriod(layer, name, rows) for name, rows in found.items()}
    if ALL_TIME in periods:
        years = sum(each.result_usd or 0.0 for each in periods.values() if each.layer == "L2")
        periods[ALL_TIME] = periods[ALL_TIME]._replace(years_usd=years)
    if not periods:
        advice = "A day is rolled up when it has ended, or at once by:"
        frame.html(sheet("Layers", empty("No period yet", advice, "tapebook horizons rollup")))
        return
    # Without a choice the newest day: it is where trades are.
    days = [key for key in periods if key[0] == "L6"]
    chosen = periods.get(wanted) or periods[max(days) if days else next(iter(periods))]
    with ui.element("div").classes("tb-columns tb-side"):
        frame.html(_tree(agent, list(periods.values()), chosen))
        with ui.element("div"):
            await _period(frame, agent, chosen, _periods_inside(chosen, periods.values()))


def _parent(period: ShownPeriod) -> tuple[str, str] | None:
    """The period above one in the tree; None on top."""
    layer, name = period.layer, period.name
    if layer == "L6":
        return "L4", name[:7]
    if layer == "L5":
        return "L2", name[:4]
    if layer == "L4":
        return "L3", f"{name[:4]}-Q{(int(name[5:7]) + 2) // 3}"
    return {"L3": ("L2", name[:4]), "L2": ALL_TIME}.get(layer)


def _periods_inside(period: ShownPeriod, every: Any) -> list[ShownPeriod]:
    """The periods one is made of, newest first; of a week its days, which the tree has below months."""
    inside = [
        each
        for each in every
        if _parent(each) == (period.layer, period.name)
        or (period.layer == "L5" and each.layer == "L6" and _week_of(each.name) == period.name)
    ]
    # A year is told by its quarters here; its weeks are in the tree.
    return sorted((each for each in inside if each.layer != "L5"), key=lambda each: each.name, reverse=True)


def _week_of(day: str) -> str:
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02}"


def _tree(agent: str, periods: Sequence[ShownPeriod], chosen: ShownPeriod) -> Markup:
    known = {(each.layer, each.name) for each in periods}
    below: dict[tuple[str, str] | None, list[ShownPeriod]] = {}
    for each in sorted(periods, key=lambda each: (each.layer == "L5", each.name), reverse=True):
        # A period whose parent was never rolled up, or is past its retention, stands on top.
        parent = _parent(each)
        below.setdefault(parent if parent in known else None, []).append(each)
    path = {(chosen.layer, chosen.name)}
    upper = _parent(chosen)
    while upper is not None:
        path.add(upper)
        upper = next((_parent(each) for each in periods if (each.layer, each.name) == upper), None)

    def draw(period: ShownPeriod) -> Markup:
        key = (period.layer, period.name)
        query = query_of(agent=agent or None, all=None if agent else 1, layer=period.layer, period=period.name)
        words = [
            tag("span", "" if period.title == LAYERS[period.layer] else LAYERS[period.layer], cls="tb-note"),
            tag("b", period.title),
            signed_usd(period.result_usd),
        ]
        row = tag(
            "a",
            words,
            href=f"/horizons?{query}",
            cls="tb-node",
            aria_current="true" if period is chosen else None,
        )
        children = below.get(key, [])
        if not children:
            return tag("div", row, cls="tb-leaf")
        # Open along the way to what is chosen; a year of days would be a long list.
        inside = tag("div", [draw(each) for each in children], cls="tb-branch")
        # The link stands beside the summary: nothing to click may be inside of something else to click.
        summary = tag("summary", "", aria_label=f"Periods in {period.title}")
        return tag(
            "div",
            [row, tag("details", summary, inside, open=key in path or period.layer in ("L1", "L2"))],
            cls="tb-limb",
        )

    roots = sorted(below.get(None, []), key=lambda each: (each.layer != "L7", each.layer))
    return sheet("Layers", tag("div", [draw(each) for each in roots], cls="tb-tree"), flush=True)


async def _period(frame: PageFrame, agent: str, period: ShownPeriod, inside: Sequence[ShownPeriod]) -> None:
    values = period.values
    if period.result_usd is not None:
        fees, fall = values.get("total_fees"), values.get("max_drawdown")
        last = ("Fees", usd(fees), "USD") if fees is not None else ("Max drawdown", usd(fall), "USD")
        frame.html(
            figures(
                [
                    ("Result", signed_usd(period.result_usd), "USD net"),
                    ("Trades", number(values.get("trade_count")), "closed"),
                    ("Won", share(period.won_share, 0), _interval_text(values.get("win_rate_interval"))),
                    last,
                ]
            )
        )
    if period.layer == "L6":
        await _day_trades(frame, agent, period.name)
    elif inside:
        _inside(frame, agent, period, inside)
    frame.html(_values(period))


def _interval_text(interval: Any) -> str:
    return f"{interval[0]:.0f} to {interval[1]:.0f} %, 95 %" if interval else "of its trades"


def _inside(frame: PageFrame, agent: str, period: ShownPeriod, inside: Sequence[ShownPeriod]) -> None:
    """The periods one is made of, drawn and listed."""
    widest = max([0.01, *(abs(each.result_usd or 0.0) for each in inside)])
    with sheet_of(f"{period.title} by {LAYERS[inside[0].layer].lower()}", "result in USD"):
        if len(inside) > 1:
            drawn = inside[::-1]
            options = bars_options([each.name for each in drawn], [each.result_usd or 0.0 for each in drawn])
            chart(options, f"Result of each {LAYERS[inside[0].layer].lower()}", size="tb-low")
        rows = [
            [
                link(
                    each.name,
                    "horizons",
                    query=query_of(agent=agent, all=None if agent else 1, layer=each.layer, period=each.name),
                ),
                signed_usd(each.result_usd),
                number(each.values.get("trade_count")),
                share(each.won_share, 0),
                _result_bar(each.result_usd or 0.0, widest),
            ]
            for each in inside
        ]
        frame.html(tag("div", table(_CHILDREN, rows, label="Periods inside"), cls="tb-scroll", tabindex="0"))


def _result_bar(value: float, widest: float) -> Markup:
    line = tag("i", cls="down" if value < 0 else None, style=f"width:{abs(value) / widest:.1%}")
    return tag("span", line, cls="tb-bar")


async def _day_trades(frame: PageFrame, agent: str, day: str) -> None:
    """The trades that ended on a day."""
    if not agent:
        return
    # As of its end: the newest closed trades then are those of the day, however many came after.
    end = min(parse_instant(day) + DAY - 1, frame.book.now())
    found = await frame.read(frame.book.trades, agent, status="closed", most=_TRADES_SHOWN, as_of=end)
    trades = [each for each in found if (each["exit_tick_at"] or "").startswith(day)]
    if not trades:
        frame.html(sheet(f"Trades of {day}", empty("No trade ended on this day", "Open ones are on the agent's page.")))
        return
    rows = [_trade_row(each) for each in trades]
    note = plural(len(trades), "trade") + (", the newest" if len(trades) == _TRADES_SHOWN else "")
    frame.html(sheet(f"Trades of {day}", table(_TRADES, rows, label=f"Trades of {day}"), note=note, flush=True))


def _trade_row(trade: Mapping[str, Any]) -> list[Child]:
    ends = {"entry": trade["entry_snapshot_id"], "exit": trade["exit_snapshot_id"]}
    links = [[link(name, "decisions", run_id), " "] for name, run_id in ends.items() if run_id]
    return [
        trade["exit_tick_at"][11:16],
        trade["symbol"],
        side_badge(trade["side"]),
        price(trade["entry_price"]),
        price(trade["exit_price"]),
        signed_usd(trade["net_pnl_usd"]),
        trade["exit_reason"] or "–",
        links or "–",
    ]


def _values(period: ShownPeriod) -> Markup:
    """All that is kept of a period: plain values side by side, then lists of things."""
    lists = [row for row in period.rows if _is_list_of_things(row["value"])]
    plain: dict[str, Child] = {}
    for row in period.rows:
        if row not in lists:
            name = label(row["key"]) + (" (curated)" if row["origin"] == "curated" else "")
            plain[name] = plain_value(row["value"])
    listed = [
        [tag("h3", label(row["key"])), tag("ul", [tag("li", plain_value(each)) for each in row["value"][:12]])]
        for row in lists
    ]
    state = badge("still running") if any(row["origin"] == "live" for row in period.rows) else None
    return sheet(f"{period.title}: all values", key_values(plain, spread=True), listed, note=state)


def _is_list_of_things(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)
