"""Backtests: the list, one started and watched, two compared, and a report with its trades."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from nicegui import ui

from tapebook.api.app import BacktestProgress, CostEstimate, Tapebook, cost_sentence
from tapebook.domain.text import plural
from tapebook.errors import TapebookError
from tapebook.surfaces.web.charts import arms_options, equity_options
from tapebook.surfaces.web.decisions import decision_parts
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
    badge,
    bar,
    empty,
    figures,
    link,
    moment,
    number,
    share,
    sheet,
    side_badge,
    signed_usd,
    span_text,
    table,
    tag,
    text_block,
    together,
    usd,
)

_LIST = [
    *(Cells("backtest", "tb-fit"), Cells("agent", "tb-fit"), Cells("from", "tb-fit"), Cells("to", "tb-fit")),
    *(Cells("memory", "tb-fit"), Cells("chunks", "num"), Cells("trades", "num"), Cells("change USD", "num")),
    *(Cells("model cost USD", "num"), Cells("state", "tb-fit")),
]
_CHUNKS = [
    *(Cells("chunk", "tb-fit"), Cells("trades", "num"), Cells("won", "num"), Cells("net USD", "num")),
    *(Cells("fees USD", "num"), Cells("equity USD", "num"), Cells("max drawdown", "num"), Cells("lessons", "num")),
]
_TRADES = [
    *(Cells("entry", "tb-fit"), Cells("symbol", "tb-fit"), Cells("side", "tb-fit"), Cells("net USD", "num")),
    *(Cells("minutes", "num"), Cells("exit reason", "long"), Cells("exit", "tb-fit")),
]
_BASELINES = [
    *(Cells("baseline"), Cells("net USD", "num"), Cells("trades", "num"), Cells("sharpe", "num")),
    Cells("max drawdown", "num"),
]
# The whole range first: a month would be refused on a home of a day.
_CHUNK_KINDS = {"none": "whole range", "week": "by week", "month": "by month", "quarter": "by quarter"}
# As many points as a screen can tell apart.
_POINTS = 400


class BacktestJob:
    """A backtest that runs in a thread of this process, how far it has come, and what it may cost."""

    def __init__(self, book: Tapebook, agent: str, options: Mapping[str, Any], *, max_usd: float | None) -> None:
        self.title = f"{agent}, memory {options['memory']}"
        self.words = "planning"
        self.cost = ""
        self.done = 0.0
        self.result_id = ""
        self.problem = ""
        self._call = partial(
            book.backtest, agent, progress=self._note, agree=self._note_estimate, max_usd=max_usd, **options
        )
        # A thread and no task: a backtest computes for minutes, and pages must be drawn meanwhile.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def _note(self, progress: BacktestProgress) -> None:
        self.done = progress.done
        rate = f"{number(progress.ticks_per_second)} a second"
        spent = f", {progress.spent.cost_usd_e6 / 1e6:,.2f} USD spent" if progress.spent else ""
        self.words = (
            f"{share(progress.done, 0)} of {progress.chunk}, {plural(progress.ticks, 'decision')}, {rate}{spent}"
        )

    def _note_estimate(self, estimate: CostEstimate) -> bool:
        self.cost = cost_sentence(estimate)
        # Nobody agrees here: whoever starts it states a limit.
        return False

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

    @page("/backtests")
    async def backtests() -> None:
        lead = "An agent over past bars, with the same code as live"
        with page_frame(book, "/backtests", title="Backtests", lead=lead) as frame:
            await draw_or_say(lambda: _start_sheet(frame, jobs))

    @page("/backtests/compare")
    async def compare(first: str = "", second: str = "") -> None:
        with page_frame(book, "/backtests/compare", title="Comparison", lead="Two backtests side by side") as frame:
            await draw_or_say(lambda: _comparison(frame, first, second))

    @page("/backtests/{name}")
    async def report(name: str) -> None:
        with page_frame(book, f"/backtests/{name}", title="Backtest", lead=tag("code", name)) as frame:
            await draw_or_say(lambda: _report(frame, name))

    @page("/backtests/{name}/decisions/{run_id}")
    async def decision(name: str, run_id: str) -> None:
        lead = together(link("backtest ", "backtests", name), tag("code", name))
        with page_frame(book, f"/backtests/{name}", title="Decision", lead=lead) as frame:
            await draw_or_say(lambda: _decision(frame, name, run_id))


async def _list(frame: PageFrame) -> None:
    found = await frame.read(frame.book.backtests.all)
    if not found:
        advice = "Start one above, or from the command line:"
        frame.html(sheet("Backtests", empty("No backtest yet", advice, "tapebook backtest AGENT --from 2026-01-01")))
        return
    done = [each for each in found if each["status"] == "done"]
    if len(done) > 1:
        _compare_sheet(done)
    rows = [_list_row(each) for each in found]
    frame.html(
        sheet("Backtests", table(_LIST, rows, label="Backtests"), note=plural(len(rows), "backtest"), flush=True)
    )


def _list_row(each: Mapping[str, Any]) -> list[Child]:
    state = badge("✓ done", "good") if each["status"] == "done" else badge(each["status"], "warn")
    spent = each["spent"]
    return [
        link(each["id"][:8], "backtests", each["id"]),
        each["agent"] or "–",
        (each["start"] or "")[:10],
        (each["end"] or "")[:10],
        each["memory"] or "–",
        f"{each['chunks_done']} of {each['chunks_planned']}",
        number(each["trades"]),
        signed_usd(each["change_usd"]),
        usd(spent["usd"], 4) if spent and "usd" in spent else "0",
        together(state, " ", badge("inputs changed", "warn") if each["stale"] else None),
    ]


def arm_names(done: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Backtests by what they are; the beginning of the id tells equal ones apart."""
    names = {
        each["id"]: f"{each['agent']}, memory {each['memory']}, from {(each['start'] or '')[:10]}" for each in done
    }
    several = {name for name, times in Counter(names.values()).items() if times > 1}
    return {key: f"{name}, {key[:8]}" if name in several else name for key, name in names.items()}


def _compare_sheet(done: Sequence[Mapping[str, Any]]) -> None:
    """The choice of two backtests by what they are."""
    names = arm_names(done)
    ids = list(names)
    with sheet_of("Compare", "for example the same days with and without memory"):
        with ui.element("div").classes("tb-controls"):
            style = "width: min(420px, 78vw)"
            first = ui.select(names, value=ids[0], label="First arm").props("outlined dense").style(style)
            second = ui.select(names, value=ids[1], label="Second arm").props("outlined dense").style(style)
            button = action_button("Compare")
        button.on_click(
            lambda: ui.navigate.to(f"/backtests/compare?{query_of(first=str(first.value), second=str(second.value))}")
        )


async def _start_sheet(frame: PageFrame, jobs: list[BacktestJob]) -> None:
    """Starts a backtest, and shows how far it is and what it costs."""
    names = [each["name"] for each in await frame.read(frame.book.agents)]
    with sheet_of("Start a backtest", "one that was stopped goes on; a model needs a cost limit"):
        if not names:
            frame.html(empty("No agent yet", "Add the first:", "tapebook agents add NAME --watch BTC"))
            return
        with ui.element("div").classes("tb-controls"):
            agent = ui.select(names, value=names[0], label="Agent").props("outlined dense").style("min-width: 160px")
            begin = ui.input("From, UTC", placeholder="all bars").props("outlined dense").style("width: 130px")
            end = ui.input("To, UTC", placeholder="all bars").props("outlined dense").style("width: 130px")
            memory = ui.select(["on", "off"], value="on", label="Memory").props("outlined dense").style("width: 110px")
            chunks = ui.select(_CHUNK_KINDS, value="none", label="Report").props("outlined dense").style("width: 140px")
            limit = ui.number("Cost limit, USD", min=0).props("outlined dense").style("width: 140px")
            button = action_button("Start")
        shown = ui.html(sanitize=False)
        shown.props["aria-live"] = "polite"
        ended: set[int] = {id(job) for job in jobs if job.is_over}

        def start() -> None:
            options = {"memory": memory.value, "chunks": chunks.value}
            options |= {"start": begin.value or None, "end": end.value or None}
            jobs.append(BacktestJob(frame.book, str(agent.value), options, max_usd=limit.value))
            draw()

        def draw() -> None:
            shown.content = tag("div", [_job_line(job) for job in jobs[-3:]], cls="tb-stack")
            # What has ended is in the list from now on.
            new = [job for job in jobs if job.is_over and id(job) not in ended]
            ended.update(id(job) for job in new)
            if any(job.result_id for job in new):
                draw_list.refresh()

        @ui.refreshable
        async def draw_list() -> None:
            await draw_or_say(lambda: _list(frame))

        button.on_click(start)
        draw()
        ui.timer(1.0, draw)
    await draw_list()


def _job_line(job: BacktestJob) -> Markup:
    if job.problem:
        return alert(f"{job.title}: it did not run", [job.problem], "bad")
    cost = tag("span", job.cost or "no model is asked, so it costs nothing", cls="tb-note")
    if job.is_over:
        done = link("open the report", "backtests", job.result_id)
        return tag("p", badge("✓ done", "good"), f" {job.title}: ", done, " ", cost)
    return tag("div", tag("p", f"{job.title}: {job.words} "), bar(job.done, 1.0), cost, role="status")


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
                (
                    "Change",
                    signed_usd(total["equity"]["end_usd"] - total["equity"]["start_usd"]),
                    f"USD, {found['agent']}",
                ),
                ("Trades", number(total["trades"]), f"{share(total['win_rate']['value'], 0)} won"),
                (
                    "Sharpe",
                    f"{sharpe['value']:.2f}" if sharpe else "–",
                    f"{sharpe['low']:.1f} to {sharpe['high']:.1f}" if sharpe else "",
                ),
                ("Max drawdown", share(total["drawdown"]["share"], 2), f"{usd(total['drawdown']['usd'])} USD"),
                ("Decisions", number(total["ticks"]), f"{number(found['ticks_per_second'])} a second"),
                ("Memory", found["memory"], plural(len(total["lessons"]), "lesson")),
            ]
        )
    )
    line = await frame.read(_equity_of, frame.book, name, found["agent"])
    with sheet_of("Equity and drawdown", span_text(line)):
        chart(equity_options(line), "Equity and drawdown of the backtest")
    frame.html(_baselines(found["baselines"], total))
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
        for chunk in [*found["chunks"], *([total] if len(found["chunks"]) > 1 else [])]
    ]
    frame.html(sheet("Chunks", table(_CHUNKS, rows, label="Chunks of the backtest"), flush=True))
    await _trades(frame, name, found["agent"])
    lines = await frame.read(frame.book.backtests.lines, name)
    frame.html(sheet("In words", text_block("\n".join(lines), wrap=False)))


def _change_usd(total: Mapping[str, Any]) -> float:
    equity = total["equity"]
    return float(equity["end_usd"] - equity["start_usd"])


def _equity_of(book: Tapebook, name: str, agent: str) -> Mapping[str, Any]:
    # Opened for this read alone: a backtest has a book of its own.
    with book.backtests.open(name) as made:
        return made.equity(agent, most=_POINTS)


def _baselines(baselines: Sequence[Mapping[str, Any]] | None, total: Mapping[str, Any]) -> Markup:
    """What somebody who knows nothing would have made, below what the agent made."""

    def row(name: str, net: float, trades: int, measures: tuple[Mapping[str, Any] | None, float | None]) -> list[Child]:
        sharpe, fall = measures
        return [name, signed_usd(net), number(trades), number(sharpe["value"] if sharpe else None, 2), share(fall, 2)]

    rows = [row("this agent", _change_usd(total), total["trades"], (total["sharpe"], total["drawdown"]["share"]))]
    rows += [
        row(each["name"], each["net_usd"], each["trades"], (each["sharpe"], each["drawdown"]))
        for each in baselines or []
    ]
    return sheet("Against baselines", table(_BASELINES, rows, label="The agent and the baselines"), flush=True)


async def _trades(frame: PageFrame, name: str, agent: str) -> None:
    """Its newest trades, each with the decisions that entered and left it."""

    def read() -> list[Any]:
        with frame.book.backtests.open(name) as made:
            return list(made.trades(agent, most=50))

    found = await frame.read(read)

    def end(text: str | None, run_id: str | None) -> Child:
        return link(moment(text), "backtests", name, "decisions", run_id) if text and run_id else moment(text)

    rows: list[list[Child]] = [
        [
            end(each["entry_tick_at"], each["entry_snapshot_id"]),
            each["symbol"],
            side_badge(each["side"]),
            signed_usd(each["net_pnl_usd"]),
            number(each["holding_minutes"]),
            each["exit_reason"] or "open",
            end(each["exit_tick_at"], each["exit_snapshot_id"]),
        ]
        for each in found
    ]
    body = (
        table(_TRADES, rows, label="Trades of the backtest") if rows else empty("No trade", "It never held anything.")
    )
    frame.html(sheet("Newest trades", body, note="entry and exit open their decisions", flush=bool(rows)))


async def _decision(frame: PageFrame, name: str, run_id: str) -> None:
    def read() -> Any:
        with frame.book.backtests.open(name) as made:
            return made.run(run_id)

    frame.html(*decision_parts(await frame.read(read)))


async def _comparison(frame: PageFrame, first: str, second: str) -> None:
    found = (await frame.read(frame.book.backtests.compare, first, second)).to_dict()
    both = [found["first"], found["second"]]
    shown = [await frame.read(frame.book.backtests.show, each["id"]) for each in both]
    names = _different_names(shown)
    frame.html(verdict_alert(found, names))
    lines = {}
    for name, each in zip(names, shown, strict=True):
        line = await frame.read(_equity_of, frame.book, each["id"], str(each["agent"]))
        lines[name] = [(point["at"], round(point["equity_usd"], 2)) for point in line["points"]]
    agents = " and ".join(dict.fromkeys(str(each["agent"]) for each in shown))
    with sheet_of("Equity, USD", f"{agents}, both arms over the same time"):
        chart(arms_options(lines), f"Equity of {names[0]} and of {names[1]}")
    measures: list[list[Child]] = [
        ["change USD", *(signed_usd(_change_usd(each)) for each in both)],
        ["trades", *(number(each["trades"]) for each in both)],
        ["won", *(share(each["win_rate"]["value"], 1) for each in both)],
        ["fees USD", *(usd(each["pnl"]["fees_usd"]) for each in both)],
        ["sharpe, yearly", *(_sharpe_text(each["sharpe"]) for each in both)],
        ["max drawdown", *(share(each["drawdown"]["share"], 2) for each in both)],
        ["lessons", *(number(len(each["lessons"])) for each in both)],
        ["report", *(link(each["id"][:8], "backtests", each["id"]) for each in both)],
    ]
    columns = [Cells("measure", "tb-fit"), *(Cells(name, "num tb-name") for name in names)]
    differs = [[key, *(tag("code", str(value)[:24]) for value in values)] for key, values in found["differs"].items()]
    inputs = [Cells("input", "tb-fit"), *(Cells(name, "tb-name") for name in names)]
    none = empty("No difference", "Both arms have the same inputs.")
    different = table(inputs, differs, label="Inputs that differ") if differs else none
    chunks: list[list[Child]] = [
        [each["chunk"], signed_usd(each["first_usd"]), signed_usd(each["second_usd"])] for each in found["chunks"]
    ]
    by_chunk = [Cells("chunk", "tb-fit"), *(Cells(name, "num tb-name") for name in names)]
    right = [sheet("Inputs that differ", different, flush=bool(differs))]
    if len(chunks) > 1:
        title = "Change by chunk, USD"
        right.insert(0, sheet(title, table(by_chunk, chunks, label="What each chunk changed"), flush=True))
    left = sheet("Side by side", table(columns, measures, label="Both backtests"), flush=True)
    frame.html(tag("div", tag("div", left), tag("div", right), cls="tb-columns"))


def verdict_alert(found: Mapping[str, Any], names: Sequence[str]) -> Markup:
    """Which arm did better by its name, if that can be said, and the figures it rests on."""
    test = found["test"]
    if found["unpaired"]:
        return alert("Verdict: cannot be compared", [found["unpaired"]], "plain")
    if test is None:
        return alert("Verdict: not enough evidence", ["There are fewer than two days to compare."], "plain")
    better = {"first": names[0], "second": names[1]}.get(test["verdict"])
    mean = test["student_bps"]
    figures_text = (
        f"Daily difference {mean['value']:+.2f} bps (95 % {mean['low']:+.2f} to {mean['high']:+.2f}, "
        f"{plural(test['days'], 'day')}); so many days show one of {test['detectable_bps']:.1f} bps or more."
    )
    title = f"Verdict: {better} did better" if better else "Verdict: not enough evidence"
    return alert(title, [figures_text], "good" if better else "plain")


def _sharpe_text(sharpe: Mapping[str, Any] | None) -> str:
    return f"{sharpe['value']:.2f} ({sharpe['low']:.1f} to {sharpe['high']:.1f})" if sharpe else "–"


def _different_names(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of arms by what differs between them; with their ids where nothing does."""
    names = [f"memory {each['memory']}" for each in shown]
    # Short where they can be: a phone has room for three columns of them.
    if names[0] == names[1] or shown[0]["agent"] != shown[1]["agent"]:
        names = [f"{each['agent']}, memory {each['memory']}" for each in shown]
    return (
        names
        if names[0] != names[1]
        else [f"{name} ({each['id'][:8]})" for name, each in zip(names, shown, strict=True)]
    )
