"""Which numbers of a reason nothing explains: neither the packet, nor the action itself, nor simple arithmetic on them.

A number counts as explained when it is one of the packet's within the rounding it is written with, or
the difference, the share or the change in percent (or basis points) between two of them. Small whole
numbers are counts ("3 of 5 bars") and pass. With hundreds of numbers to combine, a made-up one can
pass by chance; a flagged one is made up, or computed in a way that a reader should see.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

import msgspec

from tapebook.domain.money import E6, E8
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action

# Not inside a word or a time (EMA20, 5m, 12:05), but with a unit that scales it.
_NUMBER = re.compile(r"(?<![\w.:])[-+$]{0,2}(\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?(%|bps?\b|[kKMB]\b))?(?![\w:]|\.\d)")
_DIGIT = re.compile(r"\d")
_SCALES = {"k": 3, "K": 3, "M": 6, "B": 9}
_RELATIVE = {"%": 100, "bp": 10_000, "bps": 10_000}
_SPILLED = re.compile(r"\n(?:%|bps?\b|[kKMB]\b)")
_EXACT_DIGITS = 28
_COUNTS = 20
_MOST = 12


class _Figure(msgspec.Struct, frozen=True):
    """A number as it is written: its size, half a unit of its last digit, and what a relative one is out of."""

    text: str
    value: float
    slack: float
    out_of: int | None


def unexplained(action: Action, packet: Packet) -> tuple[str, ...]:
    """The numbers of an action's reason that a reader cannot find or work out, as they are written."""
    if not _DIGIT.search(action.reason):
        return ()
    figures = [figure for figure in _figures(action.reason) if not _is_count(figure)][:_MOST]
    if not figures:
        return ()
    known = sorted({*_said(f"{packet.system}\n{packet.text}"), *_own(action)})
    return tuple(figure.text for figure in figures if not _explained(figure, known))


def _figures(text: str) -> Iterator[_Figure]:
    """Every number of a text without its sign: "down 3" and "-3" are one."""
    for match in _NUMBER.finditer(text):
        unit = match[2] or ""
        exact = Decimal(match[1].replace(",", "")).scaleb(_SCALES.get(unit, 0))
        exponent = exact.as_tuple().exponent
        half = 0.5 * 10.0 ** (exponent if isinstance(exponent, int) else 0)
        yield _Figure(match[0].strip(), float(exact), half, _RELATIVE.get(unit))


def _said(text: str) -> set[float]:
    """Every number of a text; line by line, since most lines of a packet were in the one before."""
    # A unit at the beginning of a line belongs to the number before it.
    lines = [text] if _SPILLED.search(text) else text.split("\n")
    return set().union(*map(_said_in, lines))


@lru_cache(maxsize=20_000)
def _said_in(line: str) -> tuple[float, ...]:
    return tuple([_value(number, unit) for number, unit in _NUMBER.findall(line)])


def _value(number: str, unit: str) -> float:
    """What `_figures` says of a number; without a Decimal as long as that would not round it."""
    digits, scale = number.replace(",", ""), _SCALES.get(unit, 0)
    return float(f"{digits}e{scale}") if len(digits) <= _EXACT_DIGITS else float(Decimal(digits).scaleb(scale))


def _is_count(figure: _Figure) -> bool:
    return figure.out_of is None and figure.value <= _COUNTS and figure.value.is_integer()


def _own(action: Action) -> list[float]:
    """What the action itself says: its size, leverage, limit and confidence."""
    limit = action.limit_price_e8 or 0
    confidence = action.confidence_e4
    return [action.notional_usd_e6 / E6, float(action.leverage), limit / E8, confidence / 1e4, confidence / 100]


def _explained(figure: _Figure, known: Sequence[float]) -> bool:
    value, slack = figure.value, figure.slack
    if _met(known, [(value, slack)]) or _met(known, [(base + value, slack) for base in known]):
        return True
    if figure.out_of is None:
        return False
    part, width = value / figure.out_of, slack / figure.out_of
    # Up by, down by, and a share of: each as the other number it would need.
    factors = (part, 1 + part, 1 - part)
    return any(_met(known, [(base * factor, base * width) for base in known if base]) for factor in factors)


def _met(known: Sequence[float], wanted: Iterable[tuple[float, float]]) -> bool:
    """Whether a number lies within the slack of a wanted one; a little more, for what floats lose."""
    count = len(known)
    for value, slack in wanted:
        slack += 1e-9 * abs(value)
        at = bisect_left(known, value - slack)
        if at < count and known[at] <= value + slack:
            return True
    return False
