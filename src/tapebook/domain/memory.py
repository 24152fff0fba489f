"""What the memories offer a decision: lessons, experience and horizons, each as rows of text with declared digits."""

import msgspec


class Lessons(msgspec.Struct, frozen=True):
    """The active note: bullets that were checked, and the hash that joins it to the trades made under it."""

    bullets: tuple[str, ...]
    content_hash: str


class ExperienceRow(msgspec.Struct, frozen=True):
    """One thing that was learned from outcomes; the most important come first.

    provider   a provider's weight in an ensemble: `("provider", "trend", "1.20")`
    record     how a provider did, over all or in a regime, with n and interval
    similar    a situation like this one, and how it ended
    """

    kind: str
    name: str
    value: str


class ExperienceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """How an agent uses what its outcomes taught.

    enabled           off: nothing is offered to decisions; outcomes are learned all the same
    max_memory_size   of the newest outcomes, by time, how many make up the recent record
    learning_rate_e4  how quickly to believe, 1,000 for 0.1: as if 1 / rate trades without result came first
    context_window    how many days the recent record reaches back
    neighbours        how many situations like this one are looked at

    Records and situations are not cut by the two bounds: sums cost the same at any age, and a situation that
    returns after years is found.
    """

    enabled: bool = True
    max_memory_size: int = 1_000
    learning_rate_e4: int = 1_000
    context_window: int = 20
    neighbours: int = 25

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate_e4 <= 10_000:
            raise ValueError(f"learning_rate_e4 is {self.learning_rate_e4}: it must be above 0 and at most 10000")
        if min(self.max_memory_size, self.context_window, self.neighbours) < 1:
            raise ValueError("max_memory_size, context_window and neighbours must be at least 1")

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
