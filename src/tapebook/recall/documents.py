"""Documents that tapebook writes itself: what was decided and how it ended, for whoever asks later.

One for each trade that has ended, one a day for the decisions that acted or were refused, one for each backtest. Words
of models and markets stand in quotes (`domain/text.py`); everything else is written here.
"""

from collections.abc import Collection, Sequence

import msgspec

from tapebook.domain.instants import MINUTE, iso, minute_text
from tapebook.domain.money import E6, decimal_text, short_price
from tapebook.domain.run import Action, DecisionRun, Verdict, Vote
from tapebook.domain.text import name_word, quoted
from tapebook.domain.trade import ClosedTrade
from tapebook.recall.version import GLOBAL

DECISIONS_PER_PART = 200
"""How many decisions a transcript has before the day goes on in a second one."""



class Document(msgspec.Struct, frozen=True):
    """A text with its place, its kind, and who may see it."""

    scope: str
    path: str
    kind: str
    text: str


def usd(amount_e6: int) -> str:
    """An amount with its sign and two decimals."""
    return f"{'+' if amount_e6 > 0 else ''}{decimal_text(amount_e6, E6, 2)} USD"


def trade_document(
    agent: str, trade: ClosedTrade, *, entry: DecisionRun | None, exit_run: DecisionRun | None
) -> Document:
    """A round trip: what was decided at its two ends, why, what the guard said, and what came of it."""
    state = trade.state
    net, symbol = state.net_usd_e6, name_word(state.symbol)
    outcome = "won" if net > 0 else "lost" if net < 0 else "came out even"
    parts = [
        f"# Trade: {state.side} {symbol} {outcome} {usd(net)}",
        "",
        f"- agent {agent}, trade {name_word(state.trade_id)}, {state.side} {symbol},"
        f" regime {(state.entry_regime_tag or 'unknown').replace('_', ' ')}",
        f"- entered {minute_text(state.entry_tick_at)} at {short_price(state.entry_price_e8)}"
        f" for {usd(state.entry_notional_usd_e6).lstrip('+')}, leverage {state.entry_leverage or 1}",
        f"- left {minute_text(trade.exit_tick_at)} at {short_price(trade.exit_price_e8)}"
        f" after {trade.holding_ms // MINUTE} min",
        f"- {outcome}: net {usd(net)}; gross {usd(state.realised_usd_e6)}, fees {usd(-state.fees_usd_e6)},"
        f" funding {usd(state.funding_usd_e6)}; at best {usd(state.mfe_usd_e6)}, at worst {usd(state.mae_usd_e6)}",
        "",
        "## Why it was entered",
        *_told(entry, state.entry_reason),
        "",
        "## Why it was left",
        *_told(exit_run, trade.exit_reason),
    ]
    return Document(agent, trade_path(agent, trade), "trade", "\n".join(parts) + "\n")


def trade_path(agent: str, trade: ClosedTrade) -> str:
    """Where the document of a trade stands."""
    state = trade.state
    name = f"{iso(trade.exit_tick_at)[:10]}-{_file_name(state.symbol)}-{_file_name(state.trade_id)[:12]}"
    return f"agents/{agent}/trades/{name}.md"


def _told(run: DecisionRun | None, reason: str) -> list[str]:
    if run is None:
        return [f"- {quoted(reason)}; no decision of this agent"]
    return [f"- {quoted(reason)}", *decision_lines(run)]


def acted(run: DecisionRun) -> bool:
    """Whether a decision did or wanted something: a transcript tells it, others are many and all alike."""
    wants = any(action.action != "hold" for action in run.actions)
    return run.trigger != "shadow" and (wants or run.status == "rejected")


def transcript(agent: str, day: str, *, part: int, decisions: Sequence[str]) -> Document:
    """The decisions of a day that acted or were refused."""
    heading = f"# Decisions of {agent} on {day}" + (f", part {part}" if part > 1 else "")
    number = f"-{part}" if part > 1 else ""
    text = "\n\n".join([heading, *decisions]) + "\n"
    return Document(agent, f"agents/{agent}/transcripts/{day}{number}.md", "transcript", text)


def decision_text(run: DecisionRun) -> str:
    """One decision of a transcript."""
    title = f"## {minute_text(run.as_of)} {name_word(run.symbol)}: {run.status}"
    return "\n".join([title, *decision_lines(run)])


def decisions_in(text: str) -> list[str]:
    """The decisions a transcript has, so that more can follow them."""
    first, *rest = text.split("\n\n## ")
    return [f"## {part.rstrip()}" for part in rest] if first else []


def decision_lines(run: DecisionRun) -> list[str]:
    """What a run decided, with reasons, verdicts, votes and citations."""
    lines = [f"- run {run.run_id}, engine {name_word(run.engine)}, as of {minute_text(run.as_of)}"]
    lines += [_action(*pair) for pair in zip(run.actions, run.verdicts, strict=True)]
    lines += map(_vote, run.votes)
    return lines + ([f"- error: {quoted(run.error)}"] if run.error else [])


def _action(action: Action, verdict: Verdict) -> str:
    what = [action.action, action.side or "", name_word(action.symbol)]
    if action.action in ("open", "adjust"):
        what.append(f"for {usd(action.notional_usd_e6).lstrip('+')} at {action.leverage}x")
    said = "allowed" if verdict.allowed else f"refused by {verdict.rule}, {quoted(verdict.detail)}"
    cited = f"; cites {', '.join(map(name_word, action.cites))}" if action.cites else ""
    sure = decimal_text(action.confidence_e4, 10_000, 2)
    return f"- {' '.join(filter(None, what))}, confidence {sure}: {said}; because {quoted(action.reason)}{cited}"


def _vote(vote: Vote) -> str:
    sure, weight = (decimal_text(share, 10_000, 2) for share in (vote.confidence_e4, vote.weight_e4))
    what = " ".join(filter(None, [vote.action, vote.side]))
    return f"- vote of {name_word(vote.engine)}: {what}, confidence {sure}, weight {weight}: {quoted(vote.reason)}"


def _file_name(text: str) -> str:
    """A name from outside as part of a path."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in text[:40]) or "_"


def backtest_document(backtest: str, text: str, *, agent: str, agents: Collection[str]) -> Document:
    """A backtest's summary as it was written when it ended: its agent's, or everybody's when that is gone."""
    name = f"{_file_name(backtest)}.md"
    if agent in agents:
        return Document(agent, f"agents/{agent}/backtests/{name}", "backtest", text)
    return Document(GLOBAL, f"backtests/{name}", "backtest", text)
