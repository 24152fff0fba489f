"""What an engine is: one call, a packet in, an answer out.

`make_engine` makes the one of a name. An engine with settings of its own declares their type as `SETTINGS` of its
module: a frozen struct whose fields have defaults, and a description of what each may be. `create` gets them from its
terms with `EngineTerms.settings_as`; an agent that gives settings to an engine without any is refused.
"""

import difflib
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn, Protocol, TypeVar, get_type_hints

import msgspec

from tapebook import plug
from tapebook.domain.agent import EngineSettingPairs
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action, Usage, Vote
from tapebook.errors import ConfigError
from tapebook.llm import Asker

ENGINES_FOLDER = "tapebook.decision.engines"
SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


class EngineAnswer(msgspec.Struct, frozen=True, cache_hash=True):
    """The raw text of a reply, the votes behind it, and what it cost; `problem` says why there is no reply.

    `reasoning` is what a model thought beside its reply, as far as its provider shows it; nothing is decided by it.
    `actions` are what the reply says, where who wrote it knows them: then nobody parses its text.
    """

    reply: str
    votes: tuple[Vote, ...] = ()
    usage: Usage | None = None
    problem: str | None = None
    reasoning: str = ""
    actions: tuple[Action, ...] | None = None


class Engine(Protocol):
    """Anything that can answer a packet. It may be called from several threads at once."""

    @property
    def identity(self) -> str:
        """Empty for a pure function of the packet; else what a kept reply depends on: model, parameters, prompt."""
        ...

    def decide(self, packet: Packet) -> EngineAnswer:
        """The answer, which is parsed and judged by others. Whatever goes wrong outside comes back as a problem."""
        ...


def reads_facts_alone(engine: Engine) -> bool:
    """Whether an engine reads of a packet its symbol and its facts and nothing else: it says so by `facts_alone`."""
    return getattr(engine, "facts_alone", False) is True


def _not_available(_name: str, _of: object) -> NoReturn:
    raise ConfigError("this engine can only be made by a home, which knows its members and models")


class EngineSettingError(ConfigError):
    """A setting of an engine cannot be; the message names it, and whoever makes the engine adds which one it is."""


class EngineTerms(msgspec.Struct, frozen=True):
    """What an engine may need to be made: the agent's choice of model and members, and what it may spend on a run.

    `member` makes a member, `name` or `name:model`, that may spend so much; `asker` gives a provider's
    model, or its usual one when none is named. `settings` are the engine's own, as the agent's profile has them.
    """

    model: str = ""
    members: tuple[str, ...] = ()
    max_usd_e6: int = 0
    member: Callable[[str, int], Engine] = _not_available
    asker: Callable[[str, str], Asker] = _not_available
    settings: EngineSettingPairs = ()

    def settings_as(self, kind: type[SettingsT]) -> SettingsT:
        """The settings with their types, defaults where none are given; EngineSettingError names one that cannot be."""
        hints = get_type_hints(kind, include_extras=True)
        for name, text in self.settings:
            if name not in hints:
                close = difflib.get_close_matches(name, hints, 1)
                choose = f"did you mean `{close[0]}`?" if close else f"choose one of: {', '.join(hints)}"
                raise EngineSettingError(f"`engine_settings` has no `{name}`; {choose}")
            try:
                msgspec.convert(text, hints[name], strict=False)
            except msgspec.ValidationError as error:
                may_be = hints[name].__metadata__[0].description
                raise EngineSettingError(f"`{name}` of `engine_settings` is {text} but must be {may_be}") from error
        try:
            return msgspec.convert(dict(self.settings), kind, strict=False)
        except msgspec.ValidationError as error:
            raise EngineSettingError(f"`engine_settings` cannot be: {error}") from error


@lru_cache(maxsize=64)
def default_members(name: str) -> tuple[str, ...]:
    """Those whom the engine of that name asks by default, `MEMBERS` of its module; none for one that decides alone."""
    # Cached, since a module says the same for as long as the process runs, and every tick asks.
    return tuple(getattr(plug.load(ENGINES_FOLDER, name), "MEMBERS", ()))


def make_engine(name: str, terms: EngineTerms) -> Engine:
    """The engine of that name; UnknownName or ConfigError when there is none, or none with such settings."""
    module = plug.load(ENGINES_FOLDER, name)
    if terms.settings and not hasattr(module, "SETTINGS"):
        given = ", ".join(each for each, _ in terms.settings)
        raise ConfigError(f"the engine {name} takes no settings: remove {given} from `engine_settings`")
    try:
        made: Engine = module.create(terms)
    except EngineSettingError as error:
        raise ConfigError(f"engine {name}: {error}") from error
    return made
