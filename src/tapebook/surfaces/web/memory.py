"""What agents learned: lessons with their evidence, and experience with intervals and look-alikes."""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from tapebook.api.app import Tapebook
from tapebook.api.experience import IntervalView
from tapebook.domain.text import plural
from tapebook.surfaces.web.charts import calibration_options, neighbour_options
from tapebook.surfaces.web.documents import diff_block
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
    bar,
    empty,
    figures,
    interval,
    moment,
    number,
    picks,
    share,
    sheet,
    signed_bps,
    signed_usd,
    table,
    tag,
    together,
)

_LESSONS = [
    *(Cells("hypothesis", "long"), Cells("state", "tb-fit"), Cells("found in", "num"), Cells("effect bps", "num")),
    *(Cells("95 % interval"), Cells("later trades", "num"), Cells("later bps", "num")),
    *(Cells("evidence for", "num"), Cells("against", "num")),
]
# Twenty decides, four hundred ends what was confirmed.
_MUCH_EVIDENCE = 1_000
_CHANGES = [Cells("at", "tb-fit"), Cells("change", "tb-fit"), Cells("hypothesis", "long")]
_RECORDS = [
    *(
        Cells("name", "tb-fit"),
        Cells("trades", "num"),
        Cells("net USD", "num"),
        Cells("mean bps", "num"),
        Cells("95 %"),
    ),
    *(Cells("won", "num"), Cells("trend", "tb-fit")),
]
_ALIKE = [
    *(Cells("moment", "tb-fit"), Cells("symbol", "tb-fit"), Cells("distance", "num"), Cells("1 h", "num")),
    *(Cells("4 h", "num"), Cells("24 h", "num")),
]
_TONES = {"confirmed": "good", "retired": "bad", "refused": "bad"}


def register(book: Tapebook) -> None:
    """Adds the pages."""

    @page("/lessons")
    async def lessons(agent: str = "") -> None:
        with page_frame(
            book, "/lessons", title="Lessons", lead="Hypotheses that later trades confirm or retire"
        ) as frame:
            name = await choose_agent(frame, agent)
            if name:
                await frame.live(lambda: _lessons(frame, name), streams=lambda stream: stream.startswith(f"{name}."))

    @page("/experience")
    async def experience(agent: str = "", symbol: str = "") -> None:
        with page_frame(
            book,
            "/experience",
            title="Experience",
            lead="Where an agent does well, and what was like now",
        ) as frame:
            name = await choose_agent(frame, agent)
            if name:
                await draw_or_say(lambda: _experience(frame, name, symbol))


async def _lessons(frame: PageFrame, name: str) -> None:
    found = await frame.read(frame.book.hypotheses, name, most=30)
    notes = await frame.read(frame.book.lessons, name, most=6)
    rows = [_lesson_row(each) for each in found["lessons"]]
    none = empty(
        "No hypothesis yet",
        "One is registered when enough closed trades support it after correction for the search; noise gives none.",
        f"tapebook trades {name}",
    )
    frame.html(_lesson_figures(found["lessons"], notes))
    frame.html(sheet("Hypotheses", table(_LESSONS, rows, label="Lessons") if rows else none, flush=bool(rows)))
    changes = [[moment(each["at"]), badge(each["change"]), each["lesson"]["statement"]] for each in found["history"]]
    if changes:
        frame.html(sheet("History", table(_CHANGES, changes, label="History of lessons"), flush=True))
    frame.html(_notes(notes))


def _lesson_figures(lessons: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]]) -> Markup:
    counts = Counter(each["status"] for each in lessons)
    newest = notes[0] if notes else None
    return figures(
        [
            ("Hypotheses", number(len(lessons)), "registered"),
            ("Confirmed", number(counts["confirmed"]), "by later trades"),
            ("Retired", number(counts["retired"]), "by later trades"),
            (
                "Newest note",
                moment(newest["generated_at"]) if newest else "–",
                f"of {plural(newest['trades_considered'], 'trade')}" if newest else "no reflection yet",
            ),
        ]
    )


def _lesson_row(lesson: Mapping[str, Any]) -> list[Child]:
    # Symmetric around zero, so that the side of a claim is seen at once.
    later, widest = lesson["later"], max(abs(lesson["low_bps"]), abs(lesson["high_bps"]), 1.0)
    return [
        together(lesson["statement"], " ", tag("span", lesson["reason"], cls="tb-note") if lesson["reason"] else None),
        together(
            badge(lesson["status"], _TONES.get(lesson["status"], "")),
            " ",
            None if lesson["stated"] else badge("not in the prompt"),
        ),
        f"{lesson['n']} of {lesson['n'] + lesson['rest_n']}",
        signed_bps(lesson["effect_bps"]),
        interval(lesson["low_bps"], lesson["effect_bps"], lesson["high_bps"], span=(-widest, widest)),
        number(later["trades"]),
        signed_bps(later["effect_bps"]),
        _evidence_text(later["capital_for"]),
        _evidence_text(later["capital_against"]),
    ]


def _evidence_text(capital: float) -> str:
    """What a bet made of one dollar; beyond a thousand it only says that it is much."""
    return f"{capital:.2f}" if capital < _MUCH_EVIDENCE else f"> {_MUCH_EVIDENCE:,}"


def _notes(notes: Sequence[Mapping[str, Any]]) -> Markup:
    """The note that stands, and those before it as what changed."""
    if not notes:
        return sheet("Notes", empty("No note yet", "A reflection writes one when enough trades have closed."))
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
            f" · written by {note['written_by']} from {plural(note['trades_considered'], 'trade')}",
        )
        shown = (
            tag("pre", note["lessons_text"], cls="tb-text", tabindex="0") if not place else diff_block(list(lines)[2:])
        )
        problem = tag("p", note["problem"]) if note["problem"] else None
        blocks.append(tag("details", head, problem, shown, cls="tb-more", open=not place))
    return sheet("Notes", blocks, note="the newest in full, older ones as diffs", flush=True)


async def _experience(frame: PageFrame, name: str, symbol: str) -> None:
    report = await frame.read(frame.book.experience.show, name)
    every = report["all"]
    frame.html(
        figures(
            [
                ("Closed trades", number(report["outcomes"]), f"{every['net_usd']:+,.2f} USD net"),
                (
                    "Won",
                    share(every["win_rate"]["value"], 0) if every["win_rate"] else "–",
                    _range(every["win_rate"], 100, "%"),
                ),
                (
                    "Mean result, bps",
                    signed_bps(every["mean_bps"]["value"]) if every["mean_bps"] else "–",
                    _range(every["mean_bps"], 1, " bps"),
                ),
                ("Situations", number(report["situations"]), "compared" if report["fit"] else "too few to compare"),
            ]
        )
    )
    await _alike(frame, name, symbol)
    with ui.element("div").classes("tb-columns"):
        with ui.element("div"):
            frame.html(providers_sheet(report["providers"]), _records("By regime", report["regimes"]))
        with ui.element("div"):
            _calibration(frame, report["calibration"])
            frame.html(_records("By asset", report["assets"]))


def _range(estimate: IntervalView | None, factor: float, unit: str) -> str:
    if estimate is None:
        return "too few trades"
    return f"{estimate['low'] * factor:.0f} to {estimate['high'] * factor:.0f}{unit}, 95 %"


def _calibration(frame: PageFrame, points: Sequence[Mapping[str, Any]]) -> None:
    with sheet_of("Calibration", "confidence against how often it won"):
        if points:
            chart(calibration_options(points), "Confidence of the agent against how often it won", size="tb-low")
        else:
            frame.html(empty("No closed trade yet", "The curve fills as trades close."))


def _records(title: str, records: Sequence[Mapping[str, Any]]) -> Markup:
    if not records:
        return sheet(title, empty("No record yet", "Records fill as trades close."))
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


def providers_sheet(providers: Sequence[Mapping[str, Any]]) -> Markup:
    """How much each provider weighs, and what its trades came to."""
    if not providers:
        return sheet("Providers", empty("No record yet", "Providers are compared as their trades close."))
    columns = [
        Cells("provider", "tb-fit"),
        Cells("weight", "num"),
        Cells(""),
        Cells("trades", "num"),
        Cells("mean bps", "num"),
    ]
    # Weights are compared with the largest: they do not add up to one everywhere. A single engine has none.
    most = max((each["weight"] or 0.0 for each in providers), default=0.0) or 1.0
    rows = [
        [
            each["name"],
            number(each["weight"], 2),
            bar(each["weight"], most) if each["weight"] is not None else None,
            number(each["n"]),
            signed_bps(each["mean_bps"]["value"]) if each["mean_bps"] else "–",
        ]
        for each in providers
    ]
    return sheet("Providers", table(columns, rows, label="Providers and their weights"), flush=True)


async def _alike(frame: PageFrame, name: str, symbol: str) -> None:
    profile = await frame.read(frame.book.agent, name)
    shown = symbol if symbol in profile["watch"] else profile["watch"][0]
    choices = [(each, f"/experience?{query_of(agent=name, symbol=each)}", each == shown) for each in profile["watch"]]
    frame.html(picks("Symbol", choices))
    found = await frame.read(frame.book.experience.similar, name, shown)
    seen = "unlike anything seen" if found["novel"] else "seen before"
    note = f"{plural(found['searched'], 'moment')} searched, {seen}" if found["searched"] else ""
    with sheet_of(f"{shown} now and its nearest neighbours", note):
        if not found["neighbours"]:
            frame.html(
                empty(
                    "No neighbour yet",
                    "A moment is recorded every hour; they are compared when there are enough of them.",
                    f"tapebook experience similar {name} {shown}",
                )
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
