"""The guard: each rule is one pure function with its code; the first that objects refuses the action.

    R2_SYMBOL_NOT_ENABLED   the symbol is not the one this run is about, or not on the watchlist
    R3_POSITION_CAP         the position would be worth more than the cap
    R4_LEVERAGE             more leverage than allowed
    R7_STALE_DATA           the newest price is too old to trade on
    R8_MIN_NOTIONAL         smaller than the exchange takes
    R12_NO_POSITION         there is nothing on that side to close or adjust
    R13_ONE_ORDER           an action before it in the same reply trades already

Every rule weighs an action against what is held now, so a second one that trades could take the
position past a cap that each of them keeps. Closing is always allowed to try, except on another
symbol, without a price, or after another action.
"""

from collections.abc import Callable, Sequence

import msgspec

from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E6, decimal_text
from tapebook.domain.run import Action, Verdict


class Limits(msgspec.Struct, frozen=True):
    """What the guard knows: the caps, what may be traded, what is held (signed USD), how old the price is."""

    caps: RiskCaps
    symbol: str
    watchlist: tuple[str, ...]
    held_usd_e6: int
    data_age_ms: int | None


Rule = Callable[[Action, Limits], str | None]


def judge(actions: Sequence[Action], limits: Limits) -> tuple[Verdict, ...]:
    """A verdict for each action, in their order: one of them may trade."""
    verdicts: list[Verdict] = []
    trades = False
    for action in actions:
        verdict = _judge(action, limits)
        if verdict.allowed and action.action != "hold":
            verdict = Verdict(False, "R13_ONE_ORDER", "an action before it trades already") if trades else verdict
            trades = True
        verdicts.append(verdict)
    return tuple(verdicts)


def symbol_not_enabled(action: Action, limits: Limits) -> str | None:
    """Only the symbol this run is about, and only if it is on the watchlist."""
    if action.symbol != limits.symbol or action.symbol not in limits.watchlist:
        return f"{action.symbol or 'an empty symbol'} is not what this run may trade"
    return None


def stale_data(action: Action, limits: Limits) -> str | None:
    """No order without a price, or on an old one."""
    return None if action.action == "hold" else too_old(limits.data_age_ms, limits.caps)


def too_old(data_age_ms: int | None, caps: RiskCaps) -> str | None:
    """Why a price of this age may not be traded on; also the second gate, just before an order leaves."""
    if data_age_ms is None:
        return "no price is known"
    if data_age_ms > caps.max_data_age_ms:
        return f"the newest price is {data_age_ms // 1000} s old"
    return None


def leverage(action: Action, limits: Limits) -> str | None:
    """Never more leverage than the cap."""
    if action.action in ("open", "adjust") and action.leverage > limits.caps.max_leverage:
        return f"leverage {action.leverage} exceeds {limits.caps.max_leverage}"
    return None


def min_notional(action: Action, limits: Limits) -> str | None:
    """The exchange refuses orders that are too small."""
    if action.action == "open" and action.notional_usd_e6 < limits.caps.min_notional_usd_e6:
        return f"${_usd(action.notional_usd_e6)} is below the minimum of ${_usd(limits.caps.min_notional_usd_e6)}"
    return None


def position_cap(action: Action, limits: Limits) -> str | None:
    """What would be held afterwards, on the side asked for, must fit the cap."""
    if action.action not in ("open", "adjust"):
        return None
    wanted = action.notional_usd_e6 if action.side == "long" else -action.notional_usd_e6
    same_side = (limits.held_usd_e6 > 0) == (wanted > 0)
    after = wanted + (limits.held_usd_e6 if action.action == "open" and same_side else 0)
    if abs(after) > limits.caps.max_position_usd_e6:
        return f"position of ${_usd(abs(after))} exceeds ${_usd(limits.caps.max_position_usd_e6)}"
    return None


def no_position(action: Action, limits: Limits) -> str | None:
    """Closing and adjusting need a position; adjusting needs it on the side that is named."""
    held = "long" if limits.held_usd_e6 > 0 else "short" if limits.held_usd_e6 < 0 else None
    if action.action == "close" and held is None:
        return "there is no position to close"
    if action.action == "adjust" and held != action.side:
        return f"there is no {action.side} position to adjust"
    return None


RULES: dict[str, Rule] = {
    "R2_SYMBOL_NOT_ENABLED": symbol_not_enabled,
    "R7_STALE_DATA": stale_data,
    "R4_LEVERAGE": leverage,
    "R8_MIN_NOTIONAL": min_notional,
    "R3_POSITION_CAP": position_cap,
    "R12_NO_POSITION": no_position,
}


def _judge(action: Action, limits: Limits) -> Verdict:
    for code, rule in RULES.items():
        detail = rule(action, limits)
        if detail is not None:
            return Verdict(False, code, detail)
    return Verdict(True)


def _usd(amount_e6: int) -> str:
    return decimal_text(amount_e6, E6, 2)
