"""A language model as an engine: the packet's two texts go out as they are, and what comes back is the reply.

What the model wrote is not mended. A text that is no reply is refused by `parse` like any other;
no text, or a text cut off, is a problem.
"""

from tapebook.decision.port import Answer
from tapebook.decision.schema import SCHEMA, SCHEMA_SHA256
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
        return f"{self._asker.identity} schema={SCHEMA_SHA256[:12]}"

    def decide(self, packet: Packet) -> Answer:
        """What the model answers, or why it does not."""
        asked = self._asker.ask(packet.system, packet.text, schema=SCHEMA, max_usd_e6=self._max_usd_e6)
        return Answer(asked.text, usage=asked.usage, problem=asked.problem, reasoning=asked.reasoning)
