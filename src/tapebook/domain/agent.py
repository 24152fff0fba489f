"""Who trades (a versioned profile and its deployment against one broker), and what its memories offer a decision.

Memories are lessons, experience and horizons, each as rows of text with declared digits; notes are what an agent's
trades have earned, and the reflection settings say how often one is written.
"""

from typing import Annotated, Literal, get_args

import msgspec

from tapebook.domain.run import Usage
from tapebook.domain.units import E6, MINUTE


class Lessons(msgspec.Struct, frozen=True):
    """The active note: bullets that were checked, and the hash that joins it to the trades made under it."""

    bullets: tuple[str, ...]
    content_hash: str


class FollowedLessons(msgspec.Struct, frozen=True):
    """By how much an ensemble that follows its lessons scales what it enters on either side, and which ones say so."""

    long_scale_e4: int = 10_000
    short_scale_e4: int = 10_000
    lesson_ids: tuple[str, ...] = ()


NO_LESSONS_FOLLOWED = FollowedLessons()


class ExperienceRow(msgspec.Struct, frozen=True, cache_hash=True):
    """One thing that was learned from outcomes; the most important come first.

    provider   a provider's weight in an ensemble: `("provider", "trend", "1.20")`
    record     how a provider did, over all or in a regime, with n and interval
    similar    a situation like this one, and how it ended
    """

    kind: str
    name: str
    value: str


_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class ExperienceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """How an agent uses what its outcomes taught.

    enabled           off: nothing is offered to decisions; outcomes are learned all the same
    max_memory_size   of the newest outcomes, by time, how many make up the recent record
    learning_rate_e4  how quickly to believe, 1,000 for 0.1: as if 1 / rate trades without result came first
    context_window    how many days the recent record reaches back
    neighbours        how many situations like this one are looked at
    calibrated_sizing on: an ensemble enters no more than the hit rate of its confidence so far; left out when it is off

    Records and situations are not cut by the two bounds: sums cost the same at any age, and a situation that
    returns after years is found.
    """

    enabled: bool = True
    max_memory_size: _AtLeastOne = 1_000
    learning_rate_e4: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1_000
    context_window: _AtLeastOne = 20
    neighbours: _AtLeastOne = 25
    calibrated_sizing: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def prior_trades(self) -> float:
        """How many trades without result stand before the first real one."""
        return 10_000 / self.learning_rate_e4


class LayerRow(msgspec.Struct, frozen=True):
    """One key of a layer: `("L6", "2026-06-03", "total_pnl_usd", "-12.50")`; the nearest layers come first."""

    layer: str
    timeframe: str
    key: str
    value: str


ReflectionCadence = Literal["off", "per_n_trades", "daily"]
REFLECTION_CADENCES: tuple[ReflectionCadence, ...] = get_args(ReflectionCadence)


LessonsPolicy = Literal["off", "scale", "skip"]
LESSONS_POLICIES: tuple[LessonsPolicy, ...] = get_args(LessonsPolicy)


class ReflectionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to reflect and who proposes; `off`, after so many closed trades, or once a UTC day.

    `follow` says what an ensemble does where a confirmed lesson says that trades do worse: nothing, half the size, or
    no trade. It is left out when it is off, so that the bytes of such a profile are those of before there was one.
    """

    cadence: ReflectionCadence = "per_n_trades"
    every_n_trades: int = 10
    reflector: str = "statistics"
    follow: LessonsPolicy | msgspec.UnsetType = msgspec.UNSET


class Note(msgspec.Struct, frozen=True):
    """A note that passed its check: the lessons of a deployment from `generated_at` until a newer one stands."""

    note_id: str
    agent: str
    agent_version: int
    generated_at: int
    window_start: int
    window_end: int
    trades_considered: int
    lessons_text: str
    content_hash: str
    written_by: str
    usage: Usage | None = None


class StoredNote(msgspec.Struct, frozen=True):
    """A reflection in its place: the note, whether it is active, superseded or refused, and why it was refused."""

    seq: int
    note: Note
    status: Literal["active", "superseded", "refused"]
    problem: str


class SkillNote(msgspec.Struct, frozen=True):
    """A note that an owner promoted: whoever has the skill is told it. Without a text, it was taken back.

    `source` is the deployment it comes from, `agent` that deployment's agent.
    """

    skill: str
    note_id: str
    source: str
    agent: str
    happened_at: int
    lessons_text: str
    content_hash: str


EngineSettingPairs = tuple[tuple[str, str], ...]
"""Settings of an engine by name, in the order of their names: text, since a float has no canonical bytes."""

Horizon = Literal["scalp", "intraday", "swing", "position"]
MarginMode = Literal["cross", "isolated"]
TradingMode = Literal["trade", "dry_run"]

MOST_TRADES_SHOWN = 30

HORIZONS: dict[Horizon, tuple[int, int]] = {
    "scalp": (1, 60),
    "intraday": (30, 48),
    "swing": (180, 56),
    "position": (720, 60),
}
"""How far back each horizon looks: minutes of a bar, and how many bars. An hour, a day, a week and thirty days.

Sixty bars fit their section of the packet whatever they cost, so none of a horizon is ever left out.
"""


class RiskCaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """Limits the guard enforces; the packet shows them, no text can change them.

    A position cap is of one symbol, the account cap of all of them together, working orders included.
    """

    max_position_usd_e6: int = 2_000 * E6
    max_leverage: int = 5
    min_notional_usd_e6: int = 10 * E6
    max_data_age_ms: int = 120_000
    max_account_usd_e6: int = 10_000 * E6
    max_daily_loss_usd_e6: int = 1_000 * E6
    max_orders_per_hour: int = 60
    max_price_deviation_ppm: int = 20_000
    cooldown_ms: int = 0
    max_model_usd_e6_per_run: int = E6 // 2
    max_model_usd_e6_per_day: int = 10 * E6


MemoryRoom = Literal["positions", "activity", "trades", "lessons", "experience", "horizons", "documents"]
ACCOUNT_ROOMS: tuple[MemoryRoom, ...] = ("positions", "activity", "trades")
"""The account's own state: open trades, the last decision and what was done lately, and closed trades."""
LEARNED_ROOMS: tuple[MemoryRoom, ...] = ("lessons", "experience", "horizons", "documents")
MEMORY_ROOMS = (*ACCOUNT_ROOMS, *LEARNED_ROOMS)
"""The rooms of a memory, in the order they are written in."""

MemorySetting = bool | tuple[MemoryRoom, ...]
"""All rooms, none, or those that are named. That `False` is none, also of the account, is how it began."""

MEMORY_MAY_BE = (
    f"on, off (without what was learned), none, or names of {', '.join(LEARNED_ROOMS)} joined by , or +; "
    f"behind `none` the account's own {', '.join(ACCOUNT_ROOMS)} too, such as none+trades"
)
_MEMORY_WORDS: dict[str, MemorySetting] = {
    **dict.fromkeys(("on", "true", "yes"), True),
    **dict.fromkeys(("off", "false", "no"), ACCOUNT_ROOMS),
    "none": False,
}


def parse_memory(written: str | bool | list[str] | tuple[str, ...]) -> MemorySetting:
    """The rooms that somebody names; a ValueError names what is none of them."""
    if isinstance(written, bool):
        return True if written else ACCOUNT_ROOMS
    if isinstance(written, str) and written.strip().lower() in _MEMORY_WORDS:
        return _MEMORY_WORDS[written.strip().lower()]
    parts = written.replace("+", ",").split(",") if isinstance(written, str) else written
    names = [part.strip().lower() for part in parts]
    from_nothing = names[:1] == ["none"]
    named = set(names[1:] if from_nothing else names)
    unknown = sorted(named - set(MEMORY_ROOMS))
    if unknown or not named:
        raise ValueError(f"{', '.join(unknown)!r} is no room of a memory: it may be {MEMORY_MAY_BE}")
    rooms = tuple(room for room in MEMORY_ROOMS if room in named or (room in ACCOUNT_ROOMS and not from_nothing))
    return True if rooms == MEMORY_ROOMS else rooms


def memory_setting_text(memory: MemorySetting) -> str:
    """A setting as `parse_memory` reads it: `on`, `off`, `none`, `lessons,experience` or `none,trades`."""
    if isinstance(memory, bool) or not memory:
        return "on" if memory else "none"
    learned = [room for room in memory if room in LEARNED_ROOMS]
    if set(ACCOUNT_ROOMS) <= set(memory):
        return ",".join(learned) or "off"
    return ",".join(["none", *memory])


OWN = "own"
"""In a subscription: what belongs to the symbol of a decision."""

Subscription = tuple[str, ...] | msgspec.UnsetType
"""Subjects of global data, `OWN` among them or not; nothing at all when it is empty, and `OWN` where it is left out."""


class Subscriptions(msgspec.Struct, frozen=True):
    """Of which symbols prediction markets are shown, and which subjects of capital; `OWN` stands for the symbol's."""

    predictions: tuple[str, ...] = (OWN,)
    macro: tuple[str, ...] = (OWN,)


OWN_SUBSCRIPTIONS = Subscriptions()


class ContextProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """How much of each memory the packet offers; without `memory` it shows the market and the portfolio alone.

    `predictions` and `macro` choose from what is global. They are left out while they choose nothing but the symbol's
    own, so that the bytes of such a profile are those of before there were any.
    """

    horizon: Horizon = "intraday"
    bar_minutes: int = 5
    bar_count: int = 100
    recent_trades_k: int = 10
    memory: MemorySetting = True
    predictions: Subscription = msgspec.UNSET
    macro: Subscription = msgspec.UNSET

    @property
    def subscriptions(self) -> Subscriptions:
        """What of global data is shown."""
        if self.predictions is msgspec.UNSET and self.macro is msgspec.UNSET:
            return OWN_SUBSCRIPTIONS
        chosen = {"predictions": self.predictions, "macro": self.macro}
        return Subscriptions(**{name: each for name, each in chosen.items() if each is not msgspec.UNSET})

    @property
    def rooms(self) -> tuple[MemoryRoom, ...]:
        """The rooms of the memory that a packet shows."""
        memory = self.memory
        return MEMORY_ROOMS if memory is True else memory or ()


def context_for_horizon(horizon: Horizon) -> ContextProfile:
    """A context profile with the bars of a horizon."""
    # Pinned, so that a later table does not change an agent that exists.
    minutes, count = HORIZONS[horizon]
    return ContextProfile(horizon=horizon, bar_minutes=minutes, bar_count=count)


class AgentProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything an agent is, apart from what it remembers. A change makes a new version.

    An empty engine means the default of the home's settings; `model` and `members` are for engines that need them.
    `shadow` is a second context profile whose decisions are recorded beside the real ones and never traded. `skills`
    name whose promoted lessons it is told besides those of its own name. In the mode `dry_run` it decides and is
    guarded, and its orders are written down without being sent. `engine_settings` are for the engine; without any the
    field is left out, so that the bytes of such a profile are those of before there were any.
    """

    name: str
    watchlist: tuple[str, ...]
    engine: str = ""
    broker: str = "paper"
    cadence_ms: int = 5 * MINUTE
    strategy: str = ""
    avoid: tuple[str, ...] = ()
    caps: RiskCaps = RiskCaps()
    context: ContextProfile = ContextProfile()
    starting_cash_usd_e6: int = 10_000 * E6
    model: str = ""
    members: tuple[str, ...] = ()
    margin: MarginMode = "cross"
    manual: str = ""
    shadow: ContextProfile | None = None
    enabled: bool = True
    reflection: ReflectionSettings = ReflectionSettings()
    experience: ExperienceSettings = ExperienceSettings()
    skills: tuple[str, ...] = ()
    mode: TradingMode = "trade"
    engine_settings: EngineSettingPairs | msgspec.UnsetType = msgspec.UNSET


# No name of a broker has a hyphen, so no other deployment can end like this.
_DRY_RUN_SUFFIX = "-dry"


def deployment_id(agent: AgentProfile) -> str:
    """One deployment per agent, broker and mode: a dry run shares no account, memory or activity with trading."""
    return f"{agent.name}.{agent.broker}{_DRY_RUN_SUFFIX if agent.mode == 'dry_run' else ''}"


def is_dry_run(deployment: str) -> bool:
    """Whether a deployment is of a dry run, by its id."""
    return deployment.endswith(_DRY_RUN_SUFFIX)


class Deployment(msgspec.Struct, frozen=True):
    """One agent version running against one broker; its id names its stream in the log."""

    owner: str
    id: str
    agent: AgentProfile
    version: int


def agent_name_of(deployment: str) -> str:
    """The agent a deployment is named after."""
    return deployment.rpartition(".")[0]
