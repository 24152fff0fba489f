"""The versions of a packet: which rules its reads and its text follow.

A run stores the number of the renderer that made its packet. Replay reads and renders with the same number for
ever, so a rule that changes what a packet says is a field here, false for the versions before it.
"""

import msgspec

from tapebook.errors import Damaged


class PacketVersion(msgspec.Struct, frozen=True):
    """The rules of one renderer.

    `complete_bars`     a bar that lacks a minute is not shown as finished, and the missing minute is named
    `scaled_regimes`    the thresholds of a regime scale with the square root of the time its window covers
    `derived_features`  features are derived from imported bars and rates where none were stored
    `sanitised`         words from outside are shown, and asked about, as `domain/text.py` leaves them
    `expired_orders`    a decision whose order expired at the send gate is still the last decision
    """

    renderer: int
    complete_bars: bool
    scaled_regimes: bool
    derived_features: bool
    expired_orders: bool
    sanitised: bool


VERSIONS = {
    2: PacketVersion(2, False, False, False, False, False),
    3: PacketVersion(3, True, True, True, True, False),
    4: PacketVersion(4, True, True, True, True, True),
}

RENDERER = max(VERSIONS)
"""The renderer of new packets."""

CURRENT = VERSIONS[RENDERER]


def version_of(renderer: int) -> PacketVersion:
    """The rules of a stored run."""
    if renderer not in VERSIONS:
        raise Damaged(f"rendered by version {renderer}, which this tapebook does not have: replay it with a newer one")
    return VERSIONS[renderer]
