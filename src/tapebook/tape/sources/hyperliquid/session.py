"""The session: everything the source knows, without any I/O.

It is told what happened, each time with the moment, and keeps what follows from it: facts and
gaps in `outbox`, questions in `errands`, subscriptions in `wanted`.

1. `learn` takes the names there are; from them follow subscriptions and polls.
2. `frame` turns mids into facts at once, and candles into bars that wait until they are final.
3. `lost` remembers since when a connection's candles may be missing; when a subscription stands
   again, its range becomes an errand.
4. `tick` makes bars final by the clock, queues the polls that are due, gives up those too late.
5. `answered` and `refused` end an errand.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from tapebook.domain.instants import HOUR, floor
from tapebook.domain.market import Liquidity
from tapebook.tape.sources.hyperliquid import subscriptions
from tapebook.tape.sources.hyperliquid.answers import read_meta, read_spot_meta
from tapebook.tape.sources.hyperliquid.book_poll import BookPoll
from tapebook.tape.sources.hyperliquid.context_poll import ContextPoll
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands
from tapebook.tape.sources.hyperliquid.funding_poll import FundingPoll
from tapebook.tape.sources.hyperliquid.gaps import NO_FRAME, NOT_RUNNING, Cadence, channel_of, subject_of
from tapebook.tape.sources.hyperliquid.mids import BUCKET, Mids
from tapebook.tape.sources.hyperliquid.outbox import Outbox, printable
from tapebook.tape.sources.hyperliquid.polls import Moment, Poll
from tapebook.tape.sources.hyperliquid.repairs import Repairs
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.subscriptions import Subscription
from tapebook.tape.sources.hyperliquid.universe import Names, dex_of
from tapebook.tape.sources.hyperliquid.wire import (
    Ack,
    CandlesFrame,
    ErrorFrame,
    Frame,
    Malformed,
    MidsFrame,
    damaged_candles,
)

# Of the names in one frame that have no price.
_MOST_NAMED = 20

UNKNOWN = "unknown"
"""The kind of problem of a name that is asked for and that the exchange does not list."""

PUNCTUAL_MS = BUCKET * 3 // 2
"""Two frames of mids at most this far apart belong to one unbroken stream."""


class _Stream(msgspec.Struct):
    """The mids of one dex."""

    mids: Mids
    cadence: Cadence
    trouble: str = NOT_RUNNING
    last_at: int | None = None


class Session:
    """The state of the source."""

    def __init__(
        self,
        settings: HyperliquidSettings,
        *,
        resume: Mapping[str, int],
        at: int,
        books: Mapping[str, Liquidity] = MappingProxyType({}),
    ) -> None:
        self.outbox = Outbox()
        self.errands = Errands()
        self.names = Names(settings)
        self._settings = settings

        def newest(channel: str) -> dict[str, int | None]:
            return {dex: resume.get(channel_of(channel, dex)) for dex in ("", *settings.dexes)}

        self._streams = {dex: self._stream(dex, bucket) for dex, bucket in newest("mids").items()}
        self._repairs = Repairs(settings, self.outbox, self.errands)
        self._contexts = ContextPoll(settings, self.outbox, self.errands, names=self.names)
        self._books = BookPoll(settings, self.outbox, self.errands, names=self.names)
        self._funding = FundingPoll(settings, self.outbox, self.errands, names=self.names)
        self._spots = Poll(settings.spot_names_every_ms, newest=at)
        # What the settings ask for in vain is said at the start and once an hour, for as long as it is so.
        self._reminders = Poll(HOUR, newest=at)
        self._repairs.resume(newest("candles"), alive=newest("mids"), at=at)
        self._contexts.resume(newest("contexts"))
        self._books.resume(resume.get("books"), kept=books, at=at)
        self._funding.resume(newest("funding"), at=at)

    def wanted(self) -> list[Subscription]:
        """The subscriptions that follow from the names known now."""
        return subscriptions.wanted(self._settings, self.names.watched)

    def first(self) -> list[Errand]:
        """The questions that come before all others: which names there are."""
        names = [Errand("names", dex, 0) for dex in ("", *self._settings.dexes)]
        return [*names, Errand("spots", "", 0)] if self._settings.spot else names

    def learn(self, errand: Errand, body: bytes, *, at: int) -> bool:
        """Takes the names of a dex or the spot pairs; False when they cannot be read."""
        version = self.names.version
        if errand.kind == "spots":
            pairs = read_spot_meta(body)
            if isinstance(pairs, Malformed):
                self.outbox.malformed([pairs])
                return False
            self.outbox.malformed(pairs.problems)
            self.names.learn_spots(pair.name for pair in pairs.good())
        else:
            perps = read_meta(body)
            if isinstance(perps, Malformed):
                self.outbox.malformed([perps])
                return False
            self.outbox.malformed(perps.problems)
            self.names.learn_perps(errand.subject, perps.universe)
        self._relearn(version, at)
        return True

    def _relearn(self, version: int, at: int) -> None:
        """Follows the names when they have changed."""
        if version != self.names.version:
            self._repairs.follow(self.names.watched.candles, at=at)
            for stream in self._streams.values():
                stream.mids.forget()
            self._name_unknown()

    def _name_unknown(self) -> None:
        """Says what is asked for and not listed; symbols once all lists are there they could be in."""
        empty, unknown = self.names.missing()
        for dex in empty:
            self.outbox.problem(UNKNOWN, f"{dex or 'the exchange'} lists no perp that can be watched", subject=dex)
        for name in unknown:
            self.outbox.problem(UNKNOWN, f"the exchange lists no {name}", subject=name)

    def frame(self, frame: Frame, at: int) -> None:
        """Something a socket received."""
        if isinstance(frame, CandlesFrame):
            self._repairs.frame(frame.candles, at=at)
        elif isinstance(frame, MidsFrame):
            self._mids(frame, at)
        elif isinstance(frame, Ack):
            self._ack(frame, at)
        elif isinstance(frame, ErrorFrame):
            self.outbox.problem("complaint", frame.text)

    def damaged(self, found: Malformed, held: Sequence[Subscription], *, at: int) -> None:
        """A connection with these subscriptions brought something that cannot be read."""
        self.outbox.malformed([found])
        carried = [one.name for one in held if one.channel == "candles"]
        self._repairs.damaged(damaged_candles(found, carried), at=at)

    def lost(self, held: Sequence[Subscription], *, since: int, reason: str) -> None:
        """A connection with these subscriptions is gone, and was last heard at `since`."""
        self.outbox.problem("connection", reason)
        carried = [one.name for one in held if one.channel == "candles"]
        self._repairs.lost(carried, since=since, reason=printable(reason))
        for one in held:
            if one.channel == "mids":
                self._streams[one.name].trouble = printable(reason)

    def tick(self, now: Moment) -> None:
        """Time has passed."""
        self._repairs.tick(now.at)
        for errand in self.errands.expired(now.at):
            self._expired(errand)
        self._contexts.tick(now.at)
        self._books.tick(now.at)
        self._funding.tick(now.at)
        if self._settings.spot and (bucket := self._spots.due(now.at)) is not None:
            self.errands.add(Errand("spots", "", bucket))
        if self._reminders.due(now.at) is not None:
            self._name_unknown()

    def answered(self, errand: Errand, body: bytes, *, asked_at: int, now: Moment) -> None:
        """REST has answered; what cannot be read is asked for again."""
        if not self._read(errand, body, asked_at=asked_at, now=now):
            self.refused(errand, "an answer that cannot be read", now=now)

    def refused(self, errand: Errand, why: str, *, now: Moment, limited: bool = False, wait_s: float = 0.0) -> None:
        """REST has not answered: the errand waits and comes back."""
        self.outbox.problem(
            "limited" if limited else "refused",
            f"{errand.kind} {errand.subject}: {why}".strip(),
            subject=f"{errand.kind} {errand.subject}".strip(),
        )
        if errand.kind == "candles":
            self._repairs.refused(errand)
        elif errand.kind == "books":
            self._books.trouble = printable(why)
        elif errand.kind == "contexts":
            self._contexts.trouble = printable(why)
        if errand.expires is not None and now.at >= errand.expires:
            self._expired(errand)
        else:
            self.errands.refused(errand, now.elapsed, limited=limited, wait_s=wait_s)

    def _expired(self, errand: Errand) -> None:
        if errand.kind == "books":
            self._books.expired(errand)

    def _read(self, errand: Errand, body: bytes, *, asked_at: int, now: Moment) -> bool:
        if errand.kind == "candles":
            return self._repairs.answered(errand, body, now)
        if errand.kind in ("books", "looks"):
            return self._books.answered(errand, body, asked_at=asked_at)
        if errand.kind == "funding":
            return self._funding.answered(errand, body, now)
        if errand.kind in ("names", "spots"):
            return self.learn(errand, body, at=now.at)
        version = self.names.version
        read = self._contexts.answered(errand, body, asked_at=asked_at)
        self._relearn(version, now.at)
        return read

    def _mids(self, frame: MidsFrame, at: int) -> None:
        dex = frame.dex or dex_of(next(iter(frame.prices_e8), ""))
        stream = self._streams.get(dex)
        if stream is None:
            return
        for name in frame.bad[:_MOST_NAMED]:
            self.outbox.problem("malformed", f"no price of {name} among the mids", subject=name)
        if mids := stream.mids.frame(frame, at=at):
            # Frames that drift over a bucket's edge leave it empty without an outage; one that stayed away does not.
            punctual = stream.last_at is not None and at - stream.last_at <= PUNCTUAL_MS
            stream.last_at = at
            self.outbox.put([mids], stream.cadence.seen(floor(at, BUCKET), stream.trouble, punctual=punctual))
            stream.trouble = NO_FRAME

    def _ack(self, ack: Ack, at: int) -> None:
        if ack.method == "subscribe" and ack.kind == "candle":
            self._repairs.stands(ack.coin, at=at)
        elif ack.method == "refuse":
            self.outbox.problem("complaint", f"the exchange refuses {ack.kind} of {ack.coin or 'all'}")

    def _stream(self, dex: str, newest: int | None) -> _Stream:
        cadence = Cadence("mids", subject_of(dex), step=BUCKET, slack=1)
        cadence.resume(newest)
        return _Stream(Mids(dex, wanted=self.names.has_mid, newest=newest), cadence)
