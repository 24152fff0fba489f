"""Logs and settings: what happened, checks of the home's health, halts, and the settings as they are read."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.errors import TapebookError
from tapebook.surfaces.web.frame import PageFrame, action_button, draw_or_say, page, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    alert,
    badge,
    code_text,
    empty,
    key_values,
    link,
    moment,
    picks,
    plain_value,
    sheet,
    table,
    tag,
)

_EVENTS = [
    *(Cells("at", "tb-fit"), Cells("kind", "tb-fit"), Cells("agent", "tb-fit"), Cells("symbol", "tb-fit")),
    Cells("event", "long"),
]
_CHECKS = [Cells("check", "tb-fit"), Cells("state", "tb-fit"), Cells("detail", "long")]
_TONES = {"failure": "bad", "missed": "warn", "refusal": "warn", "market": "warn", "desk": "warn", "fill": "good"}
# `tapebook events` lists more.
_SHOWN = 100


def register(book: Tapebook) -> None:
    """Adds the pages."""

    @page("/logs")
    async def logs(kind: str = "") -> None:
        with page_frame(book, "/logs", title="Logs", lead="Events of the past six hours, newest first") as frame:
            await frame.live(lambda: _logs(frame, kind))

    @page("/settings")
    async def settings() -> None:
        with page_frame(
            book, "/settings", title="Settings", lead="Halt switch, health checks, and the settings in force"
        ) as frame:
            await draw_or_say(lambda: _settings(frame))


async def _logs(frame: PageFrame, kind: str) -> None:
    # Of one kind there are few among the newest.
    events = await frame.read(frame.book.events, most=10 * _SHOWN if kind else _SHOWN)
    # Only kinds that happened can be chosen.
    kinds = sorted({each["event"] for each in events})
    choices = [("all", "/logs", not kind)] + [(each, f"/logs?{query_of(kind=each)}", each == kind) for each in kinds]
    frame.html(picks("Kind", choices))
    rows = [_event_row(each) for each in events if not kind or each["event"] == kind][:_SHOWN]
    none = empty("No event yet", "Decisions, orders, fills and problems of the market appear here:", "tapebook up")
    frame.html(sheet("Events", table(_EVENTS, rows, label="Events") if rows else none, flush=bool(rows)))


def _event_row(event: Mapping[str, Any]) -> list[Child]:
    # The moment leads to the decision, as in every list of decisions.
    at = moment(event["at"], seconds=True)
    return [
        link(at, "decisions", event["run_id"]) if event.get("run_id") else at,
        badge(event["event"], _TONES.get(event["event"], "")),
        link(event["agent"], "agents", event["agent"]) if event["agent"] else "–",
        event["symbol"] or "–",
        code_text(event["text"]),
    ]


async def _settings(frame: PageFrame) -> None:
    await frame.live(lambda: _halts(frame), streams=lambda stream: stream == "owner")
    # The same checks as `tapebook doctor`.
    checks = await frame.read(frame.book.doctor)
    rows = [
        [check.name, badge("✓ ok", "good") if check.ok else badge("✗ failed", "bad"), code_text(check.detail)]
        for check in checks
    ]
    frame.html(sheet("Health", table(_CHECKS, rows, label="Checks of the home"), flush=True))
    found = await frame.read(frame.book.settings)
    plain = {key: plain_value(value) for key, value in found.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in found.items() if isinstance(value, dict) and value}
    frame.html(
        sheet("Home", key_values(plain), note="edit tapebook.toml to change them"),
        tag(
            "div",
            [
                sheet(
                    f"[{name}]",
                    key_values({key: plain_value(value) or "–" for key, value in values.items()}, verbatim=True),
                )
                for name, values in sections.items()
            ],
            cls="tb-masonry",
        ),
    )


async def _halts(frame: PageFrame) -> None:
    """The switch that keeps everything from being sent."""
    status = await frame.read(frame.book.status)
    is_halted = status["halted"] is not None
    with sheet_of("Desk", "a halt stops all orders; decisions go on and are recorded"):
        if is_halted:
            frame.html(alert("Halted: no order is sent", [status["halted"] or ""], "bad"))
        with ui.element("div").classes("tb-controls"):
            reason = ui.input("Reason", value="by hand, from the page").props("outlined dense")
            button = action_button("Resume the desk" if is_halted else "Halt the desk")
        said = ui.html(sanitize=False)

        async def switch() -> None:
            button.disable()
            # What it does was decided when it was drawn: the part is drawn anew when the desk changes.
            act = frame.book.resume if is_halted else frame.book.halt
            try:
                await frame.read(act, reason=reason.value or "by hand, from the page")
            except TapebookError as error:
                said.content = alert("It was not done", [str(error)], "bad")
                button.enable()

        button.on_click(switch)
