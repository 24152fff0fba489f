"""What an engine is: one call, a packet in, an answer out."""

from collections.abc import Callable
from typing import NoReturn, Protocol

import msgspec

from tapebook.domain.packet import Packet
from tapebook.domain.run import Usage, Vote
from tapebook.errors import ConfigError
from tapebook.llm import Asker


class EngineAnswer(msgspec.Struct, frozen=True, cache_hash=True):
    """The raw text of a reply, the votes behind it, and what it cost; `problem` says why there is no reply.

    `reasoning` is what a model thought beside its reply, as far as its provider shows it; nothing is decided by it.
    """

    reply: str
    votes: tuple[Vote, ...] = ()
    usage: Usage | None = None
    problem: str | None = None
    reasoning: str = ""


class Engine(Protocol):
    """Anything that can answer a packet. It may be called from several threads at once."""

    @property
    def identity(self) -> str:
        """Empty for a pure function of the packet; else what a kept reply depends on: model, parameters, prompt."""
        ...

    def decide(self, packet: Packet) -> EngineAnswer:
        """The answer, which is parsed and judged by others. Whatever goes wrong outside comes back as a problem."""
        ...


def _not_available(_name: str, _of: object) -> NoReturn:
    raise ConfigError("this engine can only be made by a home, which knows its members and models")


class EngineTerms(msgspec.Struct, frozen=True):
    """What an engine may need to be made: the agent's choice of model and members, and what it may spend on a run.

    `member` makes a member, `name` or `name:model`, that may spend so much; `asker` gives a provider's
    model, or its usual one when none is named.
    """

    model: str = ""
    members: tuple[str, ...] = ()
    max_usd_e6: int = 0
    member: Callable[[str, int], Engine] = _not_available
    asker: Callable[[str, str], Asker] = _not_available
