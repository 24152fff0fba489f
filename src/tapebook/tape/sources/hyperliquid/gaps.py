"""Gaps: market time a channel said nothing about, with exact bounds. Pure.

What keeps a beat (mids, contexts, books) has a `Cadence`: a beat that comes too late names the
buckets before it. It is told the newest bucket the tape has, so the outage of a killed process is
named by the first beat after it; both are committed together, hence once.

What can be asked for again (candles, funding) has gaps only where the exchange had no answer:
`holes` finds them between the first and the last row of an answer.
"""

from collections.abc import Iterable
from itertools import pairwise

from tapebook.domain.instants import MINUTE, floor
from tapebook.domain.market import Gap

SOURCE = "hyperliquid"
EVERY_SUBJECT = "*"
NOT_RUNNING = "not running"
NO_ANSWER = "no answer"
NO_FRAME = "no frame"
NO_BAR = "the exchange has no bar"

# The exchange keeps this many bars of every interval.
KEPT_BARS = 5_000


class Cadence:
    """The beat of one channel: a bucket every `step`, of which `slack` in a row may be missing while it is punctual."""

    def __init__(self, channel: str, subject: str, *, step: int, slack: int = 0) -> None:
        self._channel = channel
        self._subject = subject
        self._step = step
        self._slack = slack
        self._newest: int | None = None

    def resume(self, newest: int | None) -> None:
        """Starts after the newest bucket the tape has."""
        self._newest = newest

    def seen(self, bucket: int, reason: str, *, punctual: bool = True) -> Gap | None:
        """A beat; gives the gap before it, if there is one. A beat that was not punctual excuses no empty bucket."""
        newest, self._newest = self._newest, bucket if self._newest is None else max(bucket, self._newest)
        # What the tape has may lie off the beat, when the beat was another one.
        expected = bucket if newest is None else floor(newest, self._step) + self._step
        if bucket - expected <= (self._slack if punctual else 0) * self._step:
            return None
        return Gap(SOURCE, self._channel, self._subject, expected, bucket, reason)


def subject_of(dex: str) -> str:
    """All of a dex: `*` for the main one, `xyz:*` for a builder dex."""
    return f"{dex}:{EVERY_SUBJECT}" if dex else EVERY_SUBJECT


def channel_of(channel: str, dex: str) -> str:
    """A channel of one dex: `mids` is that of the main one, `mids:xyz` that of a builder dex."""
    return f"{channel}:{dex}" if dex else channel


def holes(buckets: Iterable[int], *, step: int) -> list[tuple[int, int]]:
    """The missing ranges between the first and the last bucket: from the first missing one to the next there is."""
    there = sorted(set(buckets))
    return [(before + step, after) for before, after in pairwise(there) if after - before > step]


def beyond_keeping(since: int, now: int, *, dex: str = "") -> tuple[int, Gap | None]:
    """The first minute from `since` that the exchange still has, and the gap of a dex before it."""
    oldest = floor(now, MINUTE) - (KEPT_BARS - 1) * MINUTE
    if since >= oldest:
        return since, None
    return oldest, Gap(SOURCE, "candles", subject_of(dex), since, oldest, f"the exchange keeps {KEPT_BARS} bars")
