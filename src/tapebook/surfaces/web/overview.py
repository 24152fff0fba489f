"""The first page: what all agents are worth and hold, the day, costs, health and incidents."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.domain.instants import DAY
from tapebook.domain.text import plural
from tapebook.surfaces.web.charts import equity_options
from tapebook.surfaces.web.frame import PageFrame, chart, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Markup,
    alert,
    badge,
    empty,
    figures,
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
    table,
    usd,
)

# A week is shown first: a day says little, and all there is may be slow to read.
PERIODS = {"day": 1, "week": 7, "month": 30, "year": 365, "all": 0}
"""The periods of the selector, in days; zero is all there is."""

_POSITIONS = [
    *(
        Cells("agent", "tb-fit"),
        Cells("symbol", "tb-fit"),
        Cells("side"),
        Cells("size", "num"),
        Cells("entry", "num"),
        Cells("mark", "num"),
    ),
    *(Cells("value USD", "num"), Cells("open result", "num"), Cells("since", "tb-fit"), Cells("why")),
]
_ACCOUNTS = [
    *(
        Cells("agent", "tb-fit"),
        Cells("engine"),
        Cells("equity USD", "num"),
        Cells("today", "num"),
        Cells("exposure", "num"),
    ),
    *(
        Cells("trades", "num"),
        Cells("won", "num"),
        Cells("net USD", "num"),
        Cells("last decision", "tb-fit"),
        Cells("state"),
    ),
]
_DECISIONS = [
    Cells("at", "tb-fit"),
    Cells("agent", "tb-fit"),
    Cells("symbol", "tb-fit"),
    Cells("decided"),
    Cells("came to"),
    Cells("why", "long"),
]


def register(book: Tapebook) -> None:
    """Adds the page."""

    @ui.page("/")
    async def overview(period: str = "week") -> None:
        chosen = period if period in PERIODS else "week"
        choices = [(name, f"/?{query_of(period=name)}", name == chosen) for name in PERIODS]
        with page_frame(
            book, "/", title="Overview", lead="All agents of this home", aside=picks("Period", choices)
        ) as frame:
            await frame.live(lambda: _draw(frame, chosen))


async def _draw(frame: PageFrame, period: str) -> None:
    status = await frame.read(frame.book.status)
    # What is wrong comes before what is earned.
    if status["incidents"]:
        frame.html(
            alert(
                plural(len(status["incidents"]), "incident"),
                [f"{each['name']}: {each['detail']}" for each in status["incidents"]],
            )
        )
    if status["halted"] is not None:
        frame.html(alert("The desk is halted: nothing is sent", [status["halted"]], "bad"))
    if not status["accounts"]:
        frame.html(
            sheet(
                "No account yet",
                empty(
                    "Nothing has been traded here", "Let the agents decide on a market:", "tapebook up", "tapebook demo"
                ),
            )
        )
        return
    # Of a period: all there is could be years, and a line has no more points than a screen.
    equity = await frame.read(frame.book.equity, since=period_start(frame.book, period))
    frame.html(_figures(status, equity))
    with sheet_of(
        "Equity", f"{equity['since'][:16].replace('T', ' ')} to {equity['until'][:16].replace('T', ' ')} UTC"
    ):
        chart(equity_options(equity), "Equity and drawdown of all agents over the period")
    frame.html(_positions(status), _accounts(status))
    runs = await frame.read(frame.book.runs, most=8)
    frame.html(sheet("Newest decisions", decisions_table(runs), note=link("all", "decisions"), flush=True))


def period_start(book: Tapebook, period: str) -> int | None:
    """When a period begins that ends now; None for all there is."""
    days = PERIODS.get(period, 7)
    return book.now() - days * DAY if days else None


def _figures(status: Mapping[str, Any], equity: Mapping[str, Any]) -> Markup:
    # Counted here: a status lists positions by account.
    held = sum(len(each["positions"]) for each in status["accounts"])
    traded = sum(each["executed_today"] for each in status["accounts"])
    return figures(
        [
            ("Equity", f"{usd(status['equity_usd'])}", "USD"),
            ("Today", signed_usd(status["day_usd"]), plural(traded, "order") + " executed"),
            ("Period", signed_usd(equity["change_usd"]), signed_share(equity["change_share"])),
            ("Deepest fall", share(equity["drawdown_share"], 2), f"{usd(equity['drawdown_usd'])} USD"),
            ("Open positions", number(held), f"{usd(status['exposure_usd'], 0)} USD exposed"),
            ("Working orders", number(len(status["orders"])), "at the broker"),
            ("Models today", usd(status["model_usd_today"], 4), "USD"),
            (
                "Health",
                "well" if status["healthy"] else plural(len(status["incidents"]), "incident"),
                f"{number(status['checks'])} checks",
            ),
        ]
    )


def _positions(status: Mapping[str, Any]) -> Markup:
    rows = [positions_row(each) for account in status["accounts"] for each in account["positions"]]
    if not rows:
        return sheet(
            "Open positions", empty("Nothing is held", "Positions appear here with the decision that opened them.")
        )
    return sheet("Open positions", table(_POSITIONS, rows, label="Open positions"), flush=True)


def positions_row(held: Mapping[str, Any]) -> list[Any]:
    """The cells of a position."""
    # A position that was imported has no decision behind it.
    why = (
        link("why", "decisions", held["run_id"], aria_label=f"why {held['symbol']} was opened")
        if held["run_id"]
        else "–"
    )
    return [
        link(held["agent"], "agents", held["agent"]),
        held["symbol"],
        side_badge(held["side"]),
        f"{held['size']:.6g}",
        price(held["entry_price"]),
        price(held["mark"]),
        usd(held["value_usd"]),
        signed_usd(held["unrealised_usd"]),
        moment(held["opened_at"]),
        why,
    ]


def _accounts(status: Mapping[str, Any]) -> Markup:
    rows = [
        [
            link(each["agent"], "agents", each["agent"]),
            each["engine"],
            usd(each["equity_usd"]),
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
        return empty("No decision yet", "Every decision appears here with what it was told.", "tapebook up")
    rows = [
        [
            link(moment(run["as_of"]), "decisions", run["run_id"]),
            link(run["agent"], "agents", run["agent"]),
            run["symbol"],
            [f"{_action_text(action)} " for action in run["actions"]] or "nothing",
            run_state(run),
            run["error"] or "; ".join(action["reason"] for action in run["actions"]),
        ]
        for run in runs
    ]
    return table(_DECISIONS, rows, label="Decisions")


def run_state(run: Mapping[str, Any]) -> Markup:
    """What became of a decision."""
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
