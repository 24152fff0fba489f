"""What a reflector is: closed trades in, a proposed note out."""

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import msgspec

from tapebook.domain.agent import AgentProfile
from tapebook.domain.run import Usage
from tapebook.domain.trade import ClosedTrade
from tapebook.errors import ConfigError
from tapebook.llm import Asker


class Reflected(msgspec.Struct, frozen=True):
    """A proposed note, who wrote it, and what it cost; `problem` says why there is none."""

    text: str
    written_by: str
    usage: Usage | None = None
    problem: str | None = None


class Reflector(Protocol):
    """Anything that can write a note."""

    def reflect(self, agent: AgentProfile, trades: Sequence[ClosedTrade], *, active: str | None) -> Reflected:
        """A note on closed trades, oldest first, going on from the active one."""
        ...


def _nobody(_provider: str, _model: str) -> NoReturn:
    raise ConfigError("this reflector can only be made by a home, which knows its models")


class ReflectorTerms(msgspec.Struct, frozen=True):
    """What a reflector may need to be made: a provider's model, and what it may spend on one note."""

    model: str = ""
    max_usd_e6: int = 0
    asker: Callable[[str, str], Asker] = _nobody
