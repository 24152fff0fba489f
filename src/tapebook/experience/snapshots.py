"""What a stretch of time achieved: taken at the end of each chunk of a backtest, or whenever somebody asks.

A snapshot is the difference between two versions of the records, so it needs no second count.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Literal

import msgspec

from tapebook.domain.estimate import Estimate
from tapebook.domain.money import E6, decimal_text
from tapebook.experience.records import ALL, ASSET, PROVIDER, REGIME, Key, Record, gap_bps, merged

KEPT = 100
_SHOWN = (PROVIDER, REGIME, ASSET)


class Snapshot(msgspec.Struct, frozen=True):
    """The records of one chunk alone: of all trades, and by provider, regime and asset."""

    chunk: str
    started_at: int
    ended_at: int
    result: Record
    parts: tuple[Record, ...]

    @property
    def sharpe_e4(self) -> int:
        """Mean over deviation of a trade's result, not annualised; 0 below two trades."""
        spread = self.result.deviation_ppm
        return round(10_000 * self.result.total_ppm / self.result.n / spread) if spread else 0

    @property
    def net_usd(self) -> str:
        """What the chunk earned."""
        return decimal_text(self.result.usd_e6, E6, 2)


def snapshot_of(
    chunk: str, before: Mapping[Key, Record], after: Mapping[Key, Record], *, started_at: int, ended_at: int
) -> Snapshot:
    """What came in between two states of the records."""
    gained = [_gained(record, before) for key, record in sorted(after.items()) if key[0] in _SHOWN]
    result = _gained(after.get((ALL, ""), Record(ALL, "")), before)
    return Snapshot(chunk, started_at, ended_at, result, tuple(record for record in gained if record.n))


def trajectory(snapshots: Sequence[Snapshot], kind: str = PROVIDER) -> dict[str, list[tuple[str, Record]]]:
    """How each provider (or regime, or asset) did from chunk to chunk, oldest first; chunks without it are left out."""
    lines: dict[str, list[tuple[str, Record]]] = {}
    for snapshot in sorted(snapshots, key=lambda each: (each.ended_at, each.chunk)):
        for record in snapshot.parts:
            if record.kind == kind:
                lines.setdefault(record.name, []).append((snapshot.chunk, record))
    return lines


class Trend(msgspec.Struct, frozen=True):
    """How the newer half of some chunks compares with the older: the change of the mean result, and what it means."""

    direction: Literal["improving", "declining", "unclear"]
    change_bps: Estimate


def trend_of(chunks: Sequence[Record]) -> Trend | None:
    """The trend of one name's records, oldest chunk first; None below two chunks, or with too few trades.

    A change that its own interval does not tell from none is unclear, whatever the last chunk looks like.
    """
    half = len(chunks) // 2
    if not half:
        return None
    older, newer = (reduce(merged, part) for part in (chunks[:half], chunks[len(chunks) - half :]))
    change = gap_bps(newer, older)
    if change is None:
        return None
    if change.low > 0:
        return Trend("improving", change)
    return Trend("declining" if change.high < 0 else "unclear", change)


def _gained(record: Record, before: Mapping[Key, Record]) -> Record:
    return merged(record, before.get(record.key, Record(*record.key)), sign=-1)
