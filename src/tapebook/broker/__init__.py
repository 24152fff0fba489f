"""Brokers: where orders go, and whose word on fills counts.

takes:  orders, and the account they belong to
gives:  what became of them: fills, funding, refusals, liquidations, in time order
never:  decides, explains, writes a store
"""

from tapebook.broker.port import (
    BookedAccount,
    Broker,
    BrokerAccount,
    BrokerActivity,
    Exposure,
    MarketListing,
    OpenOrder,
    OrderBook,
    OrderState,
    PaperTerms,
    Quotes,
    Settlement,
)

__all__ = [
    "BookedAccount",
    "Broker",
    "BrokerAccount",
    "BrokerActivity",
    "Exposure",
    "MarketListing",
    "OpenOrder",
    "OrderBook",
    "OrderState",
    "PaperTerms",
    "Quotes",
    "Settlement",
]
