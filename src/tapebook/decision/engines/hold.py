"""Never trades: exercises cadence, context and storage without a key or a risk."""

from tapebook.decision.answer import answer
from tapebook.decision.port import Answer, Engine, EngineTerms
from tapebook.domain.packet import Packet


class HoldEngine:
    """Answers every packet with a hold."""

    identity = ""

    def decide(self, packet: Packet) -> Answer:
        """One hold on the packet's symbol."""
        return answer(packet, "hold", reason="the hold engine never trades")


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return HoldEngine()
