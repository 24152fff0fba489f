"""Never trades: exercises cadence, context and storage without a key or a risk."""

from tapebook.decision.answer import answer
from tapebook.decision.port import Engine
from tapebook.domain.packet import Packet


class HoldEngine:
    """Answers every packet with a hold."""

    def decide(self, packet: Packet) -> str:
        """One hold on the packet's symbol."""
        return answer(packet, "hold", reason="the hold engine never trades")


def create() -> Engine:
    """The adapter's entry point."""
    return HoldEngine()
