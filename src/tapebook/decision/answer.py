"""How a rule engine writes its reply: the same strict JSON that a language model must write."""

import msgspec

from tapebook.decision.parse import clean
from tapebook.decision.port import Answer
from tapebook.domain.packet import Packet

MOST_REASON = 240

_ENCODER = msgspec.json.Encoder()


def answer(packet: Packet, action: str, *, reason: str, confidence: float = 0.5, **fields: object) -> Answer:
    """A reply with one action on the packet's symbol."""
    body = {
        "action": action,
        "symbol": packet.symbol,
        "confidence": round(confidence, 4),
        "reason": clean(reason, MOST_REASON),
        **fields,
    }
    return Answer(_ENCODER.encode({"actions": [body]}).decode())
