"""The account in integers: what a fill does to a position and to cash.

Cost is kept in USD and released in proportion when a position shrinks; the last part takes the
rest. So the results of a lifetime's fills add up to exactly what was sold less what was bought,
however it was cut.
"""

from typing import Literal

import msgspec

from tapebook.domain.money import divide, notional_usd_e6
from tapebook.domain.order import Fill, FundingPayment
from tapebook.domain.position import Portfolio, Position

EntryKind = Literal["deposit", "realised_pnl", "fee", "funding"]


class Posting(msgspec.Struct, frozen=True):
    """One line of the ledger; cash is the sum of all of them."""

    kind: EntryKind
    symbol: str
    amount_usd_e6: int


def apply_fill(portfolio: Portfolio, fill: Fill, *, leverage: int) -> tuple[Portfolio, list[Posting]]:
    """The account after a fill, and what it posts: the realised result, if any, and the fee."""
    held = portfolio.positions.get(fill.symbol)
    after, realised = _moved(held, fill, leverage)
    postings = [Posting("realised_pnl", fill.symbol, realised)] if realised else []
    if fill.fee_usd_e6:
        postings.append(Posting("fee", fill.symbol, -fill.fee_usd_e6))
    positions = {symbol: kept for symbol, kept in portfolio.positions.items() if symbol != fill.symbol}
    if after is not None:
        positions[fill.symbol] = after
    return Portfolio(positions, portfolio.cash_usd_e6 + sum(each.amount_usd_e6 for each in postings)), postings


def apply_funding(portfolio: Portfolio, payment: FundingPayment) -> tuple[Portfolio, list[Posting]]:
    """The account after an hour's funding."""
    posting = Posting("funding", payment.symbol, payment.amount_usd_e6)
    return Portfolio(portfolio.positions, portfolio.cash_usd_e6 + payment.amount_usd_e6), [posting]


def _moved(held: Position | None, fill: Fill, leverage: int) -> tuple[Position | None, int]:
    """The position after a fill, and the gross result it realised."""
    size, price = fill.signed_size_e8, fill.price_e8
    if size == 0:
        return held, 0
    if held is None or (held.size_e8 > 0) == (size > 0):
        grown = held or Position(fill.symbol, 0, 0)
        return Position(
            fill.symbol, grown.size_e8 + size, grown.cost_usd_e6 + notional_usd_e6(size, price), leverage
        ), 0
    left = held.size_e8 + size
    if left and (left > 0) == (held.size_e8 > 0):
        released = divide(held.cost_usd_e6 * abs(size), abs(held.size_e8))
        shrunk = Position(fill.symbol, left, held.cost_usd_e6 - released, held.leverage)
        return shrunk, notional_usd_e6(-size, price) - released
    realised = notional_usd_e6(held.size_e8, price) - held.cost_usd_e6
    flipped = Position(fill.symbol, left, notional_usd_e6(left, price), leverage) if left else None
    return flipped, realised
