"""The backtests of a home, for surfaces and programs: list, show, compare, export, remove.

    tb.backtests.show("1f0c")["total"]["sharpe"]

A backtest is named by its id, or by the beginning of it.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapebook.clock import VirtualClock
from tapebook.domain.instants import iso
from tapebook.domain.money import E6
from tapebook.errors import BadInput, Damaged
from tapebook.home import sole_writer
from tapebook.lab.backtest_home import BacktestHome, backtest_home, backtest_homes
from tapebook.lab.backtest_view import (
    chunk_lines,
    chunk_view,
    result_view,
    spent_text,
    spent_view,
    stale_sentences,
    summary_lines,
)
from tapebook.lab.identity import Fingerprints
from tapebook.lab.plan import Plan
from tapebook.lab.result import BacktestResult, ChunkResult
from tapebook.lab.spending import Spent, spent_by
from tapebook.wiring import Rooms

if TYPE_CHECKING:
    from tapebook.lab.rivals import Rivals


class Backtests:
    """All backtests below one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def all(self) -> list[dict[str, Any]]:
        """Every backtest with how far it has come and what it came to, by the beginning of its range.

        `stale` names the inputs that are others by now; it is empty for one that is current.
        """
        homes = backtest_homes(self._home)
        if not homes:
            return []
        with self._fingerprints() as fingerprints:
            rows = [self._row(home, fingerprints) for home in homes]
        return sorted(rows, key=lambda row: (row["start"] or "", row["agent"] or "", row["id"]))

    def show(self, name: str) -> dict[str, Any]:
        """A backtest with all its chunks; `total` and `baselines` are null until the last is done."""
        home = backtest_home(self._home, name)
        result, pace = home.result(), home.speed().ticks_per_second
        if result is not None:
            stale, spent = self._stale(home), self._spent(home)
            return result_view(result, ticks_per_second=pace, stale=stale, spent=spent) | {"status": "done"}
        chunks = [chunk_view(chunk) for chunk in _done(home)]
        with self._fingerprints() as fingerprints:
            row = self._row(home, fingerprints)
        return row | {"ticks_per_second": pace, "chunks": chunks, "total": None, "baselines": None}

    def lines(self, name: str, *, chunks: bool = False) -> list[str]:
        """The same for people; with `chunks`, what each of them taught."""
        home = backtest_home(self._home, name)
        result, done = home.result(), _done(home)
        stale, agent = self._stale(home), home.plan().agent.name
        each = [f"STALE: {sentence}" for sentence in stale_sentences(agent, stale)]
        each += [line for chunk in done for line in (*chunk_lines(chunk), "")]
        if result is not None:
            return [*(each if chunks else []), *summary_lines(result, stale=stale, spent=self._spent(home))]
        then = "begins another: its inputs are no longer the same" if stale else "goes on with it"
        paid = [f"  models  {said}" for said in filter(None, [spent_text(self._spent(home))])]
        stopped = [f"  stopped: {reason}" for reason in filter(None, [home.stopped()])]
        so_far = f"{home.id}: {_progress(home.plan(), done)}; the same `tapebook backtest` again {then}"
        return [*each, so_far, *paid, *stopped]

    def spent(self, name: str) -> Spent:
        """What the models of a backtest cost by now."""
        return self._spent(backtest_home(self._home, name))

    def compare(self, first: str, second: str) -> "Rivals":
        """Two finished backtests side by side."""
        # It brings numpy, which a list of backtests has no use for.
        from tapebook.lab.rivals import compare_backtests

        both = [self._finished(name) for name in (first, second)]
        stale = {home.id: self._stale(home) for home, _ in both}
        return compare_backtests(both[0][1], both[1][1], stale=stale)

    def export(
        self,
        name: str,
        *,
        csv: str | Path | None = None,
        html: str | Path | None = None,
        json: str | Path | None = None,
        overwrite: bool = False,
    ) -> list[str]:
        """Writes a finished backtest as CSV files (a folder, or a .zip), as a page, as JSON; says what it wrote."""
        from tapebook.lab.export import csv_files, json_bytes, write_csv, write_text
        from tapebook.lab.report import report_html
        from tapebook.lab.story import markets, story

        home, result = self._finished(name)
        if csv is html is json is None:
            raise BadInput("say what to write: --csv, --html or --json with a place")
        if json is not None:
            view = result_view(
                result,
                ticks_per_second=home.speed().ticks_per_second,
                stale=self._stale(home),
                spent=self._spent(home),
            )
            write_text(Path(json), json_bytes(view), overwrite=overwrite)
        if csv is not None or html is not None:
            plan = home.plan()
            with closing(Rooms(home.folder, clock=VirtualClock(plan.end))) as rooms:
                told = story(rooms, plan, result, stale=self._stale(home), spent=self._spent(home))
                if csv is not None:
                    write_csv(Path(csv), csv_files(told), overwrite=overwrite)
                if html is not None:
                    page = report_html(told, markets(rooms, plan))
                    write_text(Path(html), page.encode(), overwrite=overwrite)
        return [str(place) for place in (csv, html, json) if place is not None]

    def remove(self, name: str) -> str:
        """Deletes a backtest that nobody is running, and gives its id; the same plan can be run again."""
        home = backtest_home(self._home, name)
        with sole_writer(home.folder):
            # Without its plan it is no backtest any more, however far the rest gets.
            (home.folder / "plan.json").unlink()
            shutil.rmtree(home.folder)
        return home.id

    def _spent(self, home: BacktestHome) -> Spent:
        return spent_by(self._home, home.id)

    def _row(self, home: BacktestHome, fingerprints: Fingerprints) -> dict[str, Any]:
        """A line of the list; what is damaged is listed too, so that it can be removed."""
        nothing = dict.fromkeys(("agent", "agent_version", "start", "end", "memory", "chunks_done", "chunks_planned"))
        counted = dict.fromkeys(("trades", "change_usd", "spent", "stopped"))
        try:
            plan, done, finished, stopped = home.plan(), _done(home), home.result(), home.stopped()
        except Damaged:
            return {"id": home.id, "status": "damaged", **nothing, **counted, "fill": None, "stale": []}
        progress = f"stopped at its limit, {_progress(plan, done)}" if stopped else _progress(plan, done)
        return {
            "id": home.id,
            "status": "done" if finished else progress,
            "agent": plan.agent.name,
            "agent_version": plan.agent_version,
            "start": iso(plan.start),
            "end": iso(plan.end),
            "memory": plan.memory,
            "chunks_done": len(done),
            "chunks_planned": len(plan.chunks),
            "trades": sum(chunk.trades for chunk in done),
            "change_usd": sum(chunk.change_usd_e6 for chunk in done) / E6,
            "spent": spent_view(self._spent(home)),
            "stopped": stopped,
            "fill": plan.fill,
            "stale": list(fingerprints.changed(plan)),
        }

    def _stale(self, home: BacktestHome) -> tuple[str, ...]:
        """The inputs of a backtest that are others by now."""
        with self._fingerprints() as fingerprints:
            return fingerprints.changed(home.plan())

    @contextmanager
    def _fingerprints(self) -> Iterator[Fingerprints]:
        """What the inputs of backtests are now, in the home they were asked for in."""
        with closing(Rooms(self._home, clock=VirtualClock(0))) as rooms:
            yield Fingerprints(rooms)

    def _finished(self, name: str) -> tuple[BacktestHome, BacktestResult]:
        home = backtest_home(self._home, name)
        result = home.result()
        if result is None:
            said = _progress(home.plan(), _done(home))
            raise BadInput(f"backtest {home.id} is not finished ({said}): run the same `tapebook backtest` again")
        return home, result


def _done(home: BacktestHome) -> list[ChunkResult]:
    """The chunks that are done, in order."""
    kept = (home.checkpoint(chunk) for chunk in home.plan().chunks)
    return [checkpoint.result for checkpoint in kept if checkpoint is not None]


def _progress(plan: Plan, done: list[ChunkResult]) -> str:
    return f"{len(done)} of {len(plan.chunks)} chunks done"
