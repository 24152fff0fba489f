"""An answer becomes a decision: parsed, then judged against the account as it is now."""

from typing import Any

import msgspec

from tapebook.decision import Answer, Limits, Refusal, judge, parse, unexplained
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action, Usage, Verdict, Vote
from tapebook.domain.text import short_line


class Decision(msgspec.Struct, frozen=True):
    """A reply, what it proposed, and what the guard said; `error` when there is none or it was not understood."""

    reply: str
    actions: tuple[Action, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    note: str = ""
    error: str | None = None
    failed: bool = False
    votes: tuple[Vote, ...] = ()
    usage: Usage | None = None
    reasoning: str = ""


def judged(answer: Answer, packet: Packet, limits: Limits) -> Decision:
    """What an answer comes to."""
    beside: dict[str, Any] = {"votes": answer.votes, "usage": answer.usage, "reasoning": answer.reasoning}
    if answer.problem is not None:
        problem = short_line(answer.problem, 300) or "the engine gave no reason"
        return Decision(answer.reply, error=problem, failed=True, **beside)
    parsed = parse(answer.reply)
    if isinstance(parsed, Refusal):
        return Decision(answer.reply, error=parsed.why, **beside)
    if any([action.cites for action in parsed.actions]):
        limits = msgspec.structs.replace(limits, citations=packet.citation_ids)
    return Decision(
        answer.reply,
        parsed.actions,
        _flagged(judge(parsed.actions, limits), parsed.actions, packet),
        note=parsed.note,
        **beside,
    )


def _flagged(verdicts: tuple[Verdict, ...], actions: tuple[Action, ...], packet: Packet) -> tuple[Verdict, ...]:
    flags = [unexplained(action, packet) for action in actions]
    if not any(flags):
        return verdicts
    return tuple(msgspec.structs.replace(each, flags=found) for each, found in zip(verdicts, flags, strict=True))
