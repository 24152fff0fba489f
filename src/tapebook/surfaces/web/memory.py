"""What agents learned: lessons with evidence, experience with intervals and look-alikes, and the layers of time."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.api.experience import IntervalView
from tapebook.domain.text import plural
from tapebook.surfaces.web.charts import calibration_options, neighbour_options
from tapebook.surfaces.web.documents import diff_block
from tapebook.surfaces.web.frame import PageFrame, chart, draw_or_say, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    Markup,
    badge,
    bar,
    empty,
    figures,
    interval,
    key_values,
    link,
    moment,
    number,
    picks,
    plain_value,
    share,
    sheet,
    signed_bps,
    signed_usd,
    table,
    tag,
    together,
)

_LESSONS = [
    *(Cells("lesson", "long"), Cells("state", "tb-fit"), Cells("found in", "num"), Cells("effect bps", "num")),
    *(
        Cells("95 %"),
        Cells("later trades", "num"),
        Cells("later bps", "num"),
        Cells("for", "num"),
        Cells("against", "num"),
    ),
]
_CHANGES = [Cells("at", "tb-fit"), Cells("what", "tb-fit"), Cells("lesson", "long")]
_RECORDS = [
    *(
        Cells("name", "tb-fit"),
        Cells("trades", "num"),
        Cells("net USD", "num"),
        Cells("bps a trade", "num"),
        Cells("95 %"),
    ),
    *(Cells("won", "num"), Cells("trend", "tb-fit")),
]
_ALIKE = [
    *(Cells("moment", "tb-fit"), Cells("symbol", "tb-fit"), Cells("distance", "num"), Cells("1 h", "num")),
    *(Cells("4 h", "num"), Cells("24 h", "num")),
]
_TONES = {"confirmed": "good", "retired": "bad", "refused": "bad"}
LAYERS = {
    **{"L1": "all time", "L2": "years", "L3": "quarters", "L4": "months"},
    **{"L5": "weeks", "L6": "days", "L7": "now"},
}
"""The layers from the longest to this moment."""


def register(book: Tapebook) -> None:
    """Adds the pages."""

    @ui.page("/lessons")
    async def lessons(agent: str = "") -> None:
        with page_frame(book, "/lessons", title="Lessons", lead="Claims that later trades confirm or retire") as frame:
            name = await _choose_agent(frame, agent)
            if name:
                await frame.live(lambda: _lessons(frame, name), streams=lambda stream: stream.startswith(f"{name}."))

    @ui.page("/experience")
    async def experience(agent: str = "", symbol: str = "") -> None:
        with page_frame(
            book, "/experience", title="Experience", lead="Where an agent does well, and what is alike"
        ) as frame:
            name = await _choose_agent(frame, agent)
            if name:
                await draw_or_say(lambda: _experience(frame, name, symbol))

    @ui.page("/horizons")
    async def horizons(agent: str = "", all: int = 0) -> None:
        with page_frame(book, "/horizons", title="Horizons", lead="From all time down to this moment") as frame:
            name = await _choose_agent(frame, agent, everybody=bool(all))
            await draw_or_say(lambda: _horizons(frame, name))


async def _choose_agent(frame: PageFrame, wanted: str, *, everybody: bool | None = None) -> str:
    """The agent that is asked for, or the first; draws the choice, with all of them together where that can be."""
    names = [each["name"] for each in await frame.read(frame.book.agents)]
    # An agent that was removed since the address was made is no error.
    chosen = wanted if wanted in names else "" if everybody or not names else names[0]
    last = [("all together", f"{frame.path}?all=1", not chosen)] if everybody is not None else []
    if names:
        choices = [(name, f"{frame.path}?{query_of(agent=name)}", name == chosen) for name in names]
        frame.html(picks("Agent", [*choices, *last]))
    else:
        frame.html(sheet("Agents", empty("No agent yet", "Add the first:", "tapebook agents add NAME --watch BTC")))
    return chosen


async def _lessons(frame: PageFrame, name: str) -> None:
    found = await frame.read(frame.book.hypotheses, name, most=30)
    notes = await frame.read(frame.book.lessons, name, most=6)
    rows = [_lesson_row(each) for each in found["lessons"]]
    none = empty(
        "No lesson yet",
        "A claim is registered when trades carry it with the search accounted for; on noise there is none.",
        f"tapebook lessons show {name}",
    )
    frame.html(sheet("Hypotheses", table(_LESSONS, rows, label="Lessons") if rows else none, flush=bool(rows)))
    changes = [[moment(each["at"]), badge(each["change"]), each["lesson"]["statement"]] for each in found["history"]]
    if changes:
        frame.html(sheet("What happened to them", table(_CHANGES, changes, label="History of lessons"), flush=True))
    frame.html(_notes(notes))


def _lesson_row(lesson: Mapping[str, Any]) -> list[Child]:
    # Symmetric around zero, so that the side of a claim is seen at once.
    later, widest = lesson["later"], max(abs(lesson["low_bps"]), abs(lesson["high_bps"]), 1.0)
    return [
        together(lesson["statement"], " ", tag("span", lesson["reason"], cls="tb-note") if lesson["reason"] else None),
        together(
            badge(lesson["status"], _TONES.get(lesson["status"], "")),
            " ",
            None if lesson["stated"] else badge("not told"),
        ),
        f"{lesson['n']} of {lesson['n'] + lesson['rest_n']}",
        signed_bps(lesson["effect_bps"]),
        interval(lesson["low_bps"], lesson["effect_bps"], lesson["high_bps"], span=(-widest, widest)),
        number(later["trades"]),
        signed_bps(later["effect_bps"]),
        f"{later['capital_for']:.2f}",
        f"{later['capital_against']:.2f}",
    ]


def _notes(notes: Sequence[Mapping[str, Any]]) -> Markup:
    """The note that stands, and those before it as what changed."""
    if not notes:
        return sheet("Note", empty("No note yet", "A reflection writes one when enough trades have ended."))
    blocks = []
    for place, note in enumerate(notes):
        # Notes come newest first.
        before = notes[place + 1]["lessons_text"] if place + 1 < len(notes) else ""
        lines = difflib.unified_diff(before.split("\n"), note["lessons_text"].split("\n"), lineterm="", n=1)
        tone = {"active": "good", "refused": "bad"}.get(note["status"], "")
        head = tag(
            "summary",
            badge(note["status"], tone),
            " ",
            moment(note["generated_at"]),
            f" by {note['written_by']}, of {plural(note['trades_considered'], 'trade')}",
        )
        shown = (
            tag("pre", note["lessons_text"], cls="tb-text", tabindex="0") if not place else diff_block(list(lines)[2:])
        )
        problem = tag("p", note["problem"]) if note["problem"] else None
        blocks.append(tag("details", head, problem, shown, cls="tb-more", open=not place))
    return sheet("Notes", blocks, note="the newest whole, those before as differences", flush=True)


async def _experience(frame: PageFrame, name: str, symbol: str) -> None:
    report = await frame.read(frame.book.experience.show, name)
    every = report["all"]
    frame.html(
        figures(
            [
                ("Outcomes", number(report["outcomes"]), f"{signed_text(every['net_usd'])} USD net"),
                (
                    "Won",
                    share(every["win_rate"]["value"], 0) if every["win_rate"] else "–",
                    _range(every["win_rate"], 100, "%"),
                ),
                (
                    "A trade",
                    signed_bps(every["mean_bps"]["value"]) if every["mean_bps"] else "–",
                    _range(every["mean_bps"], 1, " bps"),
                ),
                ("Situations", number(report["situations"]), "fitted" if report["fit"] else "too few to compare yet"),
            ]
        )
    )
    await _alike(frame, name, symbol)
    with ui.element("div").classes("tb-columns"):
        with ui.element("div"):
            frame.html(_providers(report["providers"]), _records("By regime", report["regimes"]))
        with ui.element("div"):
            _calibration(frame, report["calibration"])
            frame.html(_records("By asset", report["assets"]))


def signed_text(value: float) -> str:
    """A result as plain text."""
    return f"{value:+,.2f}"


def _range(estimate: IntervalView | None, factor: float, unit: str) -> str:
    if estimate is None:
        return "too few trades"
    return f"{estimate['low'] * factor:.0f} to {estimate['high'] * factor:.0f}{unit}, 95 %"


def _calibration(frame: PageFrame, points: Sequence[Mapping[str, Any]]) -> None:
    with sheet_of("Calibration", "as sure as right lies on the dashed line"):
        if points:
            chart(calibration_options(points), "How sure the agent was against how often it was right", size="tb-low")
        else:
            frame.html(empty("Nothing to compare yet", "Trades that ended fill this curve."))


def _records(title: str, records: Sequence[Mapping[str, Any]]) -> Markup:
    if not records:
        return sheet(title, empty("No record yet", "Records are made of trades that have ended."))
    means = [each["mean_bps"] for each in records if each["mean_bps"]]
    # One scale for all rows, so that they can be compared.
    widest = max([1.0, *(abs(each[end]) for each in means for end in ("low", "high"))])
    rows = [_record_row(each, widest) for each in records]
    return sheet(title, table(_RECORDS, rows, label=title), flush=True)


def _record_row(record: Mapping[str, Any], widest: float) -> list[Child]:
    mean, won, trend = record["mean_bps"], record["win_rate"], record.get("trend")
    return [
        record["name"],
        number(record["n"]),
        signed_usd(record["net_usd"]),
        signed_bps(mean["value"]) if mean else "–",
        interval(mean["low"], mean["value"], mean["high"], span=(-widest, widest)) if mean else "–",
        share(won["value"], 0) if won else "–",
        trend["direction"] if trend else "–",
    ]


def _providers(providers: Sequence[Mapping[str, Any]]) -> Markup:
    if not providers:
        return sheet("Whom it trusts", empty("Nobody yet", "Providers are compared when their trades have ended."))
    columns = [
        Cells("provider", "tb-fit"),
        Cells("weight", "num"),
        Cells(""),
        Cells("trades", "num"),
        Cells("bps a trade", "num"),
    ]
    # Weights are compared with the largest; they do not add up to one everywhere.
    most = max(each["weight"] for each in providers) or 1.0
    rows = [
        [
            each["name"],
            f"{each['weight']:.2f}",
            bar(each["weight"], most),
            number(each["n"]),
            signed_bps(each["mean_bps"]["value"]) if each["mean_bps"] else "–",
        ]
        for each in providers
    ]
    return sheet("Whom it trusts", table(columns, rows, label="Providers and their weights"), flush=True)


async def _alike(frame: PageFrame, name: str, symbol: str) -> None:
    profile = await frame.read(frame.book.agent, name)
    shown = symbol if symbol in profile["watch"] else profile["watch"][0]
    choices = [(each, f"/experience?{query_of(agent=name, symbol=each)}", each == shown) for each in profile["watch"]]
    frame.html(picks("Symbol", choices))
    found = await frame.read(frame.book.experience.similar, name, shown)
    seen = "nothing like it was seen before" if found["novel"] else "seen before"
    note = f"of {plural(found['searched'], 'moment')}; {seen}" if found["searched"] else ""
    with sheet_of(f"{shown} now, and the moments most like it", note):
        if not found["neighbours"]:
            frame.html(
                empty("Nothing alike yet", "Moments are noted every hour, and compared when there are enough of them.")
            )
            return
        with ui.element("div").classes("tb-columns"):
            chart(neighbour_options(found), f"What the market did after the moments most like {shown} now")
            rows = [
                [
                    moment(each["at"]),
                    each["symbol"],
                    f"{each['distance']:.2f}",
                    *(signed_bps(move) for move in each["moves_bps"].values()),
                ]
                for each in found["neighbours"][:8]
            ]
            listed = table(_ALIKE, rows, label="The moments most alike, and the moves after them in basis points")
            frame.html(tag("div", listed, cls="tb-scroll", tabindex="0"))


async def _horizons(frame: PageFrame, name: str) -> None:
    """A tree: layers, their timeframes, and what is kept of each."""
    parts = []
    for layer, words in LAYERS.items():
        found = await frame.read(frame.book.horizons.show, name or None, layer=layer)
        # Values come by key; people look for a period first.
        frames: dict[str, list[Any]] = {}
        for each in found:
            frames.setdefault(each["timeframe"], []).append(each)
        inside = [
            _timeframe(time, rows, is_open=not place) for place, (time, rows) in enumerate(list(frames.items())[:60])
        ]
        head = tag(
            "summary", tag("b", f"{layer} · {words}"), tag("span", f" {plural(len(frames), 'period')}", cls="tb-note")
        )
        parts.append(
            tag(
                "details",
                head,
                inside or empty("Nothing yet", "It fills as days end."),
                cls="tb-more",
                open=layer in ("L1", "L6", "L7"),
            )
        )
    trades = link("trades of this agent", "agents", name) if name else None
    frame.html(sheet("Layers", parts, note=trades, flush=True))


def _timeframe(time: str, rows: Sequence[Mapping[str, Any]], *, is_open: bool) -> Markup:
    """One period: its values side by side, then its lists of things."""
    lists = [
        row for row in rows if isinstance(row["value"], list) and any(isinstance(each, dict) for each in row["value"])
    ]
    plain = {row["key"].replace("_", " "): plain_value(row["value"]) for row in rows if row not in lists}
    total = next((row["value"] for row in rows if row["key"].endswith("_pnl")), None)
    worth = signed_usd(total) if isinstance(total, int | float) else None
    head = tag("summary", time, " ", worth, tag("span", f" {plural(len(rows), 'value')}", cls="tb-note"))
    listed = [
        together(
            tag("h3", row["key"].replace("_", " ")),
            tag("ul", [tag("li", plain_value(each)) for each in row["value"][:12]]),
        )
        for row in lists
    ]
    return tag("details", head, key_values(plain, spread=True), listed, cls="tb-more", open=is_open)
