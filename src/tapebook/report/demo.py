"""The report of a demo in numbers: lines for people, and the same as a mapping."""

from typing import Any

import msgspec

from tapebook.book.store import TradeTotals
from tapebook.domain.agent import deployment_id
from tapebook.domain.instants import HOUR, SECOND, floor_to_step, iso_text
from tapebook.domain.money import E6, decimal_text
from tapebook.domain.text import plural
from tapebook.lab.replay import ReplayReport, replay_runs
from tapebook.tape.view import View
from tapebook.tick.prepare import tape_marks
from tapebook.wiring import Rooms

_ALL = 2**31 - 1
# The decisions of a demo of a few hours are all replayed; of one that is weeks old, twice so many.
_MOST_REPLAYED, _REPLAYED = 4_000, 100


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

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        mapping: dict[str, Any] = msgspec.to_builtins(self)
        return mapping | {"market_from": iso_text(self.market_from), "market_until": iso_text(self.market_until)}

    def lines(self) -> list[str]:
        """The report for people."""
        hours = (self.market_until - self.market_from) / HOUR
        ticks = sum(self.decisions.values())
        decisions = ", ".join(f"{count:,} {status}" for status, count in self.decisions.items())
        refused = ", ".join(f"{rule} {count:,}" for rule, count in self.refused.items()) or "none"
        equal, checked = self.replayed.equal, self.replayed.checked
        span = f"{iso_text(self.market_from)[:16]} to {iso_text(self.market_until)[:16]} UTC"
        return [
            f"market time   {span} ({hours:.1f} h), seed {self.seed}",
            f"tape          {plural(self.rows, 'row')}",
            f"ticks         {ticks:,}",
            f"decisions     {decisions}",
            f"refused       {refused}",
            *(_agent_line(result) for result in self.agents),
            f"replay        {equal:,} of {checked:,} packets equal byte for byte",
            f"home          {self.home}   (try: tapebook trades btc-5m --home {self.home})",
        ]


def demo_report(rooms: Rooms, *, seed: int) -> DemoReport:
    """Reads everything from the stores; nothing is remembered by the process that ran."""
    names = [(profile.name, deployment_id(profile)) for _, profile in rooms.book.agents()]
    first = rooms.tape.first_known_at()
    return DemoReport(
        home=str(rooms.home),
        seed=seed,
        market_from=first,
        market_until=floor_to_step(rooms.tape.head()[1], SECOND),
        rows=rooms.tape.rows_written(),
        decisions=rooms.book.run_counts(),
        refused=_refused_counts(rooms),
        agents=[_agent_result(rooms, name, deployment) for name, deployment in names],
        replayed=replay_runs(rooms, _sample(rooms.book.run_ids(most=_ALL))),
        heads={stream.name: rooms.log.head(stream).hash for stream in rooms.log.streams()},
    )


def _agent_result(rooms: Rooms, agent: str, deployment: str) -> DemoAgentResult:
    account = rooms.book.account(deployment, seq=rooms.book.head(deployment))
    portfolio = account.portfolio
    seen = tape_marks(rooms.tape, portfolio.positions, view=View(rooms.clock.now()))
    return DemoAgentResult(
        agent, rooms.book.trade_totals(deployment), len(portfolio.positions), portfolio.equity_usd_e6(seen)
    )


def _sample(run_ids: list[str]) -> list[str]:
    """All of a short demo, oldest first; of a long one the newest and as many spread over the rest."""
    newest, rest = run_ids[:_REPLAYED], run_ids[_REPLAYED:]
    # Of a demo without weeks before it, all: some thousand take as long as the demo itself.
    spread = rest if len(rest) <= _MOST_REPLAYED else rest[:: -(-len(rest) // _REPLAYED)]
    return [*newest, *spread][::-1]


def _refused_counts(rooms: Rooms) -> dict[str, int]:
    refused: dict[str, int] = {}
    for _, rule, count in rooms.book.action_counts():
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
