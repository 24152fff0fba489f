"""The first page: what all agents are worth and hold, the day, costs, health and incidents."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.domain.text import plural
from tapebook.domain.units import DAY
from tapebook.surfaces.web.charts import equity_options
from tapebook.surfaces.web.frame import PageFrame, chart, page, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    Markup,
    alert,
    badge,
    code_text,
    empty,
    figures,
    key_values,
    label,
    link,
    moment,
    number,
    picks,
    price,
    share,
    sheet,
    side_badge,
    signed_share,
    signed_usd,
    size,
    span_text,
    sparkline,
    table,
    tag,
    usd,
)

# A week is shown first: a day says little, and all there is may be slow to read.
PERIODS = {"day": 1, "week": 7, "month": 30, "year": 365, "all": 0}
"""The periods of the selector, in days; zero is all there is."""

# A market moves all the time, and whoever reads a number wants it to stand still for a moment. A line of a year takes
# longer to read, and what is new on it is not seen so soon.
_REDRAW_SECONDS, _REDRAW_LONG_SECONDS = 5.0, 30.0
_LONG_PERIODS = ("year", "all")
# A line for each of so many agents; a table of more is for numbers.
_SPARKLINES = 12
_SPARK_POINTS = 40

POSITION_CELLS = [
    *(Cells("Agent", "tb-fit"), Cells("Symbol", "tb-fit"), Cells("Side", "tb-fit"), Cells("Size", "num")),
    *(Cells("Entry", "num"), Cells("Mark", "num"), Cells("Value USD", "num"), Cells("Unrealised USD", "num")),
    *(Cells("Since", "tb-fit"), Cells("Decision", "tb-fit")),
]
"""The columns of a table of positions."""

_ACCOUNTS = [
    *(Cells("Agent", "tb-fit"), Cells("Engine"), Cells("Equity USD", "num"), Cells("Over the period")),
    *(Cells("Today USD", "num"), Cells("Exposure USD", "num"), Cells("Trades", "num"), Cells("Won", "num")),
    *(Cells("Net USD", "num"), Cells("Last decision", "tb-fit"), Cells("State", "tb-fit")),
]
_DECISIONS = [
    *(Cells("As of", "tb-fit"), Cells("Agent", "tb-fit"), Cells("Symbol", "tb-fit"), Cells("Decision", "tb-fit")),
    *(Cells("Status", "tb-fit"), Cells("Reason", "long")),
]
_CHANNEL = "channel "


def register(book: Tapebook) -> None:
    """Adds the page."""

    @page("/")
    async def overview(period: str = "week") -> None:
        chosen = period if period in PERIODS else "week"
        choices = [(name, f"/?{query_of(period=name)}", name == chosen) for name in PERIODS]
        with page_frame(
            book, "/", title="Overview", lead="All agents of this home", aside=picks("Period", choices)
        ) as frame:
            every = _REDRAW_LONG_SECONDS if chosen in _LONG_PERIODS else _REDRAW_SECONDS
            await frame.live(lambda: _draw(frame, chosen), every=every)


async def _draw(frame: PageFrame, period: str) -> None:
    status = await frame.read(frame.book.status)
    # What is wrong comes before what is earned.
    if status["incidents"]:
        found = [f"{each['name']}: {each['detail']}" for each in status["incidents"]]
        frame.html(alert(plural(len(found), "incident"), found))
    if status["halted"] is not None:
        frame.html(alert("The desk is halted: no order is sent", [status["halted"]], "bad"))
    if not status["accounts"]:
        advice = "An account begins with an agent's first decision. Start the desk, or look at a demo:"
        frame.html(sheet("Accounts", empty("No account yet", advice, "tapebook up", "tapebook demo")), _health(status))
        return
    # Of a period: all there is could be years, and a line has no more points than a screen.
    since = period_start(frame.book, period)
    read = await frame.read(frame.book.equity_by_agent, since=since, most_each=_SPARK_POINTS)
    equity = read["together"]
    frame.html(_figures(status, equity, period))
    with ui.element("div").classes("tb-columns tb-wide"):
        with ui.element("div"), sheet_of("Equity and drawdown", span_text(equity)):
            chart(equity_options(equity), "Equity and drawdown of all agents over the period", size="tb-health")
        with ui.element("div"):
            frame.html(_health(status), _today(status))
    frame.html(_accounts(status, dict(islice(read["agents"].items(), _SPARKLINES))), _positions(status))
    runs = await frame.read(frame.book.runs, most=8)
    frame.html(sheet("Newest decisions", decisions_table(runs), note=link("all decisions", "decisions"), flush=True))


def period_start(book: Tapebook, period: str) -> int | None:
    """When a period begins that ends now; None for all there is."""
    days = PERIODS.get(period, 7)
    return book.now() - days * DAY if days else None


def _figures(status: Mapping[str, Any], equity: Mapping[str, Any], period: str) -> Markup:
    # Counted here: a status lists positions by account.
    held = sum(len(each["positions"]) for each in status["accounts"])
    span = "All time" if period == "all" else f"Past {period}"
    return figures(
        [
            ("Equity", usd(status["equity_usd"]), f"USD in {plural(len(status['accounts']), 'account')}"),
            ("Today", signed_usd(status["day_usd"]), "since 00:00 UTC"),
            (span, signed_usd(equity["change_usd"]), signed_share(equity["change_share"])),
            ("Max drawdown", share(equity["drawdown_share"], 2), f"{usd(equity['drawdown_usd'])} USD"),
            ("Open positions", number(held), f"{usd(status['exposure_usd'], 0)} USD exposed"),
            ("Working orders", number(len(status["orders"])), "sent or resting"),
        ]
    )


def _today(status: Mapping[str, Any]) -> Markup:
    """What today came to, of all accounts together."""
    accounts = status["accounts"]
    traded, refused = (sum(each[key] for each in accounts) for key in ("executed_today", "refused_last_hour"))
    return sheet(
        "Today",
        key_values(
            {
                "change of equity": signed_usd(status["day_usd"]),
                "realised": signed_usd(sum(each["realised_today_usd"] for each in accounts)),
                "unrealised, open": signed_usd(status["unrealised_usd"]),
                "orders executed": number(traded),
                "refused in the past hour": number(refused),
                "model cost": usd(status["model_usd_today"], 4),
            },
            numbers=True,
        ),
        note="USD, since 00:00 UTC",
    )


def _health(status: Mapping[str, Any]) -> Markup:
    """Channels of the market, processes and the other checks; what fails is open and comes first."""
    channels = [each for each in status["health"] if each["name"].startswith(_CHANNEL)]
    others = [each for each in status["health"] if each not in channels]
    failed = [each for each in others if not each["ok"]]
    late = [each for each in channels if not each["ok"]]
    processes = [each for each in others if each["name"] == "processes"]
    rows: list[Child] = [_check_line(each) for each in failed]
    fresh = f"{len(channels) - len(late)} of {len(channels)} fresh"
    listed = [
        _check_line(each, name=each["name"].removeprefix(_CHANNEL))
        for each in sorted(channels, key=lambda each: each["ok"])
    ]
    if channels:
        rows.append(_check_group("Market channels", fresh, listed, is_ok=not late))
    rows += [_check_line(each, name="Processes") for each in processes if each["ok"]]
    rest = [_check_line(each) for each in others if each["ok"] and each["name"] != "processes"]
    rows.append(_check_group("Other checks", f"{len(rest)} ok", rest, is_ok=True))
    state = (
        badge("✓ healthy", "good") if status["healthy"] else badge(plural(len(status["incidents"]), "incident"), "bad")
    )
    return sheet("Health", rows, note=state, flush=True)


def _check_group(title: str, summary: str, lines: Sequence[Markup], *, is_ok: bool) -> Markup:
    head = tag("summary", _dot(is_ok), tag("b", title), tag("span", summary, cls="tb-note"), cls="tb-check")
    # What somebody opened stays open when the part is drawn anew.
    return tag("details", head, tag("div", lines, cls="tb-checks", tabindex="0"), open=not is_ok, data_keep=title)


def _check_line(check: Mapping[str, Any], *, name: str | None = None) -> Markup:
    words = tag("b", label(name or check["name"]))
    return tag("div", _dot(check["ok"]), words, tag("span", code_text(check["detail"]), cls="tb-note"), cls="tb-check")


def _dot(is_ok: bool) -> Markup:
    """A sign and a colour for whether something is well."""
    return tag("span", "✓" if is_ok else "✗", cls="tb-dot good" if is_ok else "tb-dot bad", aria_hidden="true")


def _positions(status: Mapping[str, Any]) -> Markup:
    rows = [positions_row(each) for account in status["accounts"] for each in account["positions"]]
    if not rows:
        return sheet("Open positions", empty("No open position", "Each appears here with the decision that opened it."))
    return sheet("Open positions", table(POSITION_CELLS, rows, label="Open positions"), flush=True)


def positions_row(held: Mapping[str, Any]) -> list[Any]:
    """The cells of a position."""
    # A position that was imported has no decision behind it.
    why = (
        link("why", "decisions", held["run_id"], aria_label=f"Why {held['symbol']} was opened")
        if held["run_id"]
        else "–"
    )
    return [
        link(held["agent"], "agents", held["agent"]),
        held["symbol"],
        side_badge(held["side"]),
        size(held["size"]),
        price(held["entry_price"]),
        price(held["mark"]),
        # Without its sign: the side says it.
        usd(abs(held["value_usd"])),
        signed_usd(held["unrealised_usd"]),
        moment(held["opened_at"]),
        why,
    ]


def _accounts(status: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]) -> Markup:
    drawn = {name: [point["equity_usd"] for point in line["points"]] for name, line in lines.items()}
    rows = [
        [
            link(each["agent"], "agents", each["agent"]),
            each["engine"],
            usd(each["equity_usd"]),
            sparkline(drawn.get(each["agent"], []), name=f"Equity of {each['agent']}"),
            signed_usd(each["day_usd"]),
            usd(each["exposure_usd"], 0),
            number(each["closed_trades"]),
            share(each["won_trades"] / each["closed_trades"] if each["closed_trades"] else None, 0),
            signed_usd(each["net_pnl_usd"]),
            moment(each["last_run_at"]),
            account_state(each),
        ]
        for each in status["accounts"]
    ]
    return sheet("Agents", table(_ACCOUNTS, rows, label="Agents and their accounts"), flush=True)


def account_state(account: Mapping[str, Any]) -> Markup:
    """Whether an agent may trade."""
    if account["halted"] is not None:
        return badge(f"halted: {account['halted']}", "bad")
    return badge("enabled") if account["enabled"] else badge("disabled", "warn")


def decisions_table(runs: list[Any]) -> Markup:
    """Decisions, each with a link to its why."""
    if not runs:
        return empty("No decision yet", "Let the agents trade, and every decision appears here:", "tapebook up")
    rows = [
        [
            link(moment(run["as_of"]), "decisions", run["run_id"]),
            link(run["agent"], "agents", run["agent"]),
            run["symbol"],
            ", ".join(_action_text(action) for action in run["actions"]) or "none",
            run_state(run),
            run["error"] or "; ".join(action["reason"] for action in run["actions"]),
        ]
        for run in runs
    ]
    return table(_DECISIONS, rows, label="Decisions")


def run_state(run: Mapping[str, Any]) -> Markup:
    """What became of a decision; one of a shadow was only asked for, and never trades."""
    if run["trigger"] == "shadow":
        return badge("shadow")
    # A refusal says more than the status, which is that of the whole run.
    refused = [action["rule"] for action in run["actions"] if action["rule"]]
    if refused:
        return badge(f"refused: {refused[0]}", "warn")
    tone = {"failed": "bad", "rejected": "warn", "expired": "warn", "done": "good"}.get(run["status"], "")
    return badge(run["status"], tone)


def _action_text(action: Mapping[str, Any]) -> str:
    words = [action["action"], action["side"] or ""]
    if action["action"] in ("open", "adjust"):
        words.append(f"{action['notional_usd']:,.0f} USD at {action['leverage']}x")
    return " ".join(word for word in words if word)
