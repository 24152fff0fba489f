"""Engines of the stories that the rule engines of the package do not tell: orders that wait, positions too large."""

from tapebook.decision import Answer, Engine
from tapebook.decision.answer import answer
from tapebook.domain.instants import MINUTE
from tapebook.domain.packet import Packet


class Patient:
    """Bids a little below the market every twelve minutes, and leaves after six."""

    identity = ""

    def decide(self, packet: Packet) -> Answer:
        """A limit order, a close, or a hold, by the minute."""
        market = packet.section("market")
        price = market.get("price") if market else None
        turn = packet.as_of // MINUTE % 12
        if turn == 0 and price is not None:
            return answer(
                packet,
                "open",
                reason="a little cheaper",
                side="long",
                notional_usd=300.0,
                leverage=2,
                order_type="limit",
                limit_price=round(float(price) * 0.9995, 6),
            )
        return answer(packet, "close", reason="time is up") if turn == 6 else answer(packet, "hold", reason="waiting")


class Brave:
    """Buys all it may at its first tick and never sells."""

    identity = ""

    def decide(self, packet: Packet) -> Answer:
        """As much as it may, once."""
        if packet.section("open_positions") or packet.section("last_decision"):
            return answer(packet, "hold", reason="it will come back")
        return answer(packet, "open", reason="all of it", side="long", notional_usd=900.0, leverage=10)


ENGINES: dict[str, Engine] = {"patient": Patient(), "brave": Brave()}
