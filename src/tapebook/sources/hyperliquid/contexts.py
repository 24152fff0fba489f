"""Contexts and funding: answers as facts, and their polls. Pure.

A context has no time of its own: its bucket is the minute it was requested for. Delisted perps keep coming with
frozen prices: only live ones have contexts, and of the others that price is the one they were settled at. Each
venue's predicted rate belongs to that venue's own interval, and an interval that is not named stays unknown.

Contexts and predicted funding are polled every minute, which also brings the names that are listed now. Settled
funding is polled every hour from the newest rate known: that rate comes back too, so a missing hour shows as a hole
between two rows. An hour that is not published yet is requested again a little later.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeVar

import msgspec

from tapebook.domain.market import AssetContext, Delisting, FundingRate, PredictedFunding, dex_of, subject_of
from tapebook.domain.units import E12, HOUR, MINUTE, floor_to_step, to_units
from tapebook.sources.hyperliquid.gaps import NO_ANSWER, NOT_RUNNING, Cadence, Outbox, missing_ranges
from tapebook.sources.hyperliquid.rest import Poll, RestQueue, RestRequest, SourceTime
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import ListedNames, ListingRecords, full_name
from tapebook.sources.hyperliquid.wire import (
    ContextRow,
    FundingRow,
    Malformed,
    Perps,
    PredictedRow,
    VenueRow,
    describe_malformed,
    price_e8,
    read_contexts,
    read_funding,
    read_predicted,
)

Fact = TypeVar("Fact")
Source = TypeVar("Source")

# 1,000 times what is owed: no rate is that high, and larger numbers would not fit where rates are kept.
_MOST_E12 = 1_000 * E12
# Clocks differ a little.
_MOST_AHEAD = MINUTE


def contexts_of(
    answer: Perps, *, dex: str, watched: Container[str], bucket_ts: int
) -> tuple[list[AssetContext], list[Malformed]]:
    """The contexts of the watched perps."""
    pairs = [
        (full_name(dex, perp.name), row)
        for perp, row in zip(answer.universe, answer.contexts, strict=True)
        if perp is not None and row is not None and full_name(dex, perp.name) in watched
    ]
    return _convert_each(pairs, lambda pair: _context_of(*pair, bucket_ts=bucket_ts), name=lambda pair: pair[0])


def delistings_of(answer: Perps, *, dex: str, bucket_ts: int) -> list[Delisting]:
    """Of every perp whether it is listed; one without a readable price says nothing."""
    facts = []
    for perp, row in zip(answer.universe, answer.contexts, strict=True):
        if perp is not None and row is not None:
            price = _settlement_e8(row) if perp.is_delisted else None
            if price is not None or not perp.is_delisted:
                facts.append(Delisting(full_name(dex, perp.name), bucket_ts, price))
    return facts


def _settlement_e8(row: ContextRow) -> int | None:
    try:
        return price_e8(row.mark_px)
    except ValueError:
        return None


def _context_of(symbol: str, row: ContextRow, *, bucket_ts: int) -> AssetContext:
    interest = float(row.open_interest)
    if not 0 <= interest < float("inf"):
        raise ValueError(f"{row.open_interest!r} is no open interest")
    return AssetContext(
        symbol=symbol,
        bucket_ts=bucket_ts,
        funding_e12=_rate_e12(row.funding),
        # Without impact prices there is nothing above or below the oracle to pay for.
        premium_e12=_rate_e12(row.premium or "0"),
        open_interest_base=interest,
        mark_e8=price_e8(row.mark_px),
        oracle_e8=price_e8(row.oracle_px),
    )


def predicted_of(
    rows: Iterable[PredictedRow], *, watched: Container[str], bucket_ts: int
) -> tuple[list[PredictedFunding], list[Malformed]]:
    """What each venue will charge next for the watched perps; a venue without the coin says nothing."""
    named = [(coin, venue, row) for coin, venues in rows if coin in watched for venue, row in venues]
    listed = [one for one in named if one[2] is not None]
    return _convert_each(
        listed, lambda one: _predicted_funding_of(*one, bucket_ts=bucket_ts), name=lambda one: f"{one[0]} {one[1]}"
    )


def _predicted_funding_of(symbol: str, venue: str, row: VenueRow | None, *, bucket_ts: int) -> PredictedFunding:
    if row is None:
        raise ValueError(f"{venue} does not list {symbol}")
    rate = _rate_e12(row.funding_rate)
    return PredictedFunding(symbol, bucket_ts, venue, rate, row.funding_interval_hours, row.next_funding_time)


def funding_of(symbol: str, rows: Iterable[FundingRow], *, until: int) -> tuple[list[FundingRate], list[Malformed]]:
    """Settled rates, each at its hour, in order; none is settled after `until`."""
    rates, problems = _convert_each(
        rows, lambda row: _funding_rate_of(symbol, row, until=until), name=lambda row: symbol
    )
    return sorted(rates, key=lambda rate: rate.bucket_ts), problems


def _funding_rate_of(symbol: str, row: FundingRow, *, until: int) -> FundingRate:
    if full_name(dex_of(symbol), row.coin) != symbol:
        raise ValueError(f"asked for {symbol}, answered with {row.coin}")
    if row.time > until + _MOST_AHEAD:
        # It would pass for the newest one, and all that follow for known.
        raise ValueError(f"settled at {row.time}, which is yet to come")
    return FundingRate(
        symbol, floor_to_step(row.time, HOUR), _rate_e12(row.funding_rate), _rate_e12(row.premium or "0")
    )


def _rate_e12(text: str) -> int:
    rate = to_units(text, E12)
    if abs(rate) > _MOST_E12:
        raise ValueError(f"{text!r} is no rate")
    return rate


def _convert_each(
    sources: Iterable[Source], convert: Callable[[Source], Fact], *, name: Callable[[Source], str]
) -> tuple[list[Fact], list[Malformed]]:
    """Every one that converts, and a value for every one that does not."""
    facts: list[Fact] = []
    problems = []
    for source in sources:
        try:
            facts.append(convert(source))
        except ValueError as error:
            problems.append(describe_malformed("number", error, str(source), subject=name(source)))
    return facts, problems


_NOT_SAID = -1


class ContextPoll:
    """The contexts of all watched perps, dex by dex."""

    def __init__(
        self,
        settings: HyperliquidSourceSettings,
        outbox: Outbox,
        errands: RestQueue,
        *,
        names: ListedNames,
        listings: ListingRecords,
    ) -> None:
        self._every = settings.contexts_every_ms
        self._listings = listings
        self._dexes = ("", *settings.dexes)
        self._outbox = outbox
        self._errands = errands
        self._names = names
        self._poll = Poll(self._every)
        self._cadences = {dex: Cadence("contexts", subject_of(dex), step=self._every) for dex in self._dexes}
        # What was said of each perp last: it is said when it changes, and once after a start.
        self._settled: dict[str, int | None] = {}
        self.trouble = NOT_RUNNING

    def resume(self, newest: Mapping[str, int | None]) -> None:
        """Begins where the tape ends, dex by dex; a bucket it has of all of them is not asked for again."""
        for dex, cadence in self._cadences.items():
            cadence.resume(newest[dex])
        known = [bucket for bucket in newest.values() if bucket is not None]
        self._poll = Poll(self._every, newest=min(known) if len(known) == len(newest) else None)

    def tick(self, at: int) -> None:
        """Queues the poll when it is due."""
        bucket = self._poll.due_bucket(at)
        if bucket is not None:
            expires = self._poll.ends_at(bucket)
            for dex in self._dexes:
                self._errands.add(RestRequest("contexts", dex, bucket, expires=expires))
            # Other venues are compared with the main dex alone.
            self._errands.add(RestRequest("predicted", "", bucket, expires=expires))

    def handle_answer(self, errand: RestRequest, body: bytes, *, asked_at: int) -> bool:
        """An answer to either question; False when it cannot be read."""
        bucket = floor_to_step(asked_at, MINUTE)
        return (
            self._handle_contexts(errand, body, bucket)
            if errand.kind == "contexts"
            else self._handle_predicted(body, bucket)
        )

    def _handle_contexts(self, errand: RestRequest, body: bytes, bucket: int) -> bool:
        answer = read_contexts(body)
        if isinstance(answer, Malformed):
            self._outbox.add_malformed([answer])
            return False
        self._names.learn_perps(errand.subject, answer.universe)
        self._outbox.add_facts(self._listings.of_perps(errand.subject, answer.universe, at=bucket))
        watched = frozenset(self._names.watched.perps)
        facts, problems = contexts_of(answer, dex=errand.subject, watched=watched, bucket_ts=bucket)
        self._outbox.add_malformed([*answer.problems, *problems])
        listed = delistings_of(answer, dex=errand.subject, bucket_ts=bucket)
        news = [fact for fact in listed if self._settled.get(fact.symbol, _NOT_SAID) != fact.settlement_e8]
        self._settled |= {fact.symbol: fact.settlement_e8 for fact in news}
        self._outbox.add_facts(news)
        if facts:
            gap = self._cadences[errand.subject].record_bucket(floor_to_step(bucket, self._every), self.trouble)
            self.trouble = NO_ANSWER
            self._outbox.add_facts(facts, gap)
        return True

    def _handle_predicted(self, body: bytes, bucket: int) -> bool:
        answer = read_predicted(body)
        if isinstance(answer, Malformed):
            self._outbox.add_malformed([answer])
            return False
        watched = frozenset(self._names.watched.perps)
        facts, problems = predicted_of(answer.good_rows(), watched=watched, bucket_ts=bucket)
        self._outbox.add_malformed([*answer.problems, *problems])
        self._outbox.add_facts(facts)
        return True


PAGE_ROWS = 500
_ASK_AGAIN_S = 60.0
_TRIES = 3


class FundingPoll:
    """The settled rates of all watched perps."""

    def __init__(
        self, settings: HyperliquidSourceSettings, outbox: Outbox, errands: RestQueue, *, names: ListedNames
    ) -> None:
        self._settings = settings
        self._outbox = outbox
        self._errands = errands
        self._names = names
        self._poll = Poll(settings.funding_every_ms, delay=settings.funding_delay_ms)
        self._newest: dict[str, int] = {}
        self._start: dict[str, int] = {}

    def resume(self, newest: Mapping[str, int | None], *, at: int) -> None:
        """Begins where the tape ends, dex by dex; under virtual time an hour it has of all is not asked for again."""
        first, every, delay = floor_to_step(at - self._settings.history_ms, HOUR), self._poll.every, self._poll.delay
        self._start = {dex: first if hour is None else hour for dex, hour in newest.items()}
        # Asked at once, the next rate would be known some seconds before a process that was not stopped asks for it.
        if self._settings.stepped and min(self._start.values()) >= floor_to_step(at - delay, every):
            self._poll = Poll(every, delay=delay, newest=at - delay)

    def tick(self, at: int) -> None:
        """Queues the poll when it is due."""
        if self._poll.due_bucket(at) is not None:
            for symbol in self._names.watched.perps:
                since = self._newest.get(symbol, self._start[dex_of(symbol)])
                self._errands.add(RestRequest("funding", symbol, since))

    def handle_answer(self, errand: RestRequest, body: bytes, now: SourceTime) -> bool:
        """Rates of one symbol; False when they cannot be read."""
        answer = read_funding(body)
        if isinstance(answer, Malformed):
            self._outbox.add_malformed([answer])
            return False
        rates, problems = funding_of(errand.subject, answer.good_rows(), until=now.at)
        self._outbox.add_malformed([*answer.problems, *problems])
        self._add_rates(errand.subject, rates)
        if len(answer.rows) >= PAGE_ROWS and rates:
            self._errands.add(RestRequest("funding", errand.subject, rates[-1].bucket_ts + HOUR))
        elif self._is_late(errand.subject, now.at) and errand.tries < _TRIES:
            again = msgspec.structs.replace(errand, tries=errand.tries + 1, not_before=now.elapsed + _ASK_AGAIN_S)
            self._errands.add(again)
        return True

    def _add_rates(self, symbol: str, rates: list[FundingRate]) -> None:
        newest = self._newest.get(symbol, -1)
        new = [rate for rate in rates if rate.bucket_ts > newest]
        if not new:
            return
        known = [newest] if newest >= 0 else []
        for bounds in missing_ranges([*known, *(rate.bucket_ts for rate in new)], step=HOUR):
            self._outbox.add_gap("funding", symbol, bounds, "the exchange has no rate")
        self._newest[symbol] = new[-1].bucket_ts
        self._outbox.add_facts(new)

    def _is_late(self, symbol: str, at: int) -> bool:
        return self._newest.get(symbol, -1) < floor_to_step(at - self._settings.funding_delay_ms, HOUR)
