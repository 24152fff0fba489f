"""The tape as a list: every fact that was ever said, with when and in which commit, filtered in plain Python."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation
from tapebook.tape.view import View

Fact = TypeVar("Fact", Mid, Candle, Liquidity, AssetContext, FundingRate)


class Said(msgspec.Struct, frozen=True):
    """One fact of one commit."""

    fact: Observation
    known_at: int
    seq: int


class NaiveTape:
    """Remembers everything and looks at all of it for every question."""

    def __init__(self) -> None:
        self.rows: list[Said] = []
        self.commits: list[tuple[int, int]] = []

    def commit(self, facts: Sequence[Observation], *, seq: int, known_at: int) -> int:
        """Remembers a commit; returns how many facts said something new."""
        new = 0
        for fact in facts:
            before = [row.fact for row in self.rows if _place(row.fact) == _place(fact)]
            new += not before or before[-1] != fact
            self.rows.append(Said(fact, known_at, seq))
        self.commits.append((seq, known_at))
        return new

    def newest(self, family: type[Fact], symbol: str, *, view: View) -> Fact | None:
        """The last word on the newest bucket that has begun."""
        begun = [fact for fact in self._last_words(family, symbol, view) if fact.bucket_ts <= view.as_of]
        return begun[-1] if begun else None

    def mids(self, symbol: str, *, since: int, until: int, view: View) -> list[Mid]:
        """The last word on each bucket between two moments."""
        return [mid for mid in self._last_words(Mid, symbol, view) if since <= mid.bucket_ts <= until]

    def candles(self, symbol: str, *, granularity_sec: int, since: int, view: View) -> list[Candle]:
        """The last word on each bar that has ended."""
        found = [bar for bar in self._last_words(Candle, symbol, view) if bar.granularity_sec == granularity_sec]
        return [bar for bar in found if bar.bucket_ts >= since and bar.end <= view.as_of]

    def _last_words(self, family: type[Fact], symbol: str, view: View) -> list[Fact]:
        known = (row.fact for row in self.rows if row.known_at <= view.as_of and row.seq <= view.watermark)
        return _by_bucket(fact for fact in known if isinstance(fact, family) and fact.symbol == symbol)


def _by_bucket(facts: Iterable[Fact]) -> list[Fact]:
    last = {_place(fact): fact for fact in facts}
    return [last[place] for place in sorted(last, key=lambda place: place[3])]


def _place(fact: Observation) -> tuple[type, str, int, int]:
    """What a fact is about."""
    return type(fact), fact.symbol, fact.granularity_sec if isinstance(fact, Candle) else 0, fact.bucket_ts
