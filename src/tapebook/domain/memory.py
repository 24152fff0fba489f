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


class LayerRow(msgspec.Struct, frozen=True):
    """One key of a layer: `("L6", "2026-06-03", "total_pnl_usd", "-12.50")`; the nearest layers come first."""

    layer: str
    timeframe: str
    key: str
    value: str
