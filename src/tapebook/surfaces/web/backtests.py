"""Backtests: the list, one started and watched, two compared, and a report with its trades."""

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from nicegui import ui

from tapebook.api.app import BacktestProgress, Tapebook
from tapebook.domain.text import plural
from tapebook.errors import TapebookError
from tapebook.surfaces.web.charts import lines_options
from tapebook.surfaces.web.decisions import decision_parts
from tapebook.surfaces.web.frame import PageFrame, action_button, chart, draw_or_say, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    Markup,
    alert,
    badge,
    bar,
    empty,
    figures,
    link,
    number,
    share,
    sheet,
    signed_usd,
    table,
    tag,
    text_block,
    together,
    usd,
)

_LIST = [
    *(
        Cells("backtest", "tb-fit"),
        Cells("agent", "tb-fit"),
        Cells("from", "tb-fit"),
        Cells("to", "tb-fit"),
        Cells("memory", "tb-fit"),
    ),
    *(Cells("chunks", "num"), Cells("trades", "num"), Cells("change USD", "num"), Cells("state")),
]
_CHUNKS = [
    *(
        Cells("chunk", "tb-fit"),
        Cells("trades", "num"),
        Cells("won", "num"),
        Cells("net USD", "num"),
        Cells("fees", "num"),
    ),
    *(Cells("equity", "num"), Cells("drawdown", "num"), Cells("lessons", "num")),
]


class BacktestJob:
    """A backtest that runs in a thread of this process, and how far it has come."""

    def __init__(self, book: Tapebook, agent: str, options: Mapping[str, Any]) -> None:
        self.words = f"{agent}: planning"
        self.done = 0.0
        self.result_id = ""
        self.problem = ""
        self._call = partial(book.backtest, agent, progress=self._note, **options)
        # A thread and no task: a backtest computes for minutes, and pages must be drawn meanwhile.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def _note(self, progress: BacktestProgress) -> None:
        self.done = progress.done
        self.words = f"{progress.chunk}: {plural(progress.ticks, 'tick')}, {number(progress.ticks_per_second)} a second"

    def _run(self) -> None:
        try:
            self.result_id = self._call().id
        except TapebookError as error:
            # Told on the page that started it; nobody waits for this thread.
            self.problem = str(error)


def register(book: Tapebook) -> None:
    """Adds the pages; what was started here is remembered for as long as the server runs."""
    # In memory alone: a backtest itself is kept, and goes on when it is asked for again.
    jobs: list[BacktestJob] = []

    @ui.page("/backtests")
    async def backtests() -> None:
        lead = "An agent over past bars, with the same tick, guard and memory"
        with page_frame(book, "/backtests", title="Backtests", lead=lead) as frame:
            await draw_or_say(lambda: _start_sheet(frame, jobs))
            await draw_or_say(lambda: _list(frame))

    @ui.page("/backtests/compare")
    async def compare(first: str = "", second: str = "") -> None:
        with page_frame(book, "/backtests", title="Comparison", lead="Two backtests, day by day") as frame:
            await draw_or_say(lambda: _comparison(frame, first, second))

    @ui.page("/backtests/{name}")
    async def report(name: str) -> None:
        with page_frame(book, f"/backtests/{name}", title="Backtest", lead=tag("code", name)) as frame:
            await draw_or_say(lambda: _report(frame, name))

    @ui.page("/backtests/{name}/decisions/{run_id}")
    async def decision(name: str, run_id: str) -> None:
        lead = together(link("backtest ", "backtests", name), tag("code", name))
        with page_frame(book, f"/backtests/{name}", title="Decision", lead=lead) as frame:
            await draw_or_say(lambda: _decision(frame, name, run_id))


async def _list(frame: PageFrame) -> None:
    found = await frame.read(frame.book.backtests.all)
    if not found:
        advice = "Run one above, or from the command line:"
        command = "tapebook backtest AGENT --start 2026-01-01 --chunks month"
        frame.html(sheet("Backtests", empty("No backtest yet", advice, command)))
        return
    frame.html(sheet("Backtests", table(_LIST, [_list_row(each) for each in found], label="Backtests"), flush=True))
    done = [each for each in found if each["status"] == "done"]
    if len(done) > 1:
        _compare_sheet(done)


def _list_row(each: Mapping[str, Any]) -> list[Child]:
    state = badge("done", "good") if each["status"] == "done" else badge(each["status"], "warn")
    return [
        link(each["id"], "backtests", each["id"]),
        each["agent"] or "–",
        (each["start"] or "")[:10],
        (each["end"] or "")[:10],
        each["memory"] or "–",
        f"{each['chunks_done']} of {each['chunks_planned']}",
        number(each["trades"]),
        signed_usd(each["change_usd"]),
        together(state, " ", badge("stale", "warn") if each["stale"] else None),
    ]


def _compare_sheet(done: Sequence[Mapping[str, Any]]) -> None:
    """The choice of two backtests by what they are."""
    names = {each["id"]: f"{each['id']}: {each['agent']}, memory {each['memory']}" for each in done}
    ids = list(names)
    with sheet_of("Compare two of them", "the same days, with and without a memory for example"):
        with ui.element("div").classes("tb-controls"):
            first = ui.select(names, value=ids[0], label="First").props("outlined dense").style("min-width: 260px")
            second = ui.select(names, value=ids[1], label="Second").props("outlined dense").style("min-width: 260px")
            button = action_button("Compare")
        button.on_click(
            lambda: ui.navigate.to(f"/backtests/compare?{query_of(first=str(first.value), second=str(second.value))}")
        )


async def _start_sheet(frame: PageFrame, jobs: list[BacktestJob]) -> None:
    """Starts a backtest of an engine that costs nothing, and shows how far it is."""
    names = [each["name"] for each in await frame.read(frame.book.agents)]
    with sheet_of("Start one", "it goes on where it stopped; engines that ask models start from the command line"):
        if not names:
            frame.html(empty("No agent yet", "Add the first:", "tapebook agents add NAME --watch BTC"))
            return
        with ui.element("div").classes("tb-controls"):
            agent = ui.select(names, value=names[0], label="Agent").props("outlined dense").style("min-width: 160px")
            begin = ui.input("From (UTC), or all").props("outlined dense")
            end = ui.input("To (UTC), or all").props("outlined dense")
            memory = (
                ui.select(["on", "off"], value="on", label="Memory").props("outlined dense").style("min-width: 90px")
            )
            button = action_button("Start")
        shown = ui.html(sanitize=False)
        shown.props["aria-live"] = "polite"

        def start() -> None:
            options = {"start": begin.value or None, "end": end.value or None, "memory": memory.value, "chunks": "week"}
            jobs.append(BacktestJob(frame.book, str(agent.value), options))
            draw()

        def draw() -> None:
            shown.content = together([_job_line(job) for job in jobs[-3:]])

        button.on_click(start)
        draw()
        ui.timer(1.0, draw)


def _job_line(job: BacktestJob) -> Markup:
    if job.problem:
        return alert("It did not run", [job.problem], "bad")
    if job.is_over:
        return tag("p", badge("✓ done", "good"), " ", link(f"report of {job.result_id}", "backtests", job.result_id))
    return tag("p", f"{job.words} ", bar(job.done, 1.0))


async def _report(frame: PageFrame, name: str) -> None:
    found = cast(dict[str, Any], await frame.read(frame.book.backtests.show, name))
    if found["total"] is None:
        lines = await frame.read(frame.book.backtests.lines, name)
        frame.html(sheet("Not finished", text_block("\n".join(lines))))
        return
    total = found["total"]
    sharpe = total["sharpe"]
    frame.html(
        figures(
            [
                ("Change", signed_usd(total["equity"]["end_usd"] - total["equity"]["start_usd"]), found["agent"]),
                ("Trades", number(total["trades"]), f"{share(total['win_rate']['value'], 0)} won"),
                (
                    "Sharpe",
                    f"{sharpe['value']:.2f}" if sharpe else "–",
                    f"{sharpe['low']:.1f} to {sharpe['high']:.1f}" if sharpe else "",
                ),
                ("Deepest fall", share(total["drawdown"]["share"], 2), f"{usd(total['drawdown']['usd'])} USD"),
                ("Decisions", number(total["ticks"]), f"{number(found['ticks_per_second'])} a second"),
                ("Memory", found["memory"], plural(len(total["lessons"]), "lesson")),
            ]
        )
    )
    _daily_chart({found["agent"]: total}, found["baselines"])
    rows = [
        [
            chunk["name"],
            number(chunk["trades"]),
            share(chunk["win_rate"]["value"], 0),
            signed_usd(chunk["pnl"]["net_usd"]),
            usd(chunk["pnl"]["fees_usd"]),
            usd(chunk["equity"]["end_usd"]),
            share(chunk["drawdown"]["share"], 2),
            number(len(chunk["lessons"])),
        ]
        for chunk in [*found["chunks"], total]
    ]
    frame.html(sheet("Chunks", table(_CHUNKS, rows, label="Chunks of the backtest"), flush=True))
    await _trades(frame, name, found["agent"])
    lines = await frame.read(frame.book.backtests.lines, name)
    frame.html(sheet("In words", text_block("\n".join(lines), wrap=False)))


def _daily_chart(totals: Mapping[str, Mapping[str, Any]], baselines: Sequence[Mapping[str, Any]]) -> None:
    """Daily equity of one or more backtests; those that share their days are drawn together."""
    # Two that are compared may cover different days.
    longest = max(totals.values(), key=lambda total: len(total["daily"]))
    times = [at for at, _ in longest["daily"]]
    lines: dict[str, list[float | None]] = {}
    for name, total in totals.items():
        known = dict(total["daily"])
        lines[name] = [known.get(at) for at in times]
    for each in baselines:
        if len(each.get("daily") or []) == len(times):
            lines[each["name"]] = list(each["daily"])
    with sheet_of("Equity at the end of each day, USD"):
        if times:
            chart(
                lines_options(list(lines), times, list(lines.values())),
                "Daily equity of the backtest and its baselines",
            )
        else:
            ui.html(empty("No whole day", "It covers less than a day."), sanitize=False)


async def _trades(frame: PageFrame, name: str, agent: str) -> None:
    """Its newest trades, each with the decision that entered it."""

    def read() -> list[Any]:
        # Opened for this read alone: a backtest has a book of its own.
        with frame.book.backtests.open(name) as made:
            return list(made.trades(agent, most=50))

    found = await frame.read(read)
    columns = [
        *(Cells("entry", "tb-fit"), Cells("symbol", "tb-fit"), Cells("side"), Cells("net USD", "num")),
        *(Cells("min", "num"), Cells("why it ended", "long")),
    ]
    rows = [
        [
            link(
                each["entry_tick_at"][:16].replace("T", " "), "backtests", name, "decisions", each["entry_snapshot_id"]
            )
            if each["entry_snapshot_id"]
            else each["entry_tick_at"][:16],
            each["symbol"],
            each["side"],
            signed_usd(each["net_pnl_usd"]),
            number(each["holding_minutes"]),
            each["exit_reason"] or "open",
        ]
        for each in found
    ]
    body = table(columns, rows, label="Trades of the backtest") if rows else empty("No trade", "It held nothing.")
    frame.html(sheet("Newest trades", body, note="each opens its decision", flush=bool(rows)))


async def _decision(frame: PageFrame, name: str, run_id: str) -> None:
    def read() -> Any:
        with frame.book.backtests.open(name) as made:
            return made.run(run_id)

    frame.html(*decision_parts(await frame.read(read)))


async def _comparison(frame: PageFrame, first: str, second: str) -> None:
    found = (await frame.read(frame.book.backtests.compare, first, second)).to_dict()
    both = [found["first"], found["second"]]
    frame.html(alert(found["verdict"], [], "good" if found["test"] else ""))
    rows = [[key, *map(str, values)] for key, values in found["differs"].items()]
    _daily_chart({f"{each['id']}": each for each in both}, [])
    lines: list[list[Child]] = [
        ["change USD", *(signed_usd(each["equity"]["end_usd"] - each["equity"]["start_usd"]) for each in both)],
        ["trades", *(number(each["trades"]) for each in both)],
        ["won", *(share(each["win_rate"]["value"], 1) for each in both)],
        ["fees USD", *(usd(each["pnl"]["fees_usd"]) for each in both)],
        ["deepest fall", *(share(each["drawdown"]["share"], 2) for each in both)],
        ["lessons", *(number(len(each["lessons"])) for each in both)],
    ]
    columns = [Cells("", "tb-fit"), Cells(found["first"]["id"], "num"), Cells(found["second"]["id"], "num")]
    frame.html(
        sheet("Side by side", table(columns, lines, label="Both backtests"), flush=True),
        sheet(
            "What differs between them",
            table([Cells("input"), Cells(first), Cells(second)], rows, label="Inputs that differ"),
            flush=True,
        )
        if rows
        else sheet("What differs between them", empty("Nothing", "Both were made of the same inputs.")),
    )
