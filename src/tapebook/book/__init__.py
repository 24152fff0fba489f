"""The book: what the agent did, and how it ended.

takes:  decisions, the broker's fills and funding, marks
gives:  orders, a ledger in integers, round-trip trades, runs, all as of any sequence number
never:  reads order flow of others, asks the time, changes a row that a packet was made from
"""

from tapebook.book.materializer import (
    CloseTrade,
    FlipTrade,
    MaterializerContext,
    Op,
    OpenTrade,
    UpdateMfeMae,
    reconcile_portfolio_delta,
)

__all__ = [
    "CloseTrade",
    "FlipTrade",
    "MaterializerContext",
    "Op",
    "OpenTrade",
    "UpdateMfeMae",
    "reconcile_portfolio_delta",
]
