"""What a rule engine reads off a packet. Whatever is missing or is no number is left out, never guessed."""

import math
from typing import Literal, NamedTuple

from tapebook.domain.packet import Packet

Side = Literal["long", "short"]


class Bar(NamedTuple):
    """The prices of a bar."""

    high: float
    low: float
    close: float


def bars(packet: Packet) -> list[Bar]:
    """The bars that are shown, oldest first."""
    section = packet.section("bars")
    if section is None or not {"high", "low", "close"} <= set(section.columns):
        return []
    places = [section.columns.index(name) for name in ("high", "low", "close")]
    found = []
    for row in section.rows:
        prices = [price for place in places if (price := number(_cell(row, place))) is not None]
        if len(prices) == len(places):
            found.append(Bar(*prices))
    return found


def fact(packet: Packet, section: str, name: str) -> str | None:
    """A value by its section and its name."""
    shown = packet.section(section)
    rows = shown.rows if shown else ()
    return next((row[1] for row in rows if len(row) > 1 and row[0] == name), None)


def figure(packet: Packet, section: str, name: str) -> float | None:
    """The same, as a number."""
    return number(fact(packet, section, name))


def number(text: str | None) -> float | None:
    """A cell as a number; None when it is none that can be reckoned with."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def held_side(packet: Packet) -> Side | None:
    """The side of the position in the packet's symbol, if there is one."""
    side = fact(packet, "portfolio", "position_side")
    return "long" if side == "long" else "short" if side == "short" else None


def _cell(row: tuple[str, ...], place: int) -> str | None:
    return row[place] if place < len(row) else None
