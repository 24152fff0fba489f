"""Orders and what came of them."""

from typing import Literal

import msgspec

from tapebook.domain.units import E8

Side = Literal["buy", "sell"]
OrderType = Literal["market", "limit"]
OrderEndStatus = Literal["filled", "rejected", "cancelled"]
FillRule = Literal["next_open", "bar_close", "worst"]
"""Where a paper order fills when bars are all there is: see `broker/matching.py`."""


class Order(msgspec.Struct, frozen=True):
    """An order as it was intended; `client_id` is a function of the run, so a retry cannot double it.

    The id is hex digits and no more than 128 bits of them, which is what exchanges take.
    """

    client_id: str
    run_id: str
    symbol: str
    side: Side
    size_e8: int
    type: OrderType
    limit_price_e8: int | None
    reduce_only: bool
    leverage: int
    intended_at: int

    @property
    def signed_size_e8(self) -> int:
        """Positive for a buy."""
        return self.size_e8 if self.side == "buy" else -self.size_e8


class Increments(msgspec.Struct, frozen=True):
    """The steps in which an exchange takes sizes and prices of a symbol.

    A price is a multiple of `tick_e8` with at most `price_digits` significant digits (0: any number of them; otherwise
    the tick is a power of ten); whole numbers are always allowed, as on Hyperliquid.
    """

    lot_e8: int = 1
    tick_e8: int = 1
    price_digits: int = 0

    def tick_at_e8(self, price_e8: int) -> int:
        """The distance of neighbouring prices around a price."""
        if not self.price_digits:
            return self.tick_e8
        coarse: int = 10 ** max(0, len(str(price_e8)) - self.price_digits)
        return max(self.tick_e8, min(E8, coarse))


def round_size(signed_size_e8: int, increments: Increments, *, held_e8: int = 0) -> int:
    """A size in whole lots, towards zero: never more than asked for.

    What closes a position keeps its size, so that of one from before there were lots no dust is left for ever.
    """
    if signed_size_e8 == -held_e8:
        return signed_size_e8
    lots = abs(signed_size_e8) // increments.lot_e8 * increments.lot_e8
    return lots if signed_size_e8 > 0 else -lots


def round_price(price_e8: int, increments: Increments, *, buying: bool) -> int:
    """A limit on the grid of prices and never worse than asked for: a buy goes down, a sell up; never to nothing."""
    tick = increments.tick_at_e8(price_e8)
    if buying:
        return max(tick, price_e8 // tick * tick)
    return -(-price_e8 // tick) * tick


class Fill(msgspec.Struct, frozen=True):
    """A part of an order that was executed; a liquidation and the settlement of what was delisted have no order."""

    fill_id: str
    symbol: str
    happened_at: int
    signed_size_e8: int
    price_e8: int
    fee_usd_e6: int
    maker: bool
    client_id: str | None = None
    liquidation: bool = False
    delisted: bool = False


class SpotFill(msgspec.Struct, frozen=True):
    """An exchange of one token for another: no position, no trade, and its fee in the token it was paid in."""

    fill_id: str
    market: str
    happened_at: int
    signed_size_e8: int
    price_e8: int
    fee_e8: int
    fee_token: str
    direction: str = ""
    maker: bool = False
    order_id: str | None = None


class FundingPayment(msgspec.Struct, frozen=True):
    """What an open position received (positive) or paid (negative) at one hour."""

    symbol: str
    happened_at: int
    amount_usd_e6: int
    rate_e12: int


class OrderEnd(msgspec.Struct, frozen=True):
    """The broker's last word on an order: filled, refused or cancelled."""

    client_id: str
    happened_at: int
    status: OrderEndStatus
    detail: str = ""


class OrderOutcome(msgspec.Struct, frozen=True):
    """How far an order had come as of a moment: intended, working, ended by the broker's or the gate's word, or dry."""

    symbol: str
    status: Literal["intended", "working", "filled", "rejected", "cancelled", "dry"]
    detail: str = ""


class InsurancePayment(msgspec.Struct, frozen=True):
    """A loss beyond what there was to lose, made up by the exchange; without a symbol it is the whole account's."""

    symbol: str
    happened_at: int
    amount_usd_e6: int


BrokerEvent = Fill | FundingPayment | OrderEnd | InsurancePayment
