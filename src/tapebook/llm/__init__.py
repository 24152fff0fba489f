"""Language models behind one small face: a prompt in, a text out, or the reason why there is none.

takes:  a system and a user text, a JSON schema, a budget of attempts, seconds and dollars
gives:  the text with its tokens and cost; whatever goes wrong comes back as a value
never:  shows a key, knows a packet, waits longer than it is told to
"""

from tapebook.llm.asker import Asker, Budget, ModelResponse, NoSpendLedger, Price, SpendLedger, WaitClock, price_of
from tapebook.llm.port import Completion, Failure, Key, Model, ModelTerms

__all__ = [
    "Asker",
    "Budget",
    "Completion",
    "Failure",
    "Key",
    "Model",
    "ModelResponse",
    "ModelTerms",
    "NoSpendLedger",
    "Price",
    "SpendLedger",
    "WaitClock",
    "price_of",
]
