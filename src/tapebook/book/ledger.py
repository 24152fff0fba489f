"""The account in integers: what a fill, funding and insurance do to positions and to cash.

What a fill does to one position is `domain.position.moved`; here it meets cash, as postings.
"""

from typing import Literal

import msgspec

from tapebook.domain.order import Fill, FundingPayment, InsurancePayment
from tapebook.domain.position import Portfolio, moved

EntryKind = Literal["deposit", "realised_pnl", "fee", "funding", "insurance"]


class Posting(msgspec.Struct, frozen=True):
    """One line of the ledger; cash is the sum of all of them."""

    kind: EntryKind
    symbol: str
    amount_usd_e6: int


def apply_fill(portfolio: Portfolio, fill: Fill, *, leverage: int) -> tuple[Portfolio, list[Posting]]:
    """The account after a fill, and what it posts: the realised result, if any, and the fee."""
    after, realised = moved(portfolio.positions.get(fill.symbol), fill, leverage=leverage)
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
    positions = dict(portfolio.positions)
    if payment.symbol in positions:
        positions[payment.symbol] = positions[payment.symbol].funded(payment.amount_usd_e6)
    return Portfolio(positions, portfolio.cash_usd_e6 + payment.amount_usd_e6), [posting]


def apply_insurance(portfolio: Portfolio, payment: InsurancePayment) -> tuple[Portfolio, list[Posting]]:
    """The account after a loss beyond its means was made up."""
    posting = Posting("insurance", payment.symbol, payment.amount_usd_e6)
    return Portfolio(portfolio.positions, portfolio.cash_usd_e6 + payment.amount_usd_e6), [posting]
