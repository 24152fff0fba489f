"""Writes the documents that tapebook makes itself: trades, transcripts, backtests, changes of agents and incidents.

One for each trade that has ended, one a day for the decisions that acted or were refused, one for each backtest,
one for each version of an agent, and one for each incident: outages of decisions and lessons, halts, and times
without a market feed. An incident that has not ended says so, and gets a new version when it has. Words of models and
markets stand in quotes (`domain/text.py`); everything else is written here. The bytes are kept: a changed text is a
new version of every such document.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from tapebook.domain.market import Gap
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import Action, DecisionRun, Verdict, Vote
from tapebook.domain.text import quote_line, safe_name
from tapebook.domain.units import E6, MINUTE, decimal_text, iso_text, minute_text, short_price
from tapebook.search.documents import Outage, failure_state
from tapebook.search.index import GLOBAL_SCOPE

DECISIONS_PER_PART = 200
"""How many decisions a transcript has before the day goes on in a second one."""


class Document(msgspec.Struct, frozen=True):
    """A text with its place, its kind, and who may see it."""

    scope: str
    path: str
    kind: str
    text: str


def signed_usd(amount_e6: int) -> str:
    """An amount with its sign and two decimals."""
    return f"{'+' if amount_e6 > 0 else ''}{decimal_text(amount_e6, E6, 2)} USD"


def trade_document(
    agent: str, trade: ClosedTrade, *, entry: DecisionRun | None, exit_run: DecisionRun | None
) -> Document:
    """A round trip: what was decided at its two ends, why, what the guard said, and what came of it."""
    state = trade.state
    net, symbol = state.net_usd_e6, safe_name(state.symbol)
    outcome = "won" if net > 0 else "lost" if net < 0 else "came out even"
    parts = [
        f"# Trade: {state.side} {symbol} {outcome} {signed_usd(net)}",
        "",
        f"- agent {agent}, trade {safe_name(state.trade_id)}, {state.side} {symbol},"
        f" regime {(state.entry_regime_tag or 'unknown').replace('_', ' ')}",
        f"- entered {minute_text(state.entry_tick_at)} at {short_price(state.entry_price_e8)}"
        f" for {signed_usd(state.entry_notional_usd_e6).lstrip('+')}, leverage {state.entry_leverage or 1}",
        f"- left {minute_text(trade.exit_tick_at)} at {short_price(trade.exit_price_e8)}"
        f" after {trade.holding_ms // MINUTE} min",
        f"- {outcome}: net {signed_usd(net)}; gross {signed_usd(state.realised_usd_e6)},"
        f" fees {signed_usd(-state.fees_usd_e6)},"
        f" funding {signed_usd(state.funding_usd_e6)}; "
        f"at best {signed_usd(state.mfe_usd_e6)}, at worst {signed_usd(state.mae_usd_e6)}",
        "",
        "## Why it was entered",
        *_decision_reasons(entry, state.entry_reason),
        "",
        "## Why it was left",
        *_decision_reasons(exit_run, trade.exit_reason),
    ]
    return Document(agent, trade_path(agent, trade), "trade", "\n".join(parts) + "\n")


def trade_path(agent: str, trade: ClosedTrade) -> str:
    """Where the document of a trade stands."""
    state = trade.state
    name = f"{iso_text(trade.exit_tick_at)[:10]}-{_file_name(state.symbol)}-{_file_name(state.trade_id)[:12]}"
    return f"agents/{agent}/trades/{name}.md"


def _decision_reasons(run: DecisionRun | None, reason: str) -> list[str]:
    if run is None:
        return [f"- {quote_line(reason)}; no decision of this agent"]
    return [f"- {quote_line(reason)}", *decision_lines(run)]


def acted_or_refused(run: DecisionRun) -> bool:
    """Whether a decision did or wanted something: a transcript tells it, others are many and all alike."""
    wants = any(action.action != "hold" for action in run.actions)
    return run.trigger != "shadow" and (wants or run.status == "rejected")


def transcript_document(agent: str, day: str, *, part: int, decisions: Sequence[str]) -> Document:
    """The decisions of a day that acted or were refused."""
    heading = f"# Decisions of {agent} on {day}" + (f", part {part}" if part > 1 else "")
    number = f"-{part}" if part > 1 else ""
    text = "\n\n".join([heading, *decisions]) + "\n"
    return Document(agent, f"agents/{agent}/transcripts/{day}{number}.md", "transcript", text)


def decision_text(run: DecisionRun) -> str:
    """One decision of a transcript."""
    title = f"## {minute_text(run.as_of)} {safe_name(run.symbol)}: {run.status}"
    return "\n".join([title, *decision_lines(run)])


def transcript_decisions(text: str) -> list[str]:
    """The decisions a transcript has, so that more can follow them."""
    first, *rest = text.split("\n\n## ")
    return [f"## {part.rstrip()}" for part in rest] if first else []


def decision_lines(run: DecisionRun) -> list[str]:
    """What a run decided, with reasons, verdicts, votes and citations."""
    lines = [f"- run {run.run_id}, engine {safe_name(run.engine)}, as of {minute_text(run.as_of)}"]
    lines += [_action_line(*pair) for pair in zip(run.actions, run.verdicts, strict=True)]
    lines += map(_vote_line, run.votes)
    return lines + ([f"- error: {quote_line(run.error)}"] if run.error else [])


def _action_line(action: Action, verdict: Verdict) -> str:
    what = [action.action, action.side or "", safe_name(action.symbol)]
    if action.action in ("open", "adjust"):
        what.append(f"for {signed_usd(action.notional_usd_e6).lstrip('+')} at {action.leverage}x")
    outcome = "allowed" if verdict.allowed else f"refused by {verdict.rule}, {quote_line(verdict.detail)}"
    cited = f"; cites {', '.join(map(safe_name, action.cites))}" if action.cites else ""
    sure = decimal_text(action.confidence_e4, 10_000, 2)
    return f"- {' '.join(filter(None, what))}, confidence {sure}: {outcome}; because {quote_line(action.reason)}{cited}"


def _vote_line(vote: Vote) -> str:
    sure, weight = (decimal_text(share, 10_000, 2) for share in (vote.confidence_e4, vote.weight_e4))
    what = " ".join(filter(None, [vote.action, vote.side]))
    return f"- vote of {safe_name(vote.engine)}: {what}, confidence {sure}, weight {weight}: {quote_line(vote.reason)}"


def _file_name(text: str) -> str:
    """A name from outside as part of a path."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in text[:40]) or "_"


def backtest_document(backtest: str, text: str, *, agent: str, agents: Collection[str]) -> Document:
    """A backtest's summary as it was written when it ended: its agent's, or everybody's when that is gone."""
    name = f"{_file_name(backtest)}.md"
    if agent in agents:
        return Document(agent, f"agents/{agent}/backtests/{name}", "backtest", text)
    return Document(GLOBAL_SCOPE, f"backtests/{name}", "backtest", text)


MAX_CHANGE_LINES = 40
"""How many lines of a long text are told that were added to it or taken away."""

_MAX_VALUE_CHARACTERS = 200


class AgentChange(msgspec.Struct, frozen=True):
    """A version of an agent: what differs from the one before, key by key, and why; None before the first."""

    agent: str
    version: int
    at: int
    reason: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    removed: bool = False


def change_document(change: AgentChange) -> Document:
    """A change of an agent, in the words people ask about it: what it stopped using, and why."""
    what = "was removed" if change.removed else "was added" if change.before is None else "was changed"
    before = change.before or {}
    keys = [] if change.before is None else [key for key, now in change.after.items() if before.get(key) != now]
    said = [f"- why: {quote_line(change.reason)}" if change.reason else "- no reason was given"]
    if change.removed:
        said.append(f"- we stopped using agent {change.agent}, which ran {_settings_text(change.after)}")
    elif change.before is None:
        said.append(f"- it began with {_settings_text(change.after)}")
    lines = [
        f"# Change: agent {change.agent} {what}, version {change.version}",
        "",
        f"- on {minute_text(change.at)} UTC",
        *said,
        *(line for key in keys for line in _changed_lines(key, before.get(key), change.after[key])),
    ]
    path = f"agents/{change.agent}/changes/{iso_text(change.at)[:10]}-v{change.version}.md"
    return Document(change.agent, path, "change", "\n".join(lines) + "\n")


def _settings_text(settings: Mapping[str, Any]) -> str:
    told = {key: settings.get(key) for key in ("engine", "members", "watch", "horizon")}
    return ", ".join(f"{key} {_value_text(value)}" for key, value in told.items() if value)


def _changed_lines(key: str, before: Any, after: Any) -> list[str]:
    """What became of one setting; of a list and of a text, what went and what came."""
    name = key.replace("_", " ")
    if key == "enabled":
        return ["- we began to use it again: it decides" if after else "- we stopped using it: it decides no more"]
    if isinstance(before, str) and isinstance(after, str) and "\n" in f"{before}{after}".strip():
        before, after = before.splitlines(), after.splitlines()
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        gone = [f"- {name}: stopped using {_value_text(each)}" for each in before if each not in after]
        new = [f"- {name}: began to use {_value_text(each)}" for each in after if each not in before]
        lines = [*gone, *new] or [f"- {name}: in another order"]
        left = len(lines) - MAX_CHANGE_LINES
        return lines if left <= 0 else [*lines[:MAX_CHANGE_LINES], f"- {name}: and {left} more lines"]
    ends = [f"stopped using {_value_text(before)}"] if before else []
    begins = [f"began to use {_value_text(after)}"] if after or not before else []
    return [f"- {name}: {', '.join([*ends, *begins])}"]


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return quote_line(value[:_MAX_VALUE_CHARACTERS]) if value else "nothing"
    if isinstance(value, list | tuple):
        return ", ".join(map(_value_text, value)) or "nothing"
    return "nothing" if value is None else quote_line(msgspec.json.encode(value).decode()[:_MAX_VALUE_CHARACTERS])


MAX_GAPS_LISTED = 30
"""How many gaps an outage tells one by one."""

# Gaps that begin so soon after one another belong to one outage.
_SAME_OUTAGE_MS = MINUTE


class Halt(msgspec.Struct, frozen=True):
    """Who may not trade (an agent, or empty for all), why, from when to when; `ended_at` is 0 while it stands."""

    agent: str
    at: int
    reason: str
    ended_at: int = 0
    ended_reason: str = ""


class FeedOutage(msgspec.Struct, frozen=True):
    """Gaps that belong together, and whether all of them were filled."""

    gaps: tuple[Gap, ...]
    filled: bool

    @property
    def began_at(self) -> int:
        """The first missing moment."""
        return min(gap.from_ts for gap in self.gaps)

    @property
    def ended_at(self) -> int:
        """The first moment after it."""
        return max(gap.to_ts for gap in self.gaps)


def failed_run_line(run: DecisionRun) -> str:
    """What is wrong with a run, in a line."""
    missing = f" without {', '.join(map(safe_name, run.degraded))}" if run.degraded else ""
    error = f": {quote_line(run.error)}" if run.error else ""
    return f"{minute_text(run.as_of)} {safe_name(run.symbol)} {failure_state(run)}{missing}, run {run.run_id}{error}"


def decisions_incident(agent: str, trouble: Outage) -> Document:
    """Decisions of an agent that failed, came too late, or were made without some of its memory."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(trouble.counts.items()))
    facts = [f"- {counts}; symbols {', '.join(map(safe_name, trouble.touched))}"]
    facts += [f"- what could not be read: {', '.join(map(safe_name, trouble.missing))}"] if trouble.missing else []
    title = f"decisions of {agent} failed or lacked something"
    return _incident(agent, trouble, name="decisions", title=title, facts=facts)


def lessons_incident(agent: str, trouble: Outage) -> Document:
    """Reflections of an agent that came to nothing."""
    facts = [f"- {sum(trouble.counts.values())} notes were rejected; the note before them stayed active"]
    title = f"notes of {agent} were rejected, no lessons were learned"
    return _incident(agent, trouble, name="lessons", title=title, facts=facts)


def _incident(agent: str, trouble: Outage, *, name: str, title: str, facts: Sequence[str]) -> Document:
    total = sum(trouble.counts.values())
    more = [f"- and {total - len(trouble.said)} more"] if total > len(trouble.said) else []
    lines = [
        f"# Incident: {title}",
        "",
        _span_line(trouble.began_at, trouble.ended_at),
        *facts,
        "",
        "## What was said",
        *(f"- {words}" for words in trouble.said),
        *more,
    ]
    path = f"agents/{agent}/incidents/{_file_stamp(trouble.began_at)}-{name}.md"
    return Document(agent, path, "incident", "\n".join(lines) + "\n")


def halt_incident(halt: Halt) -> Document:
    """A halt: trading was stopped by hand or by a limit."""
    who = halt.agent or "the whole desk"
    lines = [
        f"# Incident: trading of {who} was halted",
        "",
        _span_line(halt.at, halt.ended_at),
        f"- why: {quote_line(halt.reason)}",
        *([f"- resumed because: {quote_line(halt.ended_reason)}"] if halt.ended_at else []),
    ]
    folder = f"agents/{halt.agent}/incidents" if halt.agent else "incidents"
    path = f"{folder}/{_file_stamp(halt.at)}-halt.md"
    return Document(halt.agent or GLOBAL_SCOPE, path, "incident", "\n".join(lines) + "\n")


def group_feed_outages(gaps: Iterable[tuple[Gap, bool]]) -> list[FeedOutage]:
    """Gaps, each with whether it was filled, put together where they overlap or follow one another."""
    groups: list[list[tuple[Gap, bool]]] = []
    end = 0
    for gap, filled in sorted(gaps, key=lambda pair: _gap_order(pair[0])):
        if not groups or gap.from_ts > end + _SAME_OUTAGE_MS:
            groups.append([])
            end = gap.to_ts
        groups[-1].append((gap, filled))
        end = max(end, gap.to_ts)
    return [FeedOutage(tuple(gap for gap, _ in group), all(filled for _, filled in group)) for group in groups]


def feed_incident(outage: FeedOutage) -> Document:
    """A time in which the market feed said nothing, or too little."""
    channels = sorted({gap.channel for gap in outage.gaps})
    reasons = sorted({gap.reason for gap in outage.gaps})
    state = "all of it was fetched later" if outage.filled else "what is missing was not filled"
    lines = [
        "# Incident: the market feed was disconnected, or had gaps",
        "",
        f"{_span_line(outage.began_at, outage.ended_at)}; {state}",
        f"- channels: {', '.join(map(safe_name, channels))}",
        f"- why: {', '.join(quote_line(reason) for reason in reasons)}",
        "",
        "## What is missing",
        *_missing_lines(outage.gaps),
    ]
    return Document(
        GLOBAL_SCOPE, f"incidents/{_file_stamp(outage.began_at)}-feed.md", "incident", "\n".join(lines) + "\n"
    )


def _gap_order(gap: Gap) -> tuple[int, int, str, str, str]:
    return gap.from_ts, gap.to_ts, gap.source, gap.channel, gap.subject


def _missing_lines(gaps: Sequence[Gap]) -> list[str]:
    """Gaps of one channel and time in one line, whatever symbols they are of."""
    by_time = sorted(gaps, key=_gap_order)
    groups = groupby(by_time, key=lambda gap: (gap.from_ts, gap.to_ts, gap.source, gap.channel))
    lines = []
    for (since, until, source, channel), several in groups:
        subjects = sorted({safe_name(gap.subject) for gap in several})
        shown = ", ".join(subjects[:12]) + (f" and {len(subjects) - 12} more" if len(subjects) > 12 else "")
        what = f"{safe_name(source)} {safe_name(channel)} {shown}"
        lines.append(f"- {what}: {minute_text(since)} to {minute_text(until)}")
    left = len(lines) - MAX_GAPS_LISTED
    return lines if left <= 0 else [*lines[:MAX_GAPS_LISTED], f"- and {left} more"]


def _span_line(began_at: int, ended_at: int) -> str:
    end = f"ended {minute_text(ended_at)} UTC" if ended_at else "has not ended"
    return f"- began {minute_text(began_at)} UTC, {end}"


def _file_stamp(at: int) -> str:
    return iso_text(at)[:19].replace(":", "").replace("-", "")
