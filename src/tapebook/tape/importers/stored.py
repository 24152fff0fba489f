"""What the tape has already of the facts of a file, and whether both can stand side by side. Reads, never writes."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tapebook.domain.instants import DAY, SECOND, floor, iso
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.tape.importer import INTERVALS, Imported, Parsed, span_text
from tapebook.tape.store import Tape, View

Key = tuple[type, str, int]


class Compared(msgspec.Struct, frozen=True):
    """The facts of a file beside the tape: those it does not have, how many it has, and those it has otherwise.

    Facts and moments stand in pairs: what is known, and since when.
    """

    new: list[tuple[Imported, int]]
    same: int
    differing: list[tuple[Imported, int]]


def compared(tape: Tape, parsed: Parsed, *, now: int) -> Compared:
    """Sorts the facts of a file by what the tape says of the same moments."""
    there = _stored(tape, parsed.rows, now=now)
    # A recording may hold several pictures of a bar: the last one decides whether the tape has it.
    last = {_key(fact): fact for fact in parsed.rows} if there else {}
    equal = _equality(parsed.stated)
    found = Compared([], 0, [])
    same = 0
    for pair in zip(parsed.rows, parsed.known_at, strict=True):
        stored = there.get(_key(pair[0])) if there else None
        if stored is None:
            found.new.append(pair)
        elif equal(last[_key(pair[0])], stored):
            same += 1
        else:
            found.differing.append(pair)
    return msgspec.structs.replace(found, same=same)


def mixture(tape: Tape, bars: Sequence[Candle], *, now: int) -> str:
    """Why these bars cannot stand beside those the tape has of other lengths; empty when they can.

    A larger bar that the tape itself has made of bars of this length is no other history.
    """
    symbol, length = bars[0].symbol, bars[0].granularity_sec
    first, end, view = bars[0].bucket_ts, bars[-1].end, View(now + DAY)
    for other in INTERVALS.values():
        if other == length:
            continue
        # A larger bar may have begun before the first of these.
        since = first - (other - 1) * SECOND
        found = tape.candles(symbol, granularity_sec=other, since=since, until=end - 1, view=view)
        found = [bar for bar in found if bar.end > first]
        if found and other > length:
            around = {"since": found[0].bucket_ts, "until": found[-1].end - 1}
            found = _not_made_of(tape.candles(symbol, granularity_sec=length, view=view, **around), found)
        if found:
            return _refusal(found[0], length)
    return ""


def _stored(tape: Tape, facts: Sequence[Imported], *, now: int) -> dict[Key, Imported]:
    """What the tape has between the first and the last of these facts, by kind, symbol and moment."""
    spans: dict[tuple[type, str, int], tuple[int, int]] = {}
    for fact in facts:
        series = (type(fact), fact.symbol, fact.granularity_sec if isinstance(fact, Candle) else 0)
        first, last = spans.get(series, (fact.bucket_ts, fact.bucket_ts))
        spans[series] = min(first, fact.bucket_ts), max(last, fact.bucket_ts)
    view = View(now + DAY)
    found: dict[Key, Imported] = {}
    for (kind, symbol, length), (first, last) in spans.items():
        found |= {_key(fact): fact for fact in _series(tape, kind, view)(symbol, length, first, last)}
    return found


def _series(tape: Tape, kind: type, view: View) -> Callable[[str, int, int, int], Sequence[Imported]]:
    if kind is Candle:
        return lambda symbol, length, first, last: tape.candles(
            symbol, granularity_sec=length, since=first, until=last, view=view
        )
    if kind is Mid:
        return lambda symbol, _, first, last: tape.mids(symbol, since=first, until=last, view=view)
    return lambda symbol, _, first, last: tape.facts(FundingRate, symbol, since=first, view=view)


def _key(fact: Imported) -> Key:
    return type(fact), fact.symbol, fact.bucket_ts


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
