"""What the tape has already of the facts of a file, and whether both can stand side by side. Reads, never writes."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tapebook.domain.instants import DAY, SECOND, floor, iso
from tapebook.domain.market import Candle, PredictedFunding
from tapebook.tape.importer import INTERVALS, Imported, Parsed, span_text
from tapebook.tape.store import Tape, View

Key = tuple[type, str, int, str]


class Compared(msgspec.Struct, frozen=True):
    """The facts of a file beside the tape: those it does not have, how many it has, and those it has otherwise."""

    new: list[Imported]
    same: int
    differing: list[Imported]


def compared(tape: Tape, parsed: Parsed, *, now: int) -> Compared:
    """Sorts the facts of a file by what the tape says of the same moments."""
    there = _stored(tape, parsed.rows, now=now)
    if not there:
        return Compared(list(parsed.rows), 0, [])
    # A recording may hold several pictures of a bar: the last one decides whether the tape has it.
    last = {_key(fact): fact for fact in parsed.rows}
    equal = _equality(parsed.stated)
    new: list[Imported] = []
    differing: list[Imported] = []
    for fact in parsed.rows:
        key = _key(fact)
        if key not in there:
            new.append(fact)
        elif not equal(last[key], there[key]):
            differing.append(fact)
    return Compared(new, len(parsed.rows) - len(new) - len(differing), differing)


def mixture(tape: Tape, bars: Sequence[Candle], *, now: int) -> str:
    """Why these bars cannot stand beside those the tape has of other lengths; empty when they can.

    A larger bar that the tape itself has made of bars of this length is no other history.
    """
    symbol, length = bars[0].symbol, bars[0].granularity_sec
    first, end, view = bars[0].bucket_ts, bars[-1].end, View(now + DAY)
    for other in INTERVALS.values():
        if other == length:
            continue
        # A larger bar that begins before the first of these may reach into them.
        since = first - other * SECOND + 1
        found = tape.candles(symbol, granularity_sec=other, since=since, until=end - 1, view=view)
        if found and other > length:
            around = {"since": found[0].bucket_ts, "until": found[-1].end - 1}
            found = _not_made_of(tape.candles(symbol, granularity_sec=length, view=view, **around), found)
        if found:
            return _refusal(found[0], length)
    return ""


def _stored(tape: Tape, facts: Sequence[Imported], *, now: int) -> dict[Key, Imported]:
    """What the tape has between the first and the last of these facts, by kind, symbol, moment and venue."""
    groups: dict[tuple[type, str], list[Imported]] = {}
    for fact in facts:
        groups.setdefault((type(fact), fact.symbol), []).append(fact)
    found: dict[Key, Imported] = {}
    for group in groups.values():
        times = [fact.bucket_ts for fact in group]
        stored = _beside(tape, group[0], since=min(times), until=max(times), view=View(now + DAY))
        found |= {_key(fact): fact for fact in stored}
    return found


def _beside(tape: Tape, fact: Imported, *, since: int, until: int, view: View) -> Sequence[Imported]:
    """The stored facts of a fact's kind, symbol and length."""
    if isinstance(fact, Candle):
        length = fact.granularity_sec
        return tape.candles(fact.symbol, granularity_sec=length, since=since, until=until, view=view)
    # Any, since a type variable cannot stand for "one of these".
    kind: Any = type(fact)
    found: Sequence[Imported] = tape.facts(kind, fact.symbol, since=since, view=view)
    return found


def _key(fact: Imported) -> Key:
    return type(fact), fact.symbol, fact.bucket_ts, fact.venue if isinstance(fact, PredictedFunding) else ""


def _equality(stated: Sequence[str]) -> Callable[[Any, Any], bool]:
    """Compares what a file states: an estimate that differs from what was observed contradicts nothing."""
    if not stated:
        return lambda one, other: bool(one == other)
    return lambda one, other: all(getattr(one, name) == getattr(other, name) for name in stated)


def _not_made_of(stored: Sequence[Candle], larger: Sequence[Candle]) -> list[Candle]:
    """The larger bars inside of which none of the stored bars lies."""
    length = larger[0].granularity_sec * SECOND
    covered = {floor(bar.bucket_ts, length) for bar in stored}
    return [bar for bar in larger if bar.bucket_ts not in covered]


def _refusal(there: Candle, length: int) -> str:
    has, new = span_text(there.granularity_sec * SECOND), span_text(length * SECOND)
    if there.granularity_sec < length:
        remedy = f"bars of {new} are made of these when they are read, so nothing needs importing there"
    else:
        remedy = f"import bars of {has} for this range, or use another home for bars of {new}"
    said = f"the tape has {there.symbol} in bars of {has} in this range (at {iso(there.bucket_ts)})"
    return f"{said}, and a range holds one length: {remedy}"
