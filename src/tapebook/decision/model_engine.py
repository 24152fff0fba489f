"""A language model as an engine: the packet's two texts go out as they are, and what comes back is the reply.

A text that is no reply is asked for again with what is wrong with it, as often as the budget allows; what the model
wrote last is not mended, and is refused by `parse_reply` like any other. No text, or a text cut off, is a problem.
"""

from tapebook.decision.port import EngineAnswer
from tapebook.decision.reply import REPLY_SCHEMA, REPLY_SCHEMA_SHA256, ReplyRefusal, parse_reply
from tapebook.domain.packet import Packet
from tapebook.llm import Asker


class ModelEngine:
    """One model, asked once for each packet."""

    def __init__(self, asker: Asker, *, max_usd_e6: int) -> None:
        self._asker = asker
        self._max_usd_e6 = max_usd_e6

    @property
    def identity(self) -> str:
        """The model, where it is, its limit and the schema; the prompt is in the packet's hash."""
        return f"{self._asker.identity} schema={REPLY_SCHEMA_SHA256[:12]}"

    def decide(self, packet: Packet) -> EngineAnswer:
        """What the model answers, or why it does not."""
        asked = self._asker.ask(
            packet.system, packet.text, schema=REPLY_SCHEMA, max_usd_e6=self._max_usd_e6, problem_in=_problem_in
        )
        return EngineAnswer(asked.text, usage=asked.usage, problem=asked.problem, reasoning=asked.reasoning)


def _problem_in(text: str) -> str | None:
    read = parse_reply(text)
    return read.why if isinstance(read, ReplyRefusal) else None
