"""Language models behind one small face: a prompt in, a text out, or the reason why there is none.

takes:  a system and a user text, a JSON schema, a budget of attempts, seconds and dollars
gives:  the text with its tokens and cost; whatever goes wrong comes back as a value
never:  shows a key, knows a packet, waits longer than it is told to
"""

from tapebook.llm.asker import Asked, Asker, Budget, Ledger, NoLedger, Waiting
from tapebook.llm.port import Completion, Failure, Key, Model, ModelTerms
from tapebook.llm.prices import Price, price_of

__all__ = [
    "Asked",
    "Asker",
    "Budget",
    "Completion",
    "Failure",
    "Key",
    "Ledger",
    "Model",
    "ModelTerms",
    "NoLedger",
    "Price",
    "Waiting",
    "price_of",
]
