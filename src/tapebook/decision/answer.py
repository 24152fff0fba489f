"""How a rule engine writes its reply: the same strict JSON that a language model must write."""

from functools import lru_cache

import msgspec

from tapebook.decision.port import Answer
from tapebook.domain.packet import Packet
from tapebook.domain.text import short_line

MOST_REASON = 240

_ENCODER = msgspec.json.Encoder()


def answer(packet: Packet, action: str, *, reason: str, confidence: float = 0.5, **fields: object) -> Answer:
    """A reply with one action on the packet's symbol."""
    return answer_on(packet.symbol, action, reason=reason, confidence=confidence, **fields)


def answer_on(symbol: str, action: str, *, reason: str, confidence: float = 0.5, **fields: object) -> Answer:
    """A reply with one action on a symbol."""
    if not fields:
        return _bare(symbol, action, reason, confidence)
    return _answer({**_said(symbol, action, reason, confidence), **fields})


# Typed, for the texts of 0 and 0.0 differ.
@lru_cache(maxsize=1_024, typed=True)
def _bare(symbol: str, action: str, reason: str, confidence: float) -> Answer:
    """Cached, since a rule holds for the same reason for as long as the bars stay."""
    return _answer(_said(symbol, action, reason, confidence))


def _said(symbol: str, action: str, reason: str, confidence: float) -> dict[str, object]:
    return {
        "action": action,
        "symbol": symbol,
        "confidence": round(confidence, 4),
        "reason": short_line(reason, MOST_REASON),
    }


def _answer(body: dict[str, object]) -> Answer:
    return Answer(_ENCODER.encode({"actions": [body]}).decode())
