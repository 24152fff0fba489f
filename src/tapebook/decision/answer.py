"""How a rule engine writes its reply: the same strict JSON that a language model must write."""

import msgspec

from tapebook.domain.packet import Packet


def answer(packet: Packet, action: str, *, reason: str, confidence: float = 0.5, **fields: object) -> str:
    """A reply with one action on the packet's symbol."""
    body = {"action": action, "symbol": packet.symbol, "confidence": round(confidence, 4), "reason": reason, **fields}
    return msgspec.json.encode({"actions": [body]}).decode()
