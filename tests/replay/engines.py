"""Engines of the stories that the rule engines of the package do not tell: orders that wait, positions too large."""

from tapebook.decision import Engine, EngineAnswer
from tapebook.decision.reply import make_answer
from tapebook.domain.packet import Packet
from tapebook.domain.units import MINUTE


class Patient:
    """Bids a little below the market every twelve minutes, and leaves after six."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """A limit order, a close, or a hold, by the minute."""
        market = packet.section("market")
        price = market.get("price") if market else None
        turn = packet.as_of // MINUTE % 12
        if turn == 0 and price is not None:
            return make_answer(
                packet,
                "open",
                reason="a little cheaper",
                side="long",
                notional_usd=300.0,
                leverage=2,
                order_type="limit",
                limit_price=round(float(price) * 0.9995, 6),
            )
        return (
            make_answer(packet, "close", reason="time is up")
            if turn == 6
            else make_answer(packet, "hold", reason="waiting")
        )


class Brave:
    """Buys all it may at its first tick and never sells."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """As much as it may, once."""
        if packet.section("open_positions") or packet.section("last_decision"):
            return make_answer(packet, "hold", reason="it will come back")
        return make_answer(packet, "open", reason="all of it", side="long", notional_usd=900.0, leverage=10)


ENGINES: dict[str, Engine] = {"patient": Patient(), "brave": Brave()}
