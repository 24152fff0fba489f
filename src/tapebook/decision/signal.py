"""From what a rule sees to what it proposes, the same for every rule.

1. It opens on the side it wants, when it is not there already (`_order` gives the size).
2. It closes what it holds when the reason for that side is gone.
3. Else it holds.

A rule that cannot see enough abstains: it holds with no confidence, so that in an ensemble its word counts nothing.
"""

from functools import lru_cache

import msgspec

from tapebook.decision.answer import answer_on
from tapebook.decision.port import Answer
from tapebook.decision.reading import Facts, Reading, Side, number

NOTIONAL_USD = 1_000.0
LEVERAGE = 2
_ROOM = ("max_position_usd", "equity_usd", "max_leverage", "min_notional_usd", "max_account_usd", "account_used_usd")


class Signal(msgspec.Struct, frozen=True, cache_hash=True):
    """What a rule sees: the side it wants, with how much confidence, and the sides it would stay on.

    To leave because a reason is gone is a weaker word than to go because of one, and an ensemble holds
    positions that another member wanted; `leave_confidence` says how weak.
    """

    story: str
    wants: Side | None
    confidence: float
    stays: tuple[Side, ...]
    leave_confidence: float = 0.4


def follow(reading: Reading, signal: Signal) -> Answer:
    """The proposal that follows from a signal."""
    held = reading.held
    if signal.wants is None or signal.wants == held:
        return _settled(reading.symbol, signal, held)
    order = _order(reading.portfolio)
    if order:
        sure, side = signal.confidence, signal.wants
        return answer_on(reading.symbol, "open", reason=signal.story, confidence=sure, side=side, **order)
    if held and held not in signal.stays:
        return _settled(reading.symbol, signal, held)
    return abstain(reading.symbol, f"the account leaves no room: {signal.story}")


@lru_cache(maxsize=1_024)
def _settled(symbol: str, signal: Signal, held: Side | None) -> Answer:
    """To leave what there is no reason for, or to hold; cached, since both go on for as long as the bars stay."""
    if held and held not in signal.stays and held != signal.wants:
        reason = f"no reason left: {signal.story}"
        return answer_on(symbol, "close", reason=reason, confidence=signal.leave_confidence)
    return answer_on(symbol, "hold", reason=signal.story)


def abstain(symbol: str, why: str) -> Answer:
    """A hold that carries no weight."""
    return answer_on(symbol, "hold", reason=why, confidence=0.0)


def _order(portfolio: Facts) -> dict[str, object] | None:
    """Size and leverage within what the portfolio section allows; None when it allows nothing or is not there."""
    cap, equity, leverage, least, account, used = [number(portfolio.get(name)) for name in _ROOM]
    if cap is None or equity is None or leverage is None or leverage < 1:
        return None
    # No less than asked for where the cap of the whole account is not shown.
    left = NOTIONAL_USD if account is None or used is None else account - used
    size = round(min(NOTIONAL_USD, cap, equity, left), 2)
    enough = size > 0 and size >= (least or 0.0)
    return {"notional_usd": size, "leverage": int(min(LEVERAGE, leverage))} if enough else None
