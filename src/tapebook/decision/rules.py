"""The rules that stop money: each is one pure function that says why a proposal is refused, or None.

    R1_KILL_SWITCH          the desk is halted, or the agent is not enabled
    R2_SYMBOL_NOT_ENABLED   the symbol is not the one this run is about, or not on the watchlist
    R3_POSITION_CAP         the position could come to be worth more than its cap, working orders included
    R4_LEVERAGE             more leverage than allowed
    R5_DAILY_LOSS           the day has lost as much as it may: nothing grows any more
    R6_RATE_LIMIT           too many orders within the hour
    R7_STALE_DATA           the newest price is too old to trade on
    R8_MIN_NOTIONAL         the order is smaller than the exchange takes
    R9_PRICE_DEVIATION      the limit price, or the price since the decision, is too far away
    R10_COOLDOWN            a trade of the symbol lost money a short while ago
    R11_MODEL_SPEND         the day's money for models is spent (asked before the model is)
    R12_NO_POSITION         there is nothing on that side to close or adjust
    R13_ONE_ORDER           another order does this already
    R14_ACCOUNT_CAP         all positions and orders together could exceed the account's cap
    R15_UNKNOWN_CITATION    it cites what the packet does not have
    R16_MARGIN              there is not enough margin at the leverage asked for
    R17_EXPIRED             the order has waited too long to be sent
    R18_DELISTED            the exchange does not list the symbol any more

A position may always be made smaller: caps, losses, cooldowns and margin only look at what grows.
"""

from collections.abc import Callable

import msgspec

from tapebook.decision.limits import Limits, Move
from tapebook.domain.money import E6, decimal_text, short_price
from tapebook.domain.run import ActionKind

_PPM = 1_000_000


class Proposal(msgspec.Struct, frozen=True):
    """What is asked: an action of a reply, or an order about to leave; `move` is the order it comes to."""

    action: ActionKind
    symbol: str
    move: Move | None
    side: str | None = None
    cites: tuple[str, ...] = ()

    @property
    def grown(self) -> Move | None:
        """The order, if it can make a position larger or turn it."""
        return None if self.move is None or self.move.reduces else self.move


Rule = Callable[[Proposal, Limits], str | None]


def kill_switch(asked: Proposal, limits: Limits) -> str | None:
    """While the desk is halted nothing leaves, not even a close: `flatten` is for that."""
    return None if asked.action == "hold" else limits.halted


def symbol_not_enabled(asked: Proposal, limits: Limits) -> str | None:
    """Only the symbol this run is about, and only if it is on the watchlist."""
    if asked.symbol != limits.symbol or asked.symbol not in limits.watchlist:
        return f"{asked.symbol or 'an empty symbol'} is not what this run may trade"
    return None


def delisted(asked: Proposal, limits: Limits) -> str | None:
    """Nothing can be traded that is not listed any more; what was held was closed at the settlement price."""
    if asked.action == "hold" or limits.settled_at_e8 is None:
        return None
    price = short_price(limits.settled_at_e8)
    return f"{asked.symbol} is not listed any more; positions in it were settled at {price}"


def unknown_citation(asked: Proposal, limits: Limits) -> str | None:
    """Only what the packet offered can be cited."""
    for cite in asked.cites:
        if cite not in limits.citations:
            return f"{cite or 'an empty citation'} is not in the packet"
    return None


def stale_data(asked: Proposal, limits: Limits) -> str | None:
    """No order without a price, or on an old one."""
    if asked.action == "hold":
        return None
    if limits.data_age_ms is None or not limits.mark_e8:
        return "no price is known"
    if limits.data_age_ms > limits.caps.max_data_age_ms:
        return f"the newest price is {limits.data_age_ms // 1000} s old"
    return None


def no_position(asked: Proposal, limits: Limits) -> str | None:
    """Closing and adjusting need a position; adjusting needs it on the side that is named."""
    size = limits.held.size_e8 if limits.held else 0
    held = "long" if size > 0 else "short" if size < 0 else None
    if asked.action == "close" and held is None:
        return "there is no position to close"
    if asked.action == "adjust" and held != asked.side:
        return f"there is no {asked.side} position to adjust"
    return None


def leverage(asked: Proposal, limits: Limits) -> str | None:
    """Never more leverage than the cap; that of a close is idle."""
    if asked.action in ("open", "adjust") and asked.move and asked.move.leverage > limits.caps.max_leverage:
        return f"leverage {asked.move.leverage} exceeds {limits.caps.max_leverage}"
    return None


def min_notional(asked: Proposal, limits: Limits) -> str | None:
    """The exchange refuses orders that are too small, but takes any that closes."""
    if asked.action in ("open", "adjust") and asked.move:
        worth, least = asked.move.order_usd_e6, limits.caps.min_notional_usd_e6
        return f"an order of {_usd(worth)} is below the minimum of {_usd(least)}" if worth < least else None
    return None


def price_deviation(asked: Proposal, limits: Limits) -> str | None:
    """A limit far from the market is a mistake on either side: it never fills, or at a price nobody asks for."""
    if asked.move is None or asked.move.limit_price_e8 is None:
        return None
    away = _ppm(asked.move.limit_price_e8, asked.move.mark_e8)
    return f"the limit is {_percent(away)} from the market" if away > limits.caps.max_price_deviation_ppm else None


def position_cap(asked: Proposal, limits: Limits) -> str | None:
    """What could be held afterwards on the side of the order must fit the cap."""
    if asked.grown is None:
        return None
    after = limits.worst_usd_e6(asked.symbol, buys=asked.grown.buys, adding=asked.grown)
    most = limits.caps.max_position_usd_e6
    return f"position of {_usd(after)} exceeds {_usd(most)}" if after > most else None


def account_cap(asked: Proposal, limits: Limits) -> str | None:
    """All symbols together, whatever their side, must fit the account's cap."""
    if asked.grown is None:
        return None
    after, most = limits.gross_usd_e6(asked.grown), limits.caps.max_account_usd_e6
    return f"{_usd(after)} in all symbols exceeds {_usd(most)}" if after > most else None


def margin(asked: Proposal, limits: Limits) -> str | None:
    """The account must be worth the initial margin of all it could hold."""
    if asked.grown is None:
        return None
    needed, there = limits.margin_usd_e6(asked.grown), limits.equity_usd_e6
    return f"margin of {_usd(needed)} is needed and the account is worth {_usd(there)}" if needed > there else None


def daily_loss(asked: Proposal, limits: Limits) -> str | None:
    """Once the day has lost more than it may, realised or not, nothing grows; nor while nobody knows what it lost."""
    if asked.grown and limits.activity_unread:
        return f"what was done today cannot be read ({limits.activity_unread})"
    lost, most = limits.activity.day_start_equity_usd_e6 - limits.equity_usd_e6, limits.caps.max_daily_loss_usd_e6
    return f"{_usd(lost)} lost today exceeds {_usd(most)}" if asked.grown and lost > most else None


def cooldown(asked: Proposal, limits: Limits) -> str | None:
    """After a losing close the symbol rests."""
    lost_at = limits.activity.last_loss_at.get(asked.symbol)
    if asked.grown is None or lost_at is None:
        return None
    left = lost_at + limits.caps.cooldown_ms - limits.at
    return f"{asked.symbol} rests for {-(-left // 1000)} s more after a loss" if left > 0 else None


def rate_limit(asked: Proposal, limits: Limits) -> str | None:
    """Only so many orders within an hour; a close is not counted out."""
    most, sent = limits.caps.max_orders_per_hour, limits.activity.orders_last_hour
    if asked.action in ("open", "adjust") and sent >= most:
        return f"{sent} orders within the hour; {most} are allowed"
    return None


def one_order(asked: Proposal, limits: Limits) -> str | None:
    """A position that an order under way turns is not closed beside it: both together would sell it twice."""
    move = asked.move
    if move is None or not move.reduces:
        return None
    same = [each for each in limits.working if (each.symbol, each.buys) == (move.symbol, move.buys)]
    turns = any(each.limit_price_e8 is None and not each.reduces for each in same)
    return "an order that turns the position is under way" if turns else None


def moved_away(decided_mark_e8: int | None, limits: Limits) -> str | None:
    """Why an order is not sent into a market that has left the price of its decision."""
    if not decided_mark_e8 or not limits.mark_e8:
        return "the price of the decision is not known"
    away = _ppm(limits.mark_e8, decided_mark_e8)
    if away > limits.caps.max_price_deviation_ppm:
        return f"the price moved by {_percent(away)} since the decision"
    return None


def expired(age_ms: int, most_ms: int) -> str | None:
    """Why an order is not sent any more: by now the agent has decided anew, or should have."""
    return f"the order was intended {age_ms // 1000} s ago" if age_ms > most_ms else None


def _ppm(price_e8: int, of_e8: int) -> int:
    """How far one price is from another, in millionths of the other, rounded up."""
    return -(-abs(price_e8 - of_e8) * _PPM // of_e8)


def _percent(ppm: int) -> str:
    return f"{decimal_text(ppm, 10_000, 2)} %"


def _usd(amount_e6: int) -> str:
    return f"${decimal_text(amount_e6, E6, 2)}"


RULES: dict[str, Rule] = {
    "R1_KILL_SWITCH": kill_switch,
    "R2_SYMBOL_NOT_ENABLED": symbol_not_enabled,
    "R18_DELISTED": delisted,
    "R15_UNKNOWN_CITATION": unknown_citation,
    "R7_STALE_DATA": stale_data,
    "R12_NO_POSITION": no_position,
    "R4_LEVERAGE": leverage,
    "R8_MIN_NOTIONAL": min_notional,
    "R9_PRICE_DEVIATION": price_deviation,
    "R3_POSITION_CAP": position_cap,
    "R14_ACCOUNT_CAP": account_cap,
    "R16_MARGIN": margin,
    "R5_DAILY_LOSS": daily_loss,
    "R10_COOLDOWN": cooldown,
    "R6_RATE_LIMIT": rate_limit,
    "R13_ONE_ORDER": one_order,
}
"""The rules of the guard, in the order they are asked: the first that objects is the one that is stored."""
