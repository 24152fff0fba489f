"""Errands: questions to REST that wait for their turn, their weight and the end of a backoff. Pure.

Polls go before repairs: a poll is worth nothing once its bucket is over, a repair loses nothing
by waiting. Looks at books between two polls come last: they are asked with what is left. A refused
errand comes back after 5 seconds, then after 20, then more rarely; a refusal for asking too much
holds up all of them. An errand that a later one of the same key replaces is merged with it, so that
a range asked for twice is asked for once and whole.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from tapebook.domain.instants import HOUR, MINUTE

Kind = Literal["names", "spots", "contexts", "predicted", "books", "candles", "funding", "looks"]

_ORDER: tuple[Kind, ...] = ("names", "spots", "contexts", "predicted", "books", "candles", "funding", "looks")
_BACKOFF_S = (5.0, 20.0, 60.0, 300.0)
# Questions that show one moment come again with the next poll; only ranges are asked for until they are answered.
RANGES: frozenset[Kind] = frozenset(("candles", "funding"))


class Errand(msgspec.Struct, frozen=True):
    """One question: about a dex or a symbol, from a time on."""

    kind: Kind
    subject: str
    since: int
    # How many significant figures of a book; 0 is full precision.
    figures: int = 0
    expires: int | None = None
    # The end of a range that is asked for a second time; 0 when it goes up to now.
    until: int = 0
    tries: int = 0
    not_before: float = 0.0

    @property
    def key(self) -> tuple[Kind, str]:
        """What makes two errands one."""
        return self.kind, self.subject


class Request(msgspec.Struct, frozen=True):
    """What is posted, and what it weighs."""

    body: bytes
    weight: int


def request_of(errand: Errand, *, now: int) -> Request:
    """The question as the exchange wants it, with the weight of the longest answer it can get."""
    body, weight = _QUESTIONS[errand.kind](errand, now)
    return Request(msgspec.json.encode(body), weight)


def _names(errand: Errand, now: int) -> tuple[dict[str, object], int]:
    return {"type": "meta", **({"dex": errand.subject} if errand.subject else {})}, 20


def _contexts(errand: Errand, now: int) -> tuple[dict[str, object], int]:
    return {"type": "metaAndAssetCtxs", **({"dex": errand.subject} if errand.subject else {})}, 20


def _book(errand: Errand, now: int) -> tuple[dict[str, object], int]:
    return {"type": "l2Book", "coin": errand.subject, "nSigFigs": errand.figures or None, "mantissa": None}, 2


def _candles(errand: Errand, now: int) -> tuple[dict[str, object], int]:
    until = max(errand.until or now, errand.since)
    rows = min(5_000, (until - errand.since) // MINUTE + 1)
    asked = {"coin": errand.subject, "interval": "1m", "startTime": errand.since, "endTime": until}
    return {"type": "candleSnapshot", "req": asked}, 20 + -(-rows // 60)


def _funding(errand: Errand, now: int) -> tuple[dict[str, object], int]:
    rows = min(500, max(0, now - errand.since) // HOUR + 1)
    return {"type": "fundingHistory", "coin": errand.subject, "startTime": errand.since}, 20 + -(-rows // 20)


_QUESTIONS: dict[Kind, Callable[[Errand, int], tuple[dict[str, object], int]]] = {
    "names": _names,
    "spots": lambda errand, now: ({"type": "spotMeta"}, 20),
    "contexts": _contexts,
    "predicted": lambda errand, now: ({"type": "predictedFundings"}, 20),
    "books": _book,
    "looks": _book,
    "candles": _candles,
    "funding": _funding,
}


class Errands:
    """The queue."""

    def __init__(self) -> None:
        self._queues: dict[Kind, dict[tuple[Kind, str], Errand]] = {kind: {} for kind in _ORDER}
        self._held_until = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, errand: Errand) -> None:
        """Queues an errand. Ranges of the same key become one; of two polls the later one counts."""
        queue = self._queues[errand.kind]
        waiting = queue.get(errand.key)
        if waiting is not None and errand.kind not in RANGES and waiting.since > errand.since:
            return
        if waiting is not None and errand.kind in RANGES:
            until = max(waiting.until, errand.until) if waiting.until and errand.until else 0
            errand = msgspec.structs.replace(errand, since=min(waiting.since, errand.since), until=until)
        queue[errand.key] = errand

    def drop(self, subject: str, kind: Kind) -> Errand | None:
        """Takes out what was to be asked about a symbol."""
        return self._queues[kind].pop((kind, subject), None)

    def expired(self, now: int) -> list[Errand]:
        """Takes out the errands whose time is over."""
        gone = [one for one in self._all() if one.expires is not None and now >= one.expires]
        for one in gone:
            del self._queues[one.kind][one.key]
        return gone

    def take(self, elapsed: float, affordable: Callable[[Errand], bool]) -> Errand | None:
        """The most urgent errand whose turn it is, if its weight can be afforded; a cheaper one does not overtake."""
        if elapsed < self._held_until:
            return None
        ready = next((one for one in self._all() if one.not_before <= elapsed), None)
        if ready is None or not affordable(ready):
            return None
        return self._queues[ready.kind].pop(ready.key)

    def refused(self, errand: Errand, elapsed: float, *, limited: bool = False, wait_s: float = 0.0) -> None:
        """Puts an errand back for later; when too much was asked, all wait, and as long as they are told to."""
        pause = _BACKOFF_S[min(errand.tries, len(_BACKOFF_S) - 1)]
        if limited:
            self._held_until = max(self._held_until, elapsed + (wait_s or min(pause, _BACKOFF_S[1])))
            pause = 0.0
        self.add(msgspec.structs.replace(errand, tries=errand.tries + 1, not_before=elapsed + pause))

    def _all(self) -> Iterator[Errand]:
        for kind in _ORDER:
            yield from self._queues[kind].values()
