"""What a commit writes: facts by family, as the rows of their tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, repeat
from typing import cast

import msgspec

from tapebook.db import Row
from tapebook.domain.market import Delisting, FeatureRow, Mid, MidFrame, Observation
from tapebook.tape.families import MIDS, OF_FEATURE, OF_TYPE, Family

KnownAt = Callable[[Observation], int]


class Place(msgspec.Struct, frozen=True):
    """Where a commit stands: its sequence number, its time, and the rule for imported rows."""

    seq: int
    known_at: int
    assumed: KnownAt | None


def rows_of(
    family: Family, facts: Sequence[Observation | MidFrame], ids: Mapping[str, int], place: Place
) -> list[Row]:
    """The values in the order of the family's insert: place, the fact's own fields, revision, times."""
    if family is MIDS:
        return [row for fact in facts for row in _mid_rows(fact, ids, place)]
    singles = cast("Sequence[Observation]", facts)
    own, values, seq = family.own, msgspec.structs.astuple, place.seq
    known_at = map(place.assumed, singles) if place.assumed else repeat(place.known_at)
    return [
        (chunk, ids[fact.symbol], *values(fact)[own], 0, known, seq)
        for fact, chunk, known in zip(singles, family.chunks(singles), known_at, strict=False)
    ]


def _mid_rows(fact: Observation | MidFrame, ids: Mapping[str, int], place: Place) -> Iterable[Row]:
    """A frame of midpoints column by column; one that came alone is a frame of one."""
    if isinstance(fact, Mid):
        fact = MidFrame(fact.bucket_ts, (fact.symbol,), (fact.price_e8,))
    frame = cast("MidFrame", fact)
    chunk, numbers = repeat(MIDS.chunk(frame.bucket_ts)), map(ids.__getitem__, frame.symbols)
    known_at = map(place.assumed, frame) if place.assumed else repeat(place.known_at)
    buckets, revisions, seqs = repeat(frame.bucket_ts), repeat(0), repeat(place.seq)
    return zip(chunk, numbers, buckets, frame.prices_e8, revisions, known_at, seqs, strict=False)


def symbols_of(facts: Iterable[Observation | MidFrame]) -> set[str]:
    """Every symbol the facts are about."""
    named = (fact.symbols if isinstance(fact, MidFrame) else (fact.symbol,) for fact in facts)
    return {symbol for symbols in named for symbol in symbols}


def by_family(observations: Iterable[Observation | MidFrame]) -> list[tuple[Family, list[Observation | MidFrame]]]:
    """Facts grouped by family, in a fixed order; within a family as they came. A delisting belongs to none."""
    groups: dict[Family, list[Observation | MidFrame]] = {}
    for kind, facts in groupby(observations, type):
        if kind is FeatureRow:
            for fact in facts:
                groups.setdefault(OF_FEATURE[cast("FeatureRow", fact).family], []).append(fact)
        elif kind is MidFrame:
            # An empty one says nothing, not even that its bucket was reached.
            groups.setdefault(MIDS, []).extend(frame for frame in facts if len(cast("MidFrame", frame)))
        elif kind is not Delisting:
            groups.setdefault(OF_TYPE[kind], []).extend(facts)
    return sorted(groups.items(), key=lambda group: group[0].table)
