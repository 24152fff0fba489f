"""Brokers: where orders go, and whose word on fills counts.

takes:  orders, and the account they belong to
gives:  what became of them: fills, funding, refusals, liquidations, in time order
never:  decides, explains, writes a store
"""

from tapebook.broker.port import Account, Activity, Book, Broker, Exposure, OrderState, PaperTerms, Quotes, Settlement

__all__ = ["Account", "Activity", "Book", "Broker", "Exposure", "OrderState", "PaperTerms", "Quotes", "Settlement"]
