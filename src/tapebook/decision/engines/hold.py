"""Never trades: exercises cadence, context and storage without a key or a risk."""

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.reply import make_answer
from tapebook.domain.packet import Packet


class HoldEngine:
    """Answers every packet with a hold."""

    identity = ""
    facts_alone = True

    def decide(self, packet: Packet) -> EngineAnswer:
        """One hold on the packet's symbol."""
        return make_answer(packet, "hold", reason="the hold engine never trades")


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return HoldEngine()
