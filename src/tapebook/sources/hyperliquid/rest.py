"""Requests to REST: what is due when, the queue, the rate limits, and the one function that posts.

The exchange allows an address 1,200 weight a minute over REST, 2,000 messages a minute over all sockets, 30 new
connections a minute. Every window of the span is kept, not only those that begin on the minute, so it does not
matter where the exchange's own windows begin.

Polls go before repairs: a poll is worth nothing once its bucket is over, a repair loses nothing by waiting. Looks at
books between two polls come last. A refused request comes back after 5 seconds, then after 20, then more rarely; a
refusal for asking too much holds up all of them. Ranges of one key become one request. All but `post_request` is
pure: times are arguments.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw

from tapebook.domain.units import HOUR, MINUTE, floor_to_step

if TYPE_CHECKING:
    from aiohttp import ClientSession


# The exchange's limits for one address, as it documents them.
REST_WEIGHT_PER_MINUTE = 1_200
MESSAGES_PER_MINUTE = 2_000
MESSAGES_PER_SECOND = 30
CONNECTIONS_PER_MINUTE = 30


class RateLimit:
    """At most `limit` within any `span_s` seconds."""

    def __init__(self, limit: float, *, span_s: float = 60.0) -> None:
        self._limit = limit
        self._span = span_s
        self._spent: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def delay_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` may be spent; 0 when it may be spent now, infinite when it never may."""
        self._forget(now)
        if amount > self._limit:
            return math.inf
        over = self._sum + amount - self._limit
        for at, spent in self._spent:
            if over <= 0:
                break
            over -= spent
            if over <= 0:
                return at + self._span - now
        return 0.0

    def spend(self, amount: float, now: float) -> None:
        """Takes note of what was sent."""
        self._spent.append((now, amount))
        self._sum += amount

    def spent_in_window(self, now: float) -> float:
        """What the window up to now holds."""
        self._forget(now)
        return self._sum

    def _forget(self, now: float) -> None:
        while self._spent and self._spent[0][0] + self._span <= now:
            self._sum -= self._spent.popleft()[1]


class RateLimits:
    """Several windows that all must allow."""

    def __init__(self, *windows: RateLimit) -> None:
        self._windows = windows

    def delay_s(self, amount: float, now: float) -> float:
        """Seconds until all of them allow it."""
        return max((window.delay_s(amount, now) for window in self._windows), default=0.0)

    def spend(self, amount: float, now: float) -> None:
        """Takes note of what was sent."""
        for window in self._windows:
            window.spend(amount, now)


def rest_weight(share: float) -> int:
    """A share of the weight that an address has in a minute."""
    return math.floor(REST_WEIGHT_PER_MINUTE * share)


def rest_budget(share: float) -> RateLimit:
    """The weight this source may use of what the address has."""
    return RateLimit(rest_weight(share))


def message_budget(*, stepped: bool = False) -> RateLimits:
    """Messages over all sockets; none is counted when a step of market time takes no time on the wire."""
    return (
        RateLimits()
        if stepped
        else RateLimits(RateLimit(MESSAGES_PER_MINUTE), RateLimit(MESSAGES_PER_SECOND, span_s=1.0))
    )


def connection_budget() -> RateLimit:
    """New connections."""
    return RateLimit(CONNECTIONS_PER_MINUTE)


class SourceTime(msgspec.Struct, frozen=True):
    """Market time, and the seconds by which backoffs and budgets are counted."""

    at: int
    elapsed: float


class Poll:
    """Something asked once in every bucket of `every`, `delay` after the bucket has begun."""

    def __init__(self, every: int, *, delay: int = 0, newest: int | None = None) -> None:
        self.every = every
        self.delay = delay
        self._newest = None if newest is None else floor_to_step(newest, every)

    def due_bucket(self, at: int) -> int | None:
        """The bucket to ask for, once; None when it has been asked for."""
        bucket = floor_to_step(at - self.delay, self.every)
        if self._newest is not None and bucket <= self._newest:
            return None
        self._newest = bucket
        return bucket

    def ends_at(self, bucket: int) -> int:
        """When asking for a bucket makes no sense any more: the next one is due."""
        return bucket + self.every + self.delay


RequestKind = Literal["names", "spots", "contexts", "predicted", "books", "candles", "funding", "looks"]

_ORDER: tuple[RequestKind, ...] = ("names", "spots", "contexts", "predicted", "books", "candles", "funding", "looks")
# Growing pauses: an exchange in trouble is not helped by being asked often.
_BACKOFF_S = (5.0, 20.0, 60.0, 300.0)
# Questions that show one moment come again with the next poll; only ranges are asked for until they are answered.
RANGE_KINDS: frozenset[RequestKind] = frozenset(("candles", "funding"))


class RestRequest(msgspec.Struct, frozen=True):
    """One question: about a dex or a symbol, from a time on."""

    kind: RequestKind
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
    def key(self) -> tuple[RequestKind, str]:
        """What makes two errands one."""
        return self.kind, self.subject


class EncodedRequest(msgspec.Struct, frozen=True):
    """What is posted, and what it weighs."""

    body: bytes
    weight: int


def encode_request(errand: RestRequest, *, now: int) -> EncodedRequest:
    """The question as the exchange wants it, with the weight of the longest answer it can get."""
    body, weight = _BODIES[errand.kind](errand, now)
    return EncodedRequest(msgspec.json.encode(body), weight)


def _names_body(errand: RestRequest, now: int) -> tuple[dict[str, object], int]:
    return {"type": "meta", **({"dex": errand.subject} if errand.subject else {})}, 20


def _contexts_body(errand: RestRequest, now: int) -> tuple[dict[str, object], int]:
    return {"type": "metaAndAssetCtxs", **({"dex": errand.subject} if errand.subject else {})}, 20


def _book_body(errand: RestRequest, now: int) -> tuple[dict[str, object], int]:
    return {"type": "l2Book", "coin": errand.subject, "nSigFigs": errand.figures or None, "mantissa": None}, 2


def _candles_body(errand: RestRequest, now: int) -> tuple[dict[str, object], int]:
    until = max(errand.until or now, errand.since)
    rows = min(5_000, (until - errand.since) // MINUTE + 1)
    asked = {"coin": errand.subject, "interval": "1m", "startTime": errand.since, "endTime": until}
    return {"type": "candleSnapshot", "req": asked}, 20 + -(-rows // 60)


def _funding_body(errand: RestRequest, now: int) -> tuple[dict[str, object], int]:
    rows = min(500, max(0, now - errand.since) // HOUR + 1)
    return {"type": "fundingHistory", "coin": errand.subject, "startTime": errand.since}, 20 + -(-rows // 20)


_BODIES: dict[RequestKind, Callable[[RestRequest, int], tuple[dict[str, object], int]]] = {
    "names": _names_body,
    "spots": lambda errand, now: ({"type": "spotMeta"}, 20),
    "contexts": _contexts_body,
    "predicted": lambda errand, now: ({"type": "predictedFundings"}, 20),
    "books": _book_body,
    "looks": _book_body,
    "candles": _candles_body,
    "funding": _funding_body,
}


class RestQueue:
    """The queue."""

    def __init__(self) -> None:
        self._queues: dict[RequestKind, dict[tuple[RequestKind, str], RestRequest]] = {kind: {} for kind in _ORDER}
        self._held_until = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, errand: RestRequest) -> None:
        """Queues an errand. Ranges of the same key become one; of two polls the later one counts."""
        queue = self._queues[errand.kind]
        waiting = queue.get(errand.key)
        if waiting is not None and errand.kind not in RANGE_KINDS and waiting.since > errand.since:
            return
        if waiting is not None and errand.kind in RANGE_KINDS:
            until = max(waiting.until, errand.until) if waiting.until and errand.until else 0
            errand = msgspec.structs.replace(errand, since=min(waiting.since, errand.since), until=until)
        queue[errand.key] = errand

    def remove(self, subject: str, kind: RequestKind) -> RestRequest | None:
        """Takes out what was to be asked about a symbol."""
        return self._queues[kind].pop((kind, subject), None)

    def remove_expired(self, now: int) -> list[RestRequest]:
        """Takes out the errands whose time is over."""
        gone = [one for one in self._in_order() if one.expires is not None and now >= one.expires]
        for one in gone:
            del self._queues[one.kind][one.key]
        return gone

    def take_ready(self, elapsed: float, affordable: Callable[[RestRequest], bool]) -> RestRequest | None:
        """The most urgent errand whose turn it is, if its weight can be afforded; a cheaper one does not overtake."""
        if elapsed < self._held_until:
            return None
        ready = next((one for one in self._in_order() if one.not_before <= elapsed), None)
        if ready is None or not affordable(ready):
            return None
        return self._queues[ready.kind].pop(ready.key)

    def retry_later(self, errand: RestRequest, elapsed: float, *, limited: bool = False, wait_s: float = 0.0) -> None:
        """Puts an errand back for later; when too much was asked, all wait, and as long as they are told to."""
        pause = _BACKOFF_S[min(errand.tries, len(_BACKOFF_S) - 1)]
        if limited:
            self._held_until = max(self._held_until, elapsed + (wait_s or min(pause, _BACKOFF_S[1])))
            pause = 0.0
        self.add(msgspec.structs.replace(errand, tries=errand.tries + 1, not_before=elapsed + pause))

    def _in_order(self) -> Iterator[RestRequest]:
        for kind in _ORDER:
            yield from self._queues[kind].values()


ANSWER_CHANNEL = "info"
MOST_WAIT_S = 120.0
"""However long the exchange says to wait, it is asked again after this."""

_TOO_MANY = 429
_whole = msgspec.json.Decoder(Raw)


class RestRefusal(msgspec.Struct, frozen=True):
    """Why there is no answer; `limited` when this address has asked too much, and how long it is told to wait."""

    why: str
    limited: bool = False
    wait_s: float = 0.0


class RecordedExchange(msgspec.Struct, frozen=True):
    """A question, when it was asked, and its answer."""

    asked_at: int
    request: Raw
    answer: Raw


async def post_request(
    http: "ClientSession", url: str, request: EncodedRequest, *, timeout_s: float
) -> bytes | RestRefusal:
    """Posts a question. A busy, broken or silent server is a value, not an exception."""
    from aiohttp import ClientError  # importers of recordings read this module too, and never ask

    headers = {"Content-Type": "application/json"}
    try:
        async with asyncio.timeout(timeout_s), http.post(url, data=request.body, headers=headers) as response:
            body = await response.read()
    except TimeoutError:
        return RestRefusal(f"no answer within {timeout_s:g} s")
    except (ClientError, OSError) as error:
        return RestRefusal(f"{type(error).__name__}: {error}")
    if response.status == 200:
        return body
    reason = f"{response.status} {body[:100].decode(errors='replace')}"
    if response.status == _TOO_MANY:
        return RestRefusal(reason, limited=True, wait_s=_retry_after_s(response.headers.get("Retry-After", "")))
    return RestRefusal(reason)


def _retry_after_s(header: str) -> float:
    """The seconds to wait; 0 when none are named. A date is not read: whose clock it is by, nobody knows."""
    return min(float(header), MOST_WAIT_S) if header.isascii() and header.isdecimal() else 0.0


def answer_frame(request: EncodedRequest, answer: bytes, *, asked_at: int) -> bytes:
    """An answer as a frame for a recording, with its question."""
    try:
        shown = _whole.decode(answer)
    except msgspec.DecodeError:
        shown = Raw(msgspec.json.encode(answer.decode(errors="replace")))
    return msgspec.json.encode(
        {"channel": ANSWER_CHANNEL, "data": RecordedExchange(asked_at, Raw(request.body), shown)}
    )
