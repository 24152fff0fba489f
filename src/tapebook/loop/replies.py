"""Answers of models are kept by what was asked, so that whoever takes a decision over does not pay for it again.

The key is the packet with the engine's identity (its model, parameters and prompt). An engine without
one is a pure function of the packet: it is asked again, and neither costs nor keeps anything.
Both functions use the database, so they belong to the thread that has its connection; only the
engine itself may be asked in another.
"""

import msgspec

from tapebook.book.replies import Kept
from tapebook.decision import Answer
from tapebook.domain.canonical import canonical, sha256_hex
from tapebook.domain.instants import DAY, floor
from tapebook.domain.money import E6, decimal_text
from tapebook.domain.run import Usage
from tapebook.errors import Fix
from tapebook.loop.slot import Opened
from tapebook.wiring import Rooms


def kept_answer(rooms: Rooms, opened: Opened) -> Answer | None:
    """The answer to give without asking: the one this packet got before, or that the day's money is spent."""
    key = _key(rooms, opened)
    if key is None:
        return None
    kept = rooms.replies.kept(key)
    if kept is None:
        return _too_expensive(rooms, opened)
    answer = _decoded(rooms, kept.answer_json)
    return answer if kept.run_id == opened.slot.run_id() else _already_paid(answer)


def keep_answer(rooms: Rooms, opened: Opened, answer: Answer) -> None:
    """Keeps an answer that cannot be computed again; one that failed is asked for again."""
    key = _key(rooms, opened)
    if key is None or answer.problem is not None:
        return
    rooms.replies.keep(
        key,
        Kept(_encoded(rooms, answer), opened.slot.run_id()),
        deployment=opened.slot.deployment.id,
        cost_usd_e6=answer.usage.cost_usd_e6 if answer.usage else 0,
        at=rooms.clock.now(),
    )


class _Reasoned(msgspec.Struct):
    """What is kept beside an answer: where the archive has what the model reasoned, which may be long."""

    reason_key: str | None = None


def _encoded(rooms: Rooms, answer: Answer) -> str:
    # Half of a surrogate pair has no bytes; written out it is as wrong a reply as before.
    reply, reasoning = (
        text.encode(errors="backslashreplace").decode() for text in (answer.reply, answer.reasoning)
    )
    key = rooms.archive.keep(reasoning.encode()).key if reasoning and rooms.config.archive.packets else None
    here = msgspec.structs.replace(answer, reply=reply, reasoning="" if key else reasoning)
    return msgspec.json.encode(msgspec.to_builtins(here) | msgspec.to_builtins(_Reasoned(key))).decode()


def _decoded(rooms: Rooms, text: str) -> Answer:
    answer, key = msgspec.json.decode(text, type=Answer), msgspec.json.decode(text, type=_Reasoned).reason_key
    reasoning = rooms.archive.get(key) if key else None
    return answer if reasoning is None else msgspec.structs.replace(answer, reasoning=reasoning.decode())


def _key(rooms: Rooms, opened: Opened) -> str | None:
    try:
        identity = rooms.engine(opened.slot.deployment.agent).identity
    except Fix:
        # An engine that cannot be made has kept nothing; whoever asks it next hears why.
        return None
    return sha256_hex(canonical([opened.packet.sha256, identity])) if identity else None


def _too_expensive(rooms: Rooms, opened: Opened) -> Answer | None:
    most = opened.slot.deployment.agent.caps.max_model_usd_e6_per_day
    today = floor(rooms.clock.now(), DAY)
    spent = rooms.replies.spent_usd_e6(opened.slot.deployment.id, since=today)
    if spent < most:
        return None
    said = f"${decimal_text(spent, E6, 2)} spent on models today; ${decimal_text(most, E6, 2)} are allowed"
    return Answer("", problem=f"R11_MODEL_SPEND: {said}")


def _already_paid(answer: Answer) -> Answer:
    """The answer for a second run with the same question, which costs nothing any more."""
    usage = Usage(answer.usage.model, 0, 0, 0, 0) if answer.usage else None
    return msgspec.structs.replace(answer, usage=usage)
