"""Agents: all of them, and one with its chart, trades, risk, weights, prompt and versions."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
from fastapi import Response
from nicegui import app as pages_app
from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.domain.text import plural
from tapebook.errors import TapebookError
from tapebook.surfaces.web.charts import candle_options, lines_options
from tapebook.surfaces.web.decisions import parts_table
from tapebook.surfaces.web.documents import diff_block
from tapebook.surfaces.web.frame import (
    PageFrame,
    action_button,
    chart,
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
    alert,
    bar,
    empty,
    figures,
    key_values,
    label,
    length_text,
    link,
    number,
    page_path,
    picks,
    plain_value,
    share,
    sheet,
    signed_usd,
    table,
    tag,
    text_block,
    usd,
)
from tapebook.surfaces.web.overview import POSITION_CELLS, account_state, decisions_table, period_start, positions_row

# As many bars as a wide screen can tell apart, and marks enough for them.
_BARS_SHOWN, _MARKS_SHOWN = 240, 150
_GRID_PART = 100
# A chart that is drawn anew loses its zoom, and bars end every minute at most.
_CHART_SECONDS = 20.0
# Older versions are had by `tapebook agents show --version`.
_VERSIONS_SHOWN = 12
# Facts about an agent that are no part of its profile.
_NO_SETTINGS = ("name", "version", "removed", "deployment", "closed_trades", "net_pnl_usd", "dry_orders")
_BAR_CHOICES = (1, 5, 15, 60, 240)
_AGENTS = [
    *(Cells("agent", "tb-fit"), Cells("engine", "tb-fit"), Cells("watches"), Cells("mode", "tb-fit")),
    *(Cells("decides every", "num"), Cells("equity USD", "num"), Cells("net USD", "num"), Cells("trades", "num")),
    *(Cells("version", "num"), Cells("state", "tb-fit")),
]
_RISK = [Cells("limit"), Cells("used", "num"), Cells("of", "num"), Cells("")]


def register(book: Tapebook) -> None:
    """Adds the pages, and the rows of the grid of trades."""

    @page("/agents")
    async def agents() -> None:
        with page_frame(book, "/agents", title="Agents", lead="Everyone who trades in this home") as frame:
            await frame.live(lambda: _list(frame), streams=lambda stream: stream != "tape")

    @page("/agents/{name}")
    async def agent(name: str, symbol: str = "", minutes: int = 0, period: str = "week") -> None:
        with page_frame(book, f"/agents/{name}", title=name, lead="Agent") as frame:
            await draw_or_say(lambda: _agent(frame, name, symbol, minutes))

    # The grid asks for its rows itself: what is put into a page grows with the number of trades.
    @pages_app.get("/page/trades/{name}")
    def trades(name: str, most: int = _GRID_PART, before: str | None = None) -> Response:
        found = book.trades(name, most=min(max(most, 1), 1000), before=before or None)
        # FastAPI would look at every value of every row before it encodes one.
        body = msgspec.json.encode({"rows": list(found), "next": found.next})
        return Response(body, media_type="application/json")


async def _list(frame: PageFrame) -> None:
    found = await frame.read(frame.book.agents)
    if not found:
        frame.html(
            sheet(
                "Agents",
                empty("No agent yet", "Add the first:", "tapebook agents add btc-5m --watch BTC --engine trend"),
            )
        )
        return
    accounts = {each["agent"]: each for each in (await frame.read(frame.book.portfolio))["accounts"]}
    rows = [_agent_row(each, accounts.get(each["name"])) for each in found]
    frame.html(sheet("Agents", table(_AGENTS, rows, label="Agents"), flush=True))


def _agent_row(profile: Mapping[str, Any], account: Mapping[str, Any] | None) -> list[Child]:
    state = account or {"halted": None, "enabled": profile["enabled"]}
    return [
        link(profile["name"], "agents", profile["name"]),
        profile["engine"] or "default",
        ", ".join(profile["watch"]),
        "dry run" if profile["mode"] == "dry_run" else "trades",
        f"{profile['every_minutes']:g} min",
        usd(account["equity_usd"]) if account else "–",
        signed_usd(account["net_pnl_usd"]) if account else "–",
        number(account["closed_trades"]) if account else "–",
        number(profile["version"]),
        account_state(state),
    ]


async def _agent(frame: PageFrame, name: str, symbol: str, minutes: int) -> None:
    profile = await frame.read(frame.book.agent, name)
    # An address may name a symbol that is watched no longer.
    shown = symbol if symbol in profile["watch"] else profile["watch"][0]
    length = minutes if minutes in _BAR_CHOICES else max(profile["bar_minutes"], 1)
    await frame.live(lambda: _numbers(frame, name))
    # The choice is in the address, so that a view can be kept and sent.
    here = page_path("agents", name)
    symbols = [
        (each, f"{here}?{query_of(symbol=each, minutes=minutes or None)}", each == shown) for each in profile["watch"]
    ]
    lengths = [
        (length_text(each), f"{here}?{query_of(symbol=shown, minutes=each)}", each == length)
        for each in sorted({*_BAR_CHOICES, length})
    ]
    frame.html(tag("div", picks("Symbol", symbols), picks("Bar", lengths), cls="tb-controls"))
    await frame.live(lambda: _chart(frame, name, shown, length), every=_CHART_SECONDS)
    await frame.live(lambda: _holdings(frame, profile), streams=lambda stream: stream != "tape")
    _trades_grid(name, rows=profile["closed_trades"])
    await draw_or_say(lambda: _weights(frame, name, shown))
    await draw_or_say(lambda: _prompt(frame, profile, shown))
    await draw_or_say(lambda: _versions(frame, profile))


async def _numbers(frame: PageFrame, name: str) -> None:
    found = await frame.read(frame.book.portfolio, name)
    # Before its first decision an agent has no account.
    if not found["accounts"]:
        return
    account = found["accounts"][0]
    equity = await frame.read(frame.book.equity, name, since=period_start(frame.book, "week"))
    won = account["won_trades"] / account["closed_trades"] if account["closed_trades"] else None
    frame.html(
        figures(
            [
                ("Equity", usd(account["equity_usd"]), account_state(account)),
                ("Today", signed_usd(account["day_usd"]), f"{usd(account['realised_today_usd'])} USD realised"),
                ("Past week", signed_usd(equity["change_usd"]), f"drawdown {share(equity['drawdown_share'], 2)}"),
                ("Closed trades", number(account["closed_trades"]), f"{share(won, 0)} won"),
                ("Net of all trades", signed_usd(account["net_pnl_usd"]), "USD"),
                ("Exposure", usd(account["exposure_usd"], 0), f"USD, {plural(len(account['positions']), 'position')}"),
            ]
        )
    )


async def _chart(frame: PageFrame, name: str, symbol: str, minutes: int) -> None:
    with sheet_of(f"{symbol}, bars of {length_text(minutes)}", "a mark opens its decision; scroll to zoom"):
        try:
            bars = await frame.read(frame.book.candles, symbol, minutes=minutes, most=_BARS_SHOWN)
        except TapebookError:
            # Nothing of this symbol is on the tape yet.
            bars = []
        if not bars:
            frame.html(
                empty("No bars yet", f"Nothing of {symbol} is on the tape. Follow the market:", "tapebook ingest")
            )
            return
        marks = await frame.read(_marks, frame.book, name, symbol, since=bars[0]["at"])
        chart(
            candle_options(bars, marks),
            f"Candles of {symbol} with entries, exits and refusals",
            size="tb-tall",
            opens=True,
        )


def _marks(book: Tapebook, name: str, symbol: str, *, since: str) -> list[dict[str, Any]]:
    """What an agent did on a symbol since a moment, as marks of a chart."""
    found: list[dict[str, Any]] = []
    # The newest are enough: bars before them are not drawn.
    for trade in book.trades(name, most=_MARKS_SHOWN):
        if trade["symbol"] == symbol:
            found += _trade_marks(trade)
    for run in book.runs(name, most=_MARKS_SHOWN):
        refused = [action for action in run["actions"] if action["rule"] and action["symbol"] == symbol]
        found += [
            _mark("refused", run["as_of"], None, words=f"{action['rule']}: {action['detail']}", run_id=run["run_id"])
            for action in refused
        ]
    for change in book.hypotheses(name)["history"]:
        words = f"{change['change']}: {change['lesson']['statement']}"
        found.append(
            _mark("lesson", change["at"], None, words=words, run_id=None)
            | {"href": page_path("lessons") + f"?{query_of(agent=name)}"}
        )
    return [mark for mark in found if mark["at"] >= since]


def _trade_marks(trade: Mapping[str, Any]) -> list[dict[str, Any]]:
    entered = _mark(
        f"entry {trade['side']}",
        trade["entry_tick_at"],
        trade["entry_price"],
        words=trade["entry_reason"],
        run_id=trade["entry_snapshot_id"],
    )
    if trade["status"] != "closed":
        return [entered]
    reason = trade["exit_reason"] or ""
    # An exit that no decision of the agent made is a stop, a liquidation or a settlement.
    kind = "exit" if trade["exit_snapshot_id"] else "stop"
    words = f"{trade['net_pnl_usd']:+,.2f} USD: {reason}"
    return [
        entered,
        _mark(
            kind,
            trade["exit_tick_at"],
            trade["exit_price"],
            words=words,
            run_id=trade["exit_snapshot_id"] or trade["entry_snapshot_id"],
        ),
    ]


def _mark(kind: str, at: str, price: float | None, *, words: str, run_id: str | None) -> dict[str, Any]:
    return {
        "kind": kind,
        "at": at,
        "price": price,
        "words": words[:160],
        "href": page_path("decisions", run_id) if run_id else "",
    }


async def _holdings(frame: PageFrame, profile: Mapping[str, Any]) -> None:
    """What is held, how much of each limit is used, and the newest decisions."""
    name = profile["name"]
    accounts = (await frame.read(frame.book.portfolio, name))["accounts"]
    # Half a page is too narrow for all columns: whose it is is known, and its value says its size.
    narrow = [place for place, cells in enumerate(POSITION_CELLS) if cells.heading not in ("Agent", "Size")]
    every = [positions_row(each) for account in accounts for each in account["positions"]]
    rows = [[row[place] for place in narrow] for row in every]
    held = (
        table([POSITION_CELLS[place] for place in narrow], rows, label="Open positions")
        if rows
        else empty("No open position", "Each appears here with the decision that opened it.")
    )
    runs = await frame.read(frame.book.runs, name, most=6)
    more = link("all decisions", "decisions", query=query_of(agent=name))
    left = sheet("Open positions", held, flush=bool(rows))
    right = _risk(profile, accounts[0]) if accounts else None
    frame.html(
        tag("div", left, right, cls="tb-columns tb-wide") if right else left,
        sheet("Newest decisions", decisions_table(runs), note=more, flush=True),
    )


def _risk(profile: Mapping[str, Any], account: Mapping[str, Any]) -> Markup:
    """How much of each limit of an agent is used now."""
    largest = max((abs(each["value_usd"]) for each in account["positions"]), default=0.0)
    leverage = max((each["leverage"] for each in account["positions"]), default=0)
    lost = max(0.0, -account["day_usd"])
    limits = [
        ("Largest position, USD", largest, profile["max_position_usd"]),
        ("All positions, USD", account["exposure_usd"], profile["max_account_usd"]),
        ("Loss of the day, USD", lost, profile["max_daily_loss_usd"]),
        ("Leverage", float(leverage), profile["max_leverage"]),
    ]
    rows: list[list[Child]] = [
        [name, number(used), number(most) if most else "no limit", bar(used, most)] for name, used, most in limits
    ]
    cooldown = profile["cooldown_minutes"]
    facts: dict[str, Child] = {
        "trading": account_state(account),
        "losing streak": plural(account["losing_streak"], "trade"),
        "refused in the past hour": plural(account["refused_last_hour"], "action"),
        "cooldown after a loss": f"{cooldown:g} min" if cooldown else "none",
    }
    return sheet(
        "Risk", table(_RISK, rows, label="Limits and how much of them is used"), _facts_block(facts), flush=True
    )


def _facts_block(facts: Mapping[str, Child]) -> Markup:
    return tag("div", key_values(facts), cls="tb-body")


def _trades_grid(name: str, *, rows: int) -> None:
    """Every trade of an agent; rows are fetched as they are scrolled to."""
    # As high as its rows, with room for open trades, up to a screen of them.
    height = min(500, 40 + 44 * (rows + 4))
    # A leading colon makes a value JavaScript; the functions are in page.js.
    number_cell = {
        "cellClass": "num",
        "headerClass": "num",
        ":valueFormatter": "tapebookCells.amount",
        "type": "rightAligned",
    }
    price_cell = number_cell | {":valueFormatter": "tapebookCells.price"}
    result_cell = number_cell | {
        ":valueFormatter": "tapebookCells.result",
        ":cellClass": "tapebookCells.tone",
    }
    # Two lines of a row; a reason that is longer, as a model may write it, is read where the pointer is.
    two_lines = {"wrapText": True, "cellClass": "tb-two"}
    moment_cell = two_lines | {":valueFormatter": "tapebookCells.moment", "width": 92}
    regime_cell = two_lines | {":valueFormatter": "tapebookCells.words", "width": 94}
    # All widths together fit the sheet of a laptop; the reason has what is left on a wider screen.
    columns = [
        {"headerName": "Entry", "field": "entry_tick_at", **moment_cell},
        {"headerName": "Exit", "field": "exit_tick_at", **moment_cell},
        {"headerName": "Symbol", "field": "symbol", "width": 66},
        {"headerName": "Side", "field": "side", "width": 54},
        {"headerName": "Entry price", "field": "entry_price", "width": 84, **price_cell},
        {"headerName": "Exit price", "field": "exit_price", "width": 84, **price_cell},
        {"headerName": "Size USD", "field": "entry_size_usd", "width": 78, **number_cell},
        {"headerName": "Fees", "field": "fees_usd", "width": 52, **number_cell},
        {"headerName": "Net USD", "field": "net_pnl_usd", "width": 84, **result_cell},
        {"headerName": "Regime", "field": "entry_regime_tag", **regime_cell},
        {
            "headerName": "Exit reason",
            "field": "exit_reason",
            "flex": 1,
            "minWidth": 228,
            "tooltipField": "exit_reason",
            **two_lines,
        },
    ]
    address = f"{page_path('page', 'trades', name)}?"
    with sheet_of("Trades", "open ones first; a row opens the decision that entered it").classes("tb-flush"):
        grid = ui.aggrid(
            {
                "columnDefs": columns,
                "rowModelType": "infinite",
                "cacheBlockSize": _GRID_PART,
                # One at a time: a page of the list is found by the cursor of the one before.
                "maxConcurrentDatasourceRequests": 1,
                "defaultColDef": {"sortable": False, "resizable": True, "suppressMovable": True},
                "suppressCellFocus": False,
                "enableBrowserTooltips": True,
                ":datasource": f"tapebookRows({address!r}, {_GRID_PART})",
                ":onRowClicked": "tapebookCells.open",
                ":onCellKeyDown": "tapebookCells.openByKey",
            },
            auto_size_columns=False,
        ).classes("tb-grid")
        grid.style(f"height: {height}px")
        grid.props["aria-label"] = f"Trades of {name}"


async def _weights(frame: PageFrame, name: str, symbol: str) -> None:
    """How much each member of an ensemble weighed in its newest decisions on a symbol."""
    # Votes are kept with each run, so the line is what decisions went by, not what is believed now.
    newest = await frame.read(frame.book.runs, name, most=4 * _MARKS_SHOWN)
    runs = [run for run in newest if run["votes"] and run["symbol"] == symbol][::-1]
    if not runs:
        return
    members = sorted({vote["engine"] for run in runs for vote in run["votes"]})
    lines = [[_weight_of(run, member) for run in runs] for member in members]
    with sheet_of(
        f"Weights over time, {symbol}", "share of all weight, %; a member earns it by what it alone would have made"
    ):
        chart(lines_options(members, [run["as_of"] for run in runs], lines), "Weights of the members", size="tb-low")


def _weight_of(run: Mapping[str, Any], member: str) -> float | None:
    """A member's share of the weight of all, in percent: before anything is learned each counts in full."""
    every = sum(vote["weight"] for vote in run["votes"]) or 1.0
    return next((round(100 * vote["weight"] / every, 2) for vote in run["votes"] if vote["engine"] == member), None)


async def _prompt(frame: PageFrame, profile: Mapping[str, Any], symbol: str) -> None:
    """What the agent would be told now, what that takes, and an editor of what it is told by its owner."""
    name = profile["name"]
    preview = await frame.read(frame.book.preview, name, symbol)
    packet = await frame.read(frame.book.context, name, symbol)
    parts = [
        {each: getattr(part, each) for each in ("name", "tokens", "cap", "shown", "dropped")} for part in preview.parts
    ]
    with ui.element("div").classes("tb-columns"):
        with ui.element("div"):
            _editor(frame, profile)
            warned = alert("The prompt is close to its budget", preview.warnings) if preview.warnings else None
            took = sheet("Tokens by section", parts_table(parts), note=plural(preview.tokens, "token"), flush=True)
            frame.html(warned, took)
        with ui.element("div"):
            text = text_block(f"{packet.system}\n\n{packet.text}", tall=True)
            frame.html(sheet(f"Prompt preview, {symbol}", text, note="as the next decision would see it"))


def _editor(frame: PageFrame, profile: Mapping[str, Any]) -> None:
    with sheet_of("Strategy", "saving makes a new version"):
        strategy = ui.textarea("Strategy", value=profile["strategy"]).props("outlined autogrow").style("width: 100%")
        with ui.element("div").classes("tb-controls"):
            reason = ui.input("Reason for the change").props("outlined dense").style("min-width: min(320px, 60vw)")
            save = action_button("Save new version")
        said = ui.html(sanitize=False)

        async def save_version() -> None:
            changed = {"strategy": strategy.value}
            try:
                saved = await frame.read(frame.book.edit_agent, profile["name"], changed, reason=reason.value or "")
            except TapebookError as error:
                said.content = alert("It was not saved", [str(error)], "bad")
                return
            said.content = alert(f"Version {saved.version} is used from the next decision on", [], "good")

        save.on_click(save_version)


async def _versions(frame: PageFrame, profile: Mapping[str, Any]) -> None:
    """The profile that holds, and what each version changed."""
    # Versions are counted from one, without gaps.
    newest = profile["version"]
    kept = [
        await frame.read(frame.book.agent, profile["name"], version=each)
        for each in range(max(1, newest - _VERSIONS_SHOWN), newest + 1)
    ]
    changes = [_version_block(before, after) for before, after in pairwise(kept)][::-1]
    frame.html(
        sheet("Profile and limits", key_values(_profile_values(profile), spread=True), note=f"version {newest}"),
        sheet("Version history", changes, note="what each version changed", flush=True) if changes else None,
    )


def _version_block(before: Mapping[str, Any], after: Mapping[str, Any]) -> Markup:
    old, new = _profile_values(before, manual=True), _profile_values(after, manual=True)
    lines = [line for key in new if old[key] != new[key] for line in (f"-{key}: {old[key]}", f"+{key}: {new[key]}")]
    return tag("details", tag("summary", f"version {after['version']}"), diff_block(lines), cls="tb-more", open=True)


def _profile_values(profile: Mapping[str, Any], *, manual: bool = False) -> dict[str, str]:
    shown = {label(key): plain_value(value) for key, value in profile.items() if key not in _NO_SETTINGS}
    return {key: value or "–" for key, value in shown.items() if manual or key != "manual"}
