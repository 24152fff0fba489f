"""From what a rule sees to what it proposes, the same for every rule.

1. It opens on the side it wants, when it is not there already (`_order` gives the size).
2. It closes what it holds when the reason for that side is gone.
3. Else it holds.

A rule that cannot see enough abstains: it holds with no confidence, so that in an ensemble its word counts nothing.
"""

import msgspec

from tapebook.decision.answer import answer
from tapebook.decision.port import Answer
from tapebook.decision.reading import Side, figure, held_side
from tapebook.domain.packet import Packet

NOTIONAL_USD = 1_000.0
LEVERAGE = 2


class Signal(msgspec.Struct, frozen=True):
    """What a rule sees: the side it wants, with how much confidence, and the sides it would stay on.

    To leave because a reason is gone is a weaker word than to go because of one, and an ensemble holds
    positions that another member wanted; `leave_confidence` says how weak.
    """

    story: str
    wants: Side | None
    confidence: float
    stays: tuple[Side, ...]
    leave_confidence: float = 0.4


def follow(packet: Packet, signal: Signal) -> Answer:
    """The proposal that follows from a signal."""
    held, order = held_side(packet), _order(packet)
    if signal.wants and signal.wants != held and order:
        return answer(packet, "open", reason=signal.story, confidence=signal.confidence, side=signal.wants, **order)
    if held and held not in signal.stays and signal.wants != held:
        return answer(packet, "close", reason=f"no reason left: {signal.story}", confidence=signal.leave_confidence)
    if signal.wants and signal.wants != held:
        return abstain(packet, f"the account leaves no room: {signal.story}")
    return answer(packet, "hold", reason=signal.story)


def abstain(packet: Packet, why: str) -> Answer:
    """A hold that carries no weight."""
    return answer(packet, "hold", reason=why, confidence=0.0)


def _order(packet: Packet) -> dict[str, object] | None:
    """Size and leverage within what the portfolio section allows; None when it allows nothing or is not there."""
    cap, equity = figure(packet, "portfolio", "max_position_usd"), figure(packet, "portfolio", "equity_usd")
    leverage = figure(packet, "portfolio", "max_leverage")
    if cap is None or equity is None or leverage is None or leverage < 1:
        return None
    size = round(min(NOTIONAL_USD, cap, equity, _account_room(packet)), 2)
    enough = size > 0 and size >= (figure(packet, "portfolio", "min_notional_usd") or 0.0)
    return {"notional_usd": size, "leverage": int(min(LEVERAGE, leverage))} if enough else None


def _account_room(packet: Packet) -> float:
    """What the cap of the whole account leaves; no less than asked for where none is shown."""
    cap, used = figure(packet, "portfolio", "max_account_usd"), figure(packet, "portfolio", "account_used_usd")
    return NOTIONAL_USD if cap is None or used is None else cap - used
