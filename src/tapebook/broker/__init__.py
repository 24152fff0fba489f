"""Brokers: where orders go, and whose word on fills counts.

takes:  orders, and the account they belong to
gives:  what became of them: fills, funding, refusals, in time order
never:  decides, explains, writes a store
"""

from tapebook.broker.port import Broker, Exposure, PaperTerms, Quotes

__all__ = ["Broker", "Exposure", "PaperTerms", "Quotes"]
