"""The session: everything the source knows, without any I/O.

It is told what happened, each time with the moment, and keeps what follows from it: facts and gaps in `outbox`,
requests in `errands`, subscriptions in `wanted_subscriptions`.

1. `learn_names` takes the names there are; from them follow subscriptions and polls.
2. `handle_frame` turns mids into facts at once, and candles into bars that wait until they are final.
3. `on_disconnected` remembers since when a connection's candles may be missing; when a subscription stands again,
   its range becomes a request.
4. `tick` makes bars final by the clock, queues the polls that are due, gives up those too late.
5. `handle_answer` and `handle_refusal` end a request.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec

from tapebook.domain.market import Liquidity, dex_of, subject_of
from tapebook.domain.units import HOUR, floor_to_step
from tapebook.sources.hyperliquid import universe
from tapebook.sources.hyperliquid.books import BookPoll
from tapebook.sources.hyperliquid.contexts import ContextPoll, FundingPoll
from tapebook.sources.hyperliquid.gaps import NO_FRAME, NOT_RUNNING, Cadence, Outbox, channel_of, printable
from tapebook.sources.hyperliquid.prices import MIDS_BUCKET_MS, CandleRepairs, MidStream
from tapebook.sources.hyperliquid.rest import Poll, RestQueue, RestRequest, SourceTime
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import ListedNames, ListingRecords, Subscription
from tapebook.sources.hyperliquid.wire import (
    Ack,
    CandlesFrame,
    ErrorFrame,
    Frame,
    Malformed,
    MidsFrame,
    read_meta,
    read_spot_meta,
    read_spot_tokens,
    symbols_of_damaged_frame,
)

# Of the names in one frame that have no price.
_MOST_NAMED = 20

UNKNOWN_NAME = "unknown"
"""The kind of problem of a name that is asked for and that the exchange does not list."""

PUNCTUAL_MS = MIDS_BUCKET_MS * 3 // 2
"""Two frames of mids at most this far apart belong to one unbroken stream."""


class _DexMids(msgspec.Struct):
    """The mids of one dex."""

    mids: MidStream
    cadence: Cadence
    trouble: str = NOT_RUNNING
    last_at: int | None = None
    symbols: tuple[str, ...] = ()


class HyperliquidSession:
    """The state of the source."""

    def __init__(
        self,
        settings: HyperliquidSourceSettings,
        *,
        resume: Mapping[str, int],
        at: int,
        books: Mapping[str, Liquidity] = MappingProxyType({}),
        listed: Collection[str] = (),
    ) -> None:
        self.outbox = Outbox()
        self._listings = ListingRecords(listed)
        self.errands = RestQueue()
        self.names = ListedNames(settings)
        self._settings = settings

        def newest(channel: str) -> dict[str, int | None]:
            return {dex: resume.get(channel_of(channel, dex)) for dex in ("", *settings.dexes)}

        self._streams = {dex: self._new_stream(dex, bucket) for dex, bucket in newest("mids").items()}
        self._repairs = CandleRepairs(settings, self.outbox, self.errands)
        self._contexts = ContextPoll(settings, self.outbox, self.errands, names=self.names, listings=self._listings)
        self._books = BookPoll(settings, self.outbox, self.errands, names=self.names)
        self._funding = FundingPoll(settings, self.outbox, self.errands, names=self.names)
        self._spots = Poll(settings.spot_names_every_ms, newest=at)
        # What the settings ask for in vain is said at the start and once an hour, for as long as it is so.
        self._reminders = Poll(HOUR, newest=at)
        self._repairs.resume(newest("candles"), alive=newest("mids"), at=at)
        self._contexts.resume(newest("contexts"))
        self._books.resume(resume.get("books"), kept=books, at=at)
        self._funding.resume(newest("funding"), at=at)

    def wanted_subscriptions(self) -> list[Subscription]:
        """The subscriptions that follow from the names known now."""
        return universe.wanted_subscriptions(self._settings, self.names.watched)

    def name_requests(self) -> list[RestRequest]:
        """The questions that come before all others: which names there are."""
        names = [RestRequest("names", dex, 0) for dex in ("", *self._settings.dexes)]
        return [*names, RestRequest("spots", "", 0)] if self._settings.spot else names

    def learn_names(self, errand: RestRequest, body: bytes, *, at: int) -> bool:
        """Takes the names of a dex or the spot pairs; False when they cannot be read."""
        version = self.names.version
        if errand.kind == "spots":
            pairs = read_spot_meta(body)
            if isinstance(pairs, Malformed):
                self.outbox.add_malformed([pairs])
                return False
            self.outbox.add_malformed(pairs.problems)
            spots = [pair.name for pair in pairs.good_rows()]
            self.names.learn_spots(spots)
            self.outbox.add_kinds(dict.fromkeys(spots, "spot"))
            watched = self.names.watched.candles
            self.outbox.add_facts(
                self._listings.of_spots(pairs.good_rows(), read_spot_tokens(body), watched=watched, at=at)
            )
        else:
            perps = read_meta(body)
            if isinstance(perps, Malformed):
                self.outbox.add_malformed([perps])
                return False
            self.outbox.add_malformed(perps.problems)
            self.names.learn_perps(errand.subject, perps.universe)
            self.outbox.add_facts(self._listings.of_perps(errand.subject, perps.universe, at=at))
        self._follow_names(version, at)
        return True

    def _follow_names(self, version: int, at: int) -> None:
        """Follows the names when they have changed."""
        if version != self.names.version:
            self._repairs.follow_symbols(self.names.watched.candles, at=at)
            for stream in self._streams.values():
                stream.mids.forget_names()
            self._name_unknown()

    def _name_unknown(self) -> None:
        """Says what is asked for and not listed; symbols once all lists are there they could be in."""
        empty, unknown = self.names.missing_names()
        for dex in empty:
            self.outbox.add_problem(
                UNKNOWN_NAME, f"{dex or 'the exchange'} lists no perp that can be watched", subject=dex
            )
        for name in unknown:
            self.outbox.add_problem(UNKNOWN_NAME, f"the exchange lists no {name}", subject=name)

    def handle_frame(self, frame: Frame, at: int) -> None:
        """Something a socket received."""
        if isinstance(frame, CandlesFrame):
            self._repairs.add_frame(frame.candles, at=at)
        elif isinstance(frame, MidsFrame):
            self._handle_mids(frame, at)
        elif isinstance(frame, Ack):
            self._handle_ack(frame, at)
        elif isinstance(frame, ErrorFrame):
            self.outbox.add_problem("complaint", frame.text)

    def on_damaged_frame(self, found: Malformed, held: Sequence[Subscription], *, at: int) -> None:
        """A connection with these subscriptions brought something that cannot be read."""
        self.outbox.add_malformed([found])
        carried = [one.name for one in held if one.channel == "candles"]
        self._repairs.on_damaged_frame(symbols_of_damaged_frame(found, carried), at=at)

    def on_disconnected(self, held: Sequence[Subscription], *, since: int, reason: str) -> None:
        """A connection with these subscriptions is gone, and was last heard at `since`."""
        self.outbox.add_problem("connection", reason)
        carried = [one.name for one in held if one.channel == "candles"]
        self._repairs.on_disconnected(carried, since=since, reason=printable(reason))
        for one in held:
            if one.channel == "mids":
                self._streams[one.name].trouble = printable(reason)

    def tick(self, now: SourceTime) -> None:
        """Time has passed."""
        self._repairs.tick(now.at)
        for errand in self.errands.remove_expired(now.at):
            self._on_expired(errand)
        self._contexts.tick(now.at)
        self._books.tick(now.at)
        self._funding.tick(now.at)
        if self._settings.spot and (bucket := self._spots.due_bucket(now.at)) is not None:
            self.errands.add(RestRequest("spots", "", bucket))
        if self._reminders.due_bucket(now.at) is not None:
            self._name_unknown()

    def handle_answer(self, errand: RestRequest, body: bytes, *, asked_at: int, now: SourceTime) -> None:
        """REST has answered; what cannot be read is asked for again."""
        if not self._read_answer(errand, body, asked_at=asked_at, now=now):
            self.handle_refusal(errand, "an answer that cannot be read", now=now)

    def handle_refusal(
        self, errand: RestRequest, why: str, *, now: SourceTime, limited: bool = False, wait_s: float = 0.0
    ) -> None:
        """REST has not answered: the errand waits and comes back."""
        self.outbox.add_problem(
            "limited" if limited else "refused",
            f"{errand.kind} {errand.subject}: {why}".strip(),
            subject=f"{errand.kind} {errand.subject}".strip(),
        )
        if errand.kind == "candles":
            self._repairs.on_refused(errand)
        elif errand.kind == "books":
            self._books.trouble = printable(why)
        elif errand.kind == "contexts":
            self._contexts.trouble = printable(why)
        if errand.expires is not None and now.at >= errand.expires:
            self._on_expired(errand)
        else:
            self.errands.retry_later(errand, now.elapsed, limited=limited, wait_s=wait_s)

    def _on_expired(self, errand: RestRequest) -> None:
        if errand.kind == "books":
            self._books.on_expired(errand)

    def _read_answer(self, errand: RestRequest, body: bytes, *, asked_at: int, now: SourceTime) -> bool:
        if errand.kind == "candles":
            return self._repairs.handle_answer(errand, body, now)
        if errand.kind in ("books", "looks"):
            return self._books.handle_answer(errand, body, asked_at=asked_at)
        if errand.kind == "funding":
            return self._funding.handle_answer(errand, body, now)
        if errand.kind in ("names", "spots"):
            return self.learn_names(errand, body, at=now.at)
        version = self.names.version
        read = self._contexts.handle_answer(errand, body, asked_at=asked_at)
        self._follow_names(version, now.at)
        return read

    def _handle_mids(self, frame: MidsFrame, at: int) -> None:
        dex = frame.dex or dex_of(next(iter(frame.symbols), ""))
        stream = self._streams.get(dex)
        if stream is None:
            return
        for name in frame.bad[:_MOST_NAMED]:
            self.outbox.add_problem("malformed", f"no price of {name} among the mids", subject=name)
        if mids := stream.mids.mids_of_frame(frame, at=at):
            # Frames that drift over a bucket's edge leave it empty without an outage; one that stayed away does not.
            punctual = stream.last_at is not None and at - stream.last_at <= PUNCTUAL_MS
            stream.last_at = at
            # Between two changes of the names, frames share one tuple of them.
            if mids.symbols is not stream.symbols:
                stream.symbols = mids.symbols
                sides = [name for name in mids.symbols if name.startswith("#")]
                self.outbox.add_facts(self._listings.of_stream(sides, at=at))
            self.outbox.add_facts(
                [mids],
                stream.cadence.record_bucket(floor_to_step(at, MIDS_BUCKET_MS), stream.trouble, punctual=punctual),
            )
            stream.trouble = NO_FRAME

    def _handle_ack(self, ack: Ack, at: int) -> None:
        if ack.method == "subscribe" and ack.kind == "candle":
            self._repairs.on_subscribed(ack.coin, at=at)
        elif ack.method == "refuse":
            self.outbox.add_problem("complaint", f"the exchange refuses {ack.kind} of {ack.coin or 'all'}")

    def _new_stream(self, dex: str, newest: int | None) -> _DexMids:
        cadence = Cadence("mids", subject_of(dex), step=MIDS_BUCKET_MS, slack=1)
        cadence.resume(newest)
        return _DexMids(MidStream(dex, wanted=self.names.has_mid, newest=newest), cadence)
