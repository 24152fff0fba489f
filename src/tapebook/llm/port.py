"""What a model offers: one request, and a closed set of ways in which it can end.

    Completion, stop = end          a text
                       refused      the model would not answer
                       truncated    the text was cut off at the limit of tokens
    Failure, fault =   rate_limited   too many requests; `retry_after_seconds` if the server said so
                       server_error   the server failed, or what it sent is no answer
                       timeout        nothing came in time; the prompt may have been billed
                       unreachable    no connection, or one that broke
                       unauthorised   no key, a wrong one, or one without the right
                       rejected       the request itself was refused; the same again would be too

The first four failures may pass by themselves.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

import msgspec

from tapebook.domain.text import short_line

CompletionStop = Literal["end", "refused", "truncated"]
Fault = Literal["rate_limited", "server_error", "timeout", "unreachable", "unauthorised", "rejected"]
TRANSIENT_FAULTS: frozenset[Fault] = frozenset({"rate_limited", "server_error", "timeout", "unreachable"})

# Two bytes a token is more than any tokenizer makes of prose and figures: an estimate to be safe with.
BYTES_PER_TOKEN = 2

Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
"""A count that a server may state: nothing below zero, and nothing that no model could have written."""


class Key:
    """A provider's key. It shows itself to nobody who does not ask for it by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The key itself, for the one who sends it."""
        return self._text

    def redact(self, text: str) -> str:
        """A text of others with the key taken out of it."""
        return text.replace(self._text, "…") if self._text else text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Key(…)" if self._text else "Key()"


class ModelTerms(msgspec.Struct, frozen=True):
    """Which model to ask, where, with which key, and what counts the seconds meanwhile."""

    model: str
    url: str
    key: Key
    elapsed_seconds: Callable[[], float]


class Completion(msgspec.Struct, frozen=True):
    """What a model said, and what its provider shows of its thinking; the tokens are those that are billed."""

    text: str
    input_tokens: int
    output_tokens: int
    stop: CompletionStop = "end"
    reasoning: str = ""


class Failure(msgspec.Struct, frozen=True):
    """Why nothing was said, in one line without a key; `is_billed` when the prompt may have been paid for."""

    fault: Fault
    detail: str
    retry_after_seconds: float | None = None
    status: int | None = None
    is_billed: bool = False


class Model(Protocol):
    """One model of one provider. It may be asked from several threads at once, and does not try again by itself."""

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """One request for a text that follows the schema, answered within the timeout whatever the server does."""
        ...


def estimate_tokens(*texts: str) -> int:
    """How many tokens texts may have, rather too many than too few."""
    return sum(len(text.encode()) for text in texts) // BYTES_PER_TOKEN + 1


def short_error_line(text: str) -> str:
    """A text of others as one short line without anything that cannot be seen."""
    return short_line(text, 160)
