"""What went wrong, as documents: troubles of decisions and lessons, halts, and times without a market.

Each says what happened, from when to when, and what was said about it; one that has not ended yet says so, and gets a
new version when it has.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from tapebook.domain.instants import MINUTE, iso, minute_text
from tapebook.domain.market import Gap
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import name_word, quoted
from tapebook.recall.documents import Document
from tapebook.recall.trouble import Trouble, state_of
from tapebook.recall.version import GLOBAL

MOST_GAPS = 30
"""How many gaps an outage tells one by one."""

# Gaps that begin so soon after one another belong to one outage.
_TOGETHER_MS = MINUTE


class Halt(msgspec.Struct, frozen=True):
    """Who may not trade (an agent, or empty for all), why, from when to when; `ended_at` is 0 while it stands."""

    agent: str
    at: int
    reason: str
    ended_at: int = 0
    ended_reason: str = ""


class Outage(msgspec.Struct, frozen=True):
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


def run_words(run: DecisionRun) -> str:
    """What is wrong with a run, in a line."""
    missing = f" without {', '.join(map(name_word, run.degraded))}" if run.degraded else ""
    said = f": {quoted(run.error)}" if run.error else ""
    return f"{minute_text(run.as_of)} {name_word(run.symbol)} {state_of(run)}{missing}, run {run.run_id}{said}"


def decisions_incident(agent: str, trouble: Trouble) -> Document:
    """Decisions of an agent that failed, came too late, or were made without some of its memory."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(trouble.counts.items()))
    facts = [f"- {counts}; symbols {', '.join(map(name_word, trouble.touched))}"]
    facts += [f"- what could not be read: {', '.join(map(name_word, trouble.missing))}"] if trouble.missing else []
    title = f"decisions of {agent} failed or lacked something"
    return _incident(agent, trouble, name="decisions", title=title, facts=facts)


def lessons_incident(agent: str, trouble: Trouble) -> Document:
    """Reflections of an agent that came to nothing."""
    facts = [f"- {sum(trouble.counts.values())} notes were rejected; the note before them stayed active"]
    title = f"notes of {agent} were rejected, no lessons were learned"
    return _incident(agent, trouble, name="lessons", title=title, facts=facts)


def _incident(agent: str, trouble: Trouble, *, name: str, title: str, facts: Sequence[str]) -> Document:
    told = sum(trouble.counts.values())
    more = [f"- and {told - len(trouble.said)} more"] if told > len(trouble.said) else []
    lines = [
        f"# Incident: {title}",
        "",
        _span(trouble.began_at, trouble.ended_at),
        *facts,
        "",
        "## What was said",
        *(f"- {words}" for words in trouble.said),
        *more,
    ]
    path = f"agents/{agent}/incidents/{_stamp(trouble.began_at)}-{name}.md"
    return Document(agent, path, "incident", "\n".join(lines) + "\n")


def halt_incident(halt: Halt) -> Document:
    """A halt: trading was stopped by hand or by a limit."""
    who = halt.agent or "the whole desk"
    lines = [
        f"# Incident: trading of {who} was halted",
        "",
        _span(halt.at, halt.ended_at),
        f"- why: {quoted(halt.reason)}",
        *([f"- resumed because: {quoted(halt.ended_reason)}"] if halt.ended_at else []),
    ]
    folder = f"agents/{halt.agent}/incidents" if halt.agent else "incidents"
    path = f"{folder}/{_stamp(halt.at)}-halt.md"
    return Document(halt.agent or GLOBAL, path, "incident", "\n".join(lines) + "\n")


def outages(gaps: Iterable[tuple[Gap, bool]]) -> list[Outage]:
    """Gaps, each with whether it was filled, put together where they overlap or follow one another."""
    groups: list[list[tuple[Gap, bool]]] = []
    end = 0
    for gap, filled in sorted(gaps, key=lambda pair: _order(pair[0])):
        if not groups or gap.from_ts > end + _TOGETHER_MS:
            groups.append([])
            end = gap.to_ts
        groups[-1].append((gap, filled))
        end = max(end, gap.to_ts)
    return [Outage(tuple(gap for gap, _ in group), all(filled for _, filled in group)) for group in groups]


def outage_incident(outage: Outage) -> Document:
    """A time in which the market feed said nothing, or too little."""
    channels = sorted({gap.channel for gap in outage.gaps})
    reasons = sorted({gap.reason for gap in outage.gaps})
    state = "all of it was fetched later" if outage.filled else "what is missing was not filled"
    lines = [
        "# Incident: the market feed was disconnected, or had gaps",
        "",
        f"{_span(outage.began_at, outage.ended_at)}; {state}",
        f"- channels: {', '.join(map(name_word, channels))}",
        f"- why: {', '.join(quoted(reason) for reason in reasons)}",
        "",
        "## What is missing",
        *_missing(outage.gaps),
    ]
    return Document(GLOBAL, f"incidents/{_stamp(outage.began_at)}-feed.md", "incident", "\n".join(lines) + "\n")


def _order(gap: Gap) -> tuple[int, int, str, str, str]:
    return gap.from_ts, gap.to_ts, gap.source, gap.channel, gap.subject


def _missing(gaps: Sequence[Gap]) -> list[str]:
    """Gaps of one channel and time in one line, whatever symbols they are of."""
    by_time = sorted(gaps, key=_order)
    groups = groupby(by_time, key=lambda gap: (gap.from_ts, gap.to_ts, gap.source, gap.channel))
    lines = []
    for (since, until, source, channel), several in groups:
        subjects = sorted({name_word(gap.subject) for gap in several})
        shown = ", ".join(subjects[:12]) + (f" and {len(subjects) - 12} more" if len(subjects) > 12 else "")
        what = f"{name_word(source)} {name_word(channel)} {shown}"
        lines.append(f"- {what}: {minute_text(since)} to {minute_text(until)}")
    left = len(lines) - MOST_GAPS
    return lines if left <= 0 else [*lines[:MOST_GAPS], f"- and {left} more"]


def _span(began_at: int, ended_at: int) -> str:
    end = f"ended {minute_text(ended_at)} UTC" if ended_at else "has not ended"
    return f"- began {minute_text(began_at)} UTC, {end}"


def _stamp(at: int) -> str:
    return iso(at)[:19].replace(":", "").replace("-", "")
