"""The report of a demo in numbers: lines for people, and the same as a mapping."""

import re
from pathlib import Path
from typing import Any

import msgspec

from tapebook.backtest.formats import usd_text
from tapebook.backtest.home import backtest_homes
from tapebook.book.store import Book
from tapebook.book.totals import TradeTotals
from tapebook.clock import Clock
from tapebook.domain.agent import deployment_id
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import plural, short_line
from tapebook.domain.units import DAY, E6, HOUR, SECOND, decimal_text, floor_to_step, iso_text
from tapebook.home import DEMO_START
from tapebook.lab.replay import ReplayReport, rebuild_packet, replay_runs
from tapebook.lessons.notes import Notes
from tapebook.report.comparison import PairedVerdict, compare_backtests
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.prepare import tape_marks
from tapebook.wiring import Rooms

_ALL = 2**31 - 1
_FIRST_SYMBOL = "BTC"
_MANY_HOURS = 72
# The decisions of a demo of a few hours are all replayed; of one that is weeks old, twice so many.
_REPLAYED = 100
# Decisions in which a refused order, and packets in which a look-alike and a citation are looked for.
_MOST_LOOKED_AT, _MOST_REBUILT = 400, 12
_VERDICTS: dict[PairedVerdict, str] = {
    "first": "memory helped",
    "second": "memory did harm",
    "not enough evidence": "not enough evidence",
}
_ALIKE = re.compile(r"^- similar (nearest moment: .*)$", re.MULTILINE)


class DemoAgentResult(msgspec.Struct, frozen=True):
    """One agent's account at the end."""

    agent: str
    trades: TradeTotals
    open_positions: int
    equity_usd_e6: int


class DemoReport(msgspec.Struct, frozen=True):
    """The whole demo, from its first moment."""

    home: str
    seed: int
    market_from: int
    market_until: int
    rows: int
    decisions: dict[str, int]
    refused: dict[str, int]
    agents: list[DemoAgentResult]
    replayed: ReplayReport
    heads: dict[str, str]
    highlights: dict[str, str] = {}

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        mapping: dict[str, Any] = msgspec.to_builtins(self)
        return mapping | {"market_from": iso_text(self.market_from), "market_until": iso_text(self.market_until)}

    def lines(self) -> list[str]:
        """The report for people."""
        hours = (self.market_until - self.market_from) / HOUR
        length = f"{hours:.1f} h" if hours < _MANY_HOURS else f"{hours / 24:.1f} days"
        ticks = sum(self.decisions.values())
        decisions = ", ".join(f"{count:,} {status}" for status, count in self.decisions.items())
        refused = ", ".join(f"{rule} {count:,}" for rule, count in self.refused.items()) or "none"
        equal, checked = self.replayed.equal, self.replayed.checked
        span = f"{iso_text(self.market_from)[:16]} to {iso_text(self.market_until)[:16]} UTC"
        return [
            f"market time   {span} ({length}), seed {self.seed}",
            f"tape          {plural(self.rows, 'row')}",
            f"ticks         {ticks:,}",
            f"decisions     {decisions}",
            f"refused       {refused}",
            *(_agent_line(result) for result in self.agents),
            f"replay        {equal:,} of {checked:,} packets equal byte for byte",
            *(f"{name:13} {text}" for name, text in self.highlights.items()),
            f"home          {self.home}   (try: tapebook trades btc-5m --home {self.home})",
        ]


def demo_report(rooms: Rooms, *, seed: int) -> DemoReport:
    """Reads everything from the stores; nothing is remembered by the process that ran."""
    names = [(profile.name, deployment_id(profile)) for _, profile in rooms.book.agents()]
    first, run_ids = rooms.tape.first_known_at(), rooms.book.run_ids(most=_ALL)
    is_aged = first < DEMO_START
    if is_aged and (span := rooms.tape.candle_span(_FIRST_SYMBOL, granularity_sec=60)) is not None:
        # The past is written a day at a time.
        first = span[0]
    return DemoReport(
        home=str(rooms.home),
        seed=seed,
        market_from=first,
        market_until=floor_to_step(rooms.tape.head()[1], SECOND),
        rows=rooms.tape.rows_written(),
        decisions=rooms.book.run_counts(),
        refused=_refused_counts(rooms.book),
        agents=[
            _agent_result(rooms.book, rooms.tape, name, deployment, clock=rooms.clock) for name, deployment in names
        ],
        replayed=replay_runs(rooms, _spread(run_ids) if is_aged else run_ids[::-1]),
        heads={stream.name: rooms.log.head(stream).hash for stream in rooms.log.streams()},
        # A demo of a few hours has hardly learned anything.
        highlights=_highlights(rooms) | _backtests_line(rooms.home) if is_aged else {},
    )


def _highlights(rooms: Rooms) -> dict[str, str]:
    """One of each: a lesson, a look-alike, a citation and a refused order, the newest where there are several."""
    newest = [run for each in rooms.book.run_ids(most=_MOST_LOOKED_AT) if (run := rooms.book.run(each)) is not None]
    packets = [rebuild_packet(rooms, run) for run in newest[:_MOST_REBUILT] if run.packet_sha256]
    alike = [found[0] for packet in packets if (found := _ALIKE.findall(packet.text))]
    cited = [each for packet in packets for each in packet.citations if each.path.startswith("global/")]
    refused = [text for run in newest if (text := _refused_order(run)) is not None]
    lines = {
        "lesson": _best_lesson(rooms.book, rooms.notes),
        "look-alike": next(iter(alike), None),
        "citation": next((f'{each.path}:{each.start_line} "{short_line(each.snippet, 90)}"' for each in cited), None),
        "refused order": next(iter(refused), None),
    }
    return {name: text for name, text in lines.items() if text is not None}


def _backtests_line(home: Path) -> dict[str, str]:
    """What the demo's own backtests came to, with memory and without; empty when they are not there."""
    results = {result.memory: result for each in backtest_homes(home) if (result := each.result()) is not None}
    on, off = results.get("on"), results.get("off")
    if on is None or off is None or on.agent_version != 1 or off.agent_version != 1:
        return {}
    test = compare_backtests(on, off).test
    verdict = _VERDICTS["not enough evidence" if test is None else test.verdict]
    with_it, without = (usd_text(each.total.change_usd_e6, signed=True) for each in (on, off))
    days = plural(round((on.end - on.start) / DAY), "day")
    return {"backtests": f"{on.agent} again, {days}: {with_it} USD with its memory, {without} without: {verdict}"}


def _best_lesson(book: Book, notes: Notes) -> str | None:
    """The lesson that stands best, with how many were confirmed and retired in all."""
    order = ("confirmed", "registered", "weakened", "retired")
    known = [
        (profile.name, change.lesson)
        for _, profile in book.agents()
        for change in notes.lessons(deployment_id(profile), seq=book.head(deployment_id(profile)))
    ]
    if not known:
        return None
    agent, best = min(known, key=lambda each: order.index(each[1].trial.status))
    confirmed = sum(lesson.trial.confirmed_at is not None for _, lesson in known)
    retired = sum(lesson.trial.status == "retired" for _, lesson in known)
    return f"{agent}: {best.bullet()} ({len(known)} found, {confirmed} confirmed, {retired} retired)"


def _refused_order(run: DecisionRun) -> str | None:
    for action, verdict in zip(run.actions, run.verdicts, strict=True):
        if not verdict.allowed and verdict.rule:
            what = f"{action.action} {action.side or ''} {action.symbol}".replace("  ", " ")
            return f"{iso_text(run.as_of)[:16]} {run.agent}: {what}: {verdict.rule}, {verdict.detail}"
    return None


def _agent_result(book: Book, tape: Tape, agent: str, deployment: str, *, clock: Clock) -> DemoAgentResult:
    account = book.account(deployment, seq=book.head(deployment))
    portfolio = account.portfolio
    seen = tape_marks(tape, portfolio.positions, view=View(clock.now()))
    return DemoAgentResult(
        agent, book.trade_totals(deployment), len(portfolio.positions), portfolio.equity_usd_e6(seen)
    )


def _spread(run_ids: list[str]) -> list[str]:
    """The newest decisions and as many spread over the rest, oldest first: thousands take longer than the demo."""
    newest, rest = run_ids[:_REPLAYED], run_ids[_REPLAYED:]
    return [*newest, *rest[:: len(rest) // _REPLAYED + 1]][::-1]


def _refused_counts(book: Book) -> dict[str, int]:
    refused: dict[str, int] = {}
    for _, rule, count in book.action_counts():
        if rule:
            refused[rule] = refused.get(rule, 0) + count
    return refused


def _agent_line(result: DemoAgentResult) -> str:
    totals = result.trades
    net, equity = decimal_text(totals.net_usd_e6, E6, 2), decimal_text(result.equity_usd_e6, E6, 2)
    return (
        f"{result.agent:13} {totals.count} round trips ({totals.won} won), net ${net}, "
        f"{result.open_positions} open, equity ${equity}"
    )
