"""The hourly crawl of Polymarket, without any I/O. Once an hour, in this order:

1. `open`: pages of open events with the tag crypto, by id, until a page names no next one;
2. `closed`: pages of closed ones, the newest first, until one lies before the days that are summed up;
3. `search`: one search for each term that the registry allows, for markets that have no such tag;
4. `books` and `history`: the order books of selected markets and their prices of the last day: linked, open, ending
   soon, with the most money of the last day;
5. then events, markets and links go to the registry, and the summaries of each asset to the tape, all at once.

An answer that fails is asked for again, by the same page, until it comes. What an answer left is a part of the crawl's
progress: a crawl that meets an outage, or whose process is killed, goes on where it stopped. Its rows are of the moment
of its first answer, so that one that took hours looks as old as it is. Events that come twice, by the crawl and by a
search, are one by their id.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import FeatureRow, RegistryRecord
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, floor_to_step, iso_text
from tapebook.sources._polling import HttpRequest, missed_hours
from tapebook.sources.polymarket.markets import (
    AssetMatcher,
    LinkedMarket,
    SummaryKind,
    is_in_summary,
    is_short_lived,
    market_state,
    most_traded,
    summary_metrics,
    winning_outcome,
    with_history,
)
from tapebook.sources.polymarket.wire import (
    EventPage,
    OrderBookTop,
    PredictionEvent,
    affirmative_place,
    read_books,
    read_page,
    read_shifts,
)
from tapebook.tape.registry import PREDICTION_CHANNELS, PREDICTION_SUBJECTS
from tapebook.tape.source import Sink, SourceProblem, SourceProgress

NAME = "polymarket"
EVENTS, MARKETS, LINKS = "polymarket_events", "polymarket_markets", "polymarket_market_asset_links"
SUMMARY_CHANNELS: dict[SummaryKind, str] = dict(zip(("immediate", "later", "closed"), PREDICTION_CHANNELS, strict=True))

PAGE_SIZE = 100
"""More is not given, whatever is asked for; a page of many strikes takes seconds even so."""

# Of books one request has room for 500; more pages than this are a server that repeats itself.
_MOST_PAGES = 400
_MOST_TEXT = 300
# Where a crawl's own beginning stands among the parts of its progress; answers stand behind it.
_START_PART = 1


class CrawlSettings(msgspec.Struct, frozen=True):
    """Where to ask, and how much of it is kept."""

    gamma_url: str
    clob_url: str
    tag: str
    soon_ms: int
    closed_ms: int
    shown: int
    books: int
    searches: bool


class CrawlPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one answer left of a crawl; of events only those that are about an asset, with their markets that are."""

    kind: str
    at: int
    events: tuple[PredictionEvent, ...] = ()
    cursor: str | None = None
    is_over: bool = False
    books: dict[str, OrderBookTop] = {}
    shifts: dict[str, tuple[float | None, float | None]] = {}


class _CrawlStart(msgspec.Struct, frozen=True):
    """When a crawl began, and the words it searches for by symbol."""

    at: int
    terms: dict[str, tuple[str, ...]]


class _Findings:
    """What a crawl has found so far."""

    def __init__(self, start: _CrawlStart) -> None:
        self.start, self.at = start, start.at
        self.matcher = AssetMatcher(start.terms)
        # A term that several assets share is searched for once.
        self.searches = sorted({term for words in start.terms.values() for term in words})
        self.parts = 0
        self.last: CrawlPart | None = None
        self.events: dict[str, PredictionEvent] = {}
        self.books: dict[str, OrderBookTop] = {}
        self.linked: list[LinkedMarket] = []

    def add_part(self, part: CrawlPart) -> None:
        """Adds what an answer left."""
        if self.last is None:
            # Nothing is older than the first answer, however long it was waited for.
            self.at = part.at
        self.last, self.parts = part, self.parts + 1
        # The newest answer wins: a search may be minutes newer than the list.
        self.events |= {event.id: event for event in part.events}
        self.books |= part.books
        self.linked = [with_history(each, part.shifts) for each in self.linked] if part.shifts else self.linked


class PolymarketCrawl:
    """The state of the source: what is asked next, and what has been found since the hour began.

    `terms` gives the words to search for by symbol, `newest` the newest crawl the tape has; `is_ready` says whether the
    registry is known by now.
    """

    def __init__(
        self,
        settings: CrawlSettings,
        sink: Sink,
        *,
        terms: Callable[[], Mapping[str, Sequence[str]]],
        newest: int | None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings, self._sink, self._terms = settings, sink, terms
        self._newest, self._is_ready = newest, is_ready
        self._found: _Findings | None = None
        self._steps: Iterator[HttpRequest] | None = None
        self._request: HttpRequest | None = None
        self._not_before = 0

    def next_request(self, now: int) -> HttpRequest | None:
        """The question to ask next; a crawl begins with the hour and goes on until it is done."""
        if self._request is None and self._found is None and self._is_due(now):
            start = _CrawlStart(now, {symbol: tuple(words) for symbol, words in self._terms().items()})
            self._keep_part(_START_PART, start)
            self._begin(start, now)
        return self._request

    def _begin(self, start: _CrawlStart, now: int) -> None:
        self._found = _Findings(start)
        self._steps = self._requests(self._found)
        self._advance(now)

    def _is_due(self, now: int) -> bool:
        hour = floor_to_step(now, HOUR)
        is_new = self._newest is None or hour > floor_to_step(self._newest, HOUR)
        return is_new and now >= self._not_before and self._is_ready()

    def restore(self, parts: Sequence[str], now: int) -> None:
        """Goes on with the crawl of a process that has ended; one that was delivered by then is over."""
        if not parts:
            return
        start = msgspec.json.decode(parts[0], type=_CrawlStart)
        answers = [msgspec.json.decode(part, type=CrawlPart) for part in parts[1:]]
        began = answers[0].at if answers else start.at
        if self._newest is not None and floor_to_step(began, MINUTE) <= self._newest:
            self._sink.add_progress(SourceProgress(NAME))
            return
        self._begin(start, now)
        for answer in answers:
            assert self._found is not None
            self._found.add_part(answer)
            self._advance(now)

    def start_state(self) -> str | None:
        """When the crawl began and its words, until the first page has come."""
        if self._found is None or self._found.parts:
            return None
        return msgspec.json.encode(self._found.start).decode()

    def handle_answer(self, request: HttpRequest, body: bytes, now: int) -> str | None:
        """Takes an answer; why it cannot be read, if it cannot."""
        try:
            part = self._part_of(request, body, now)
        except ValueError as error:
            return str(error)
        self._add_part(part, now)
        return None

    def skip_request(self, request: HttpRequest, why: str, now: int) -> None:
        """Goes on without a search, books or a history; without a page of a list, the hour has no crawl.

        Half a list would look like markets that are gone.
        """
        if request.kind in ("open", "closed"):
            self._found, self._steps, self._request = None, None, None
            self._not_before = floor_to_step(now, HOUR) + HOUR
            self._sink.add_progress(SourceProgress(NAME))
        else:
            self._add_part(CrawlPart(request.kind, now), now)

    def _add_part(self, part: CrawlPart, now: int) -> None:
        assert self._found is not None
        self._found.add_part(part)
        self._keep_part(_START_PART + self._found.parts, part)
        self._advance(now)

    def _keep_part(self, number: int, part: msgspec.Struct) -> None:
        self._sink.add_progress(SourceProgress(NAME, number, msgspec.json.encode(part).decode()))

    def _part_of(self, request: HttpRequest, body: bytes, now: int) -> CrawlPart:
        assert self._found is not None
        if request.kind == "books":
            return CrawlPart("books", now, books=read_books(body))
        if request.kind == "history":
            shifts = read_shifts(body, until=self._found.at)
            return CrawlPart("history", now, shifts={request.subject: shifts})
        page = read_page(body)
        if page.odd:
            said = f"{page.odd} of {len(page.events) + page.odd} events without an id"
            self._sink.add_problem(SourceProblem(NAME, "malformed", request.kind, said))
        until = self._found.at - self._settings.closed_ms if request.kind == "closed" else None
        events = [self._about_assets(event) for event in page.events if not is_short_lived(event)]
        kept = tuple(event for event in events if event.markets)
        return CrawlPart(request.kind, now, kept, page.cursor, is_over=_is_over(page, until))

    def _about_assets(self, event: PredictionEvent) -> PredictionEvent:
        assert self._found is not None
        mine = tuple(market for market in event.markets if self._found.matcher.link(event, market))
        return msgspec.structs.replace(event, markets=mine)

    def _advance(self, now: int) -> None:
        assert self._steps is not None and self._found is not None
        self._request = next(self._steps, None)
        if self._request is None:
            found, self._found, self._steps = self._found, None, None
            self._deliver(found)

    def _requests(self, found: _Findings) -> Iterator[HttpRequest]:
        yield from self._pages("open", {"closed": "false", "order": "id", "ascending": "true"})
        yield from self._pages("closed", {"closed": "true", "order": "closedTime", "ascending": "false"})
        for term in found.searches if self._settings.searches else ():
            params = {"q": term, "events_status": "active", "limit_per_type": "20", "keep_closed_markets": "0"}
            yield HttpRequest("search", f"{self._settings.gamma_url}/public-search", tuple(params.items()), None, term)
        found.linked = self._link(found)
        if wanted := self._selected_tokens(found):
            body = msgspec.json.encode([{"token_id": token} for token in wanted])
            yield HttpRequest("books", f"{self._settings.clob_url}/books", (), body)
        for token in wanted:
            # A span by its ends: among the names of intervals `1m` is a month. Ends are whole seconds.
            ends = {"startTs": (found.at - DAY - HOUR) // SECOND, "endTs": found.at // SECOND}
            params = {"market": token, **{name: str(at) for name, at in ends.items()}, "fidelity": "10"}
            yield HttpRequest(
                "history", f"{self._settings.clob_url}/prices-history", tuple(params.items()), None, token
            )

    def _pages(self, kind: str, order: Mapping[str, str]) -> Iterator[HttpRequest]:
        """The pages of a list: each is asked for behind the cursor of the one before."""
        url, cursor = f"{self._settings.gamma_url}/events/keyset", ""
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            params = {"tag_slug": self._settings.tag, **order, "limit": str(PAGE_SIZE)}
            # Every other name of this parameter is ignored without a word, and the first page comes for ever.
            more = {"after_cursor": cursor} if cursor else {}
            yield HttpRequest(kind, url, tuple((params | more).items()), None, f"page {len(seen) + 1}")
            page = self._found.last if self._found is not None else None
            if page is None or page.cursor is None or page.is_over:
                return
            if page.cursor in seen:
                said = "the same page comes again and again: the list was left after it"
                self._sink.add_problem(SourceProblem(NAME, "keyset", kind, said))
                return
            seen.add(page.cursor)
            cursor = page.cursor

    def _link(self, found: _Findings) -> list[LinkedMarket]:
        pairs = [(event, market) for event in found.events.values() for market in event.markets]
        return [link for event, market in pairs if (link := found.matcher.link(event, market))]

    def _selected_tokens(self, found: _Findings) -> list[str]:
        """The tokens whose books are asked for: of open markets that end soon, those with the most money."""
        soon = [
            each
            for each in found.linked
            if market_state(each.market) == "open" and self._is_in("immediate", each, found.at) and each.market.tokens
        ]
        chosen = most_traded(soon, self._settings.books)
        places = [(each.market.tokens, affirmative_place(each.market) or 0) for each in chosen]
        return [tokens[place] for tokens, place in places if place < len(tokens)]

    def _is_in(self, kind: SummaryKind, linked: LinkedMarket, now: int) -> bool:
        return is_in_summary(kind, linked, now=now, soon_ms=self._settings.soon_ms, closed_ms=self._settings.closed_ms)

    def _deliver(self, found: _Findings) -> None:
        """Hands over what a crawl has found, all of it at the moment it is complete."""
        bucket = floor_to_step(found.at, MINUTE)
        self._sink.add_observations([*_records(found, bucket), *self._summaries(found, bucket)])
        for channel in SUMMARY_CHANNELS.values():
            for gap in missed_hours(NAME, channel, newest=self._newest, bucket=bucket, step=HOUR):
                self._sink.add_gap(gap)
        self._newest = bucket
        self._sink.add_progress(SourceProgress(NAME))

    def _summaries(self, found: _Findings, bucket: int) -> list[FeatureRow]:
        symbols = sorted({symbol for each in found.linked for symbol in each.assets})
        subjects = {symbol: PREDICTION_SUBJECTS + symbol for symbol in symbols}
        self._sink.add_kinds(dict.fromkeys(subjects.values(), "prediction_market"))
        rows = []
        for symbol, subject in subjects.items():
            mine = [each for each in found.linked if symbol in each.assets]
            for kind, channel in SUMMARY_CHANNELS.items():
                inside = [each for each in mine if self._is_in(kind, each, bucket)]
                metrics = summary_metrics(kind, inside, books=found.books, most=self._settings.shown)
                rows.append(FeatureRow(subject, bucket, canonical_json(metrics).decode(), channel))
        return rows


def _is_over(page: EventPage, until: int | None) -> bool:
    """Whether a page of closed events reaches back far enough; those without a time say nothing."""
    times = [event.closed_at for event in page.events if event.closed_at is not None]
    return until is not None and bool(times) and min(times) < until


def _records(found: _Findings, bucket: int) -> list[RegistryRecord]:
    """Events, markets and links of all that is linked: what changes seldom, so that prices make no versions."""
    records = []
    for linked in found.linked:
        event, market = linked.event, linked.market
        records.append(
            _record(
                EVENTS,
                event.id,
                bucket,
                title=event.title[:_MOST_TEXT],
                slug=event.slug,
                series=event.series,
                tags=sorted(event.tags),
                closed=event.closed,
            )
        )
        records.append(
            _record(
                MARKETS,
                market.id,
                bucket,
                event=event.id,
                question=market.question[:_MOST_TEXT],
                slug=market.slug,
                outcomes=list(market.outcomes),
                tokens=list(market.tokens),
                tick=market.tick or None,
                endsAt=None if market.ends_at is None else iso_text(market.ends_at),
                closedAt=None if market.closed_at is None else iso_text(market.closed_at),
                state=market_state(market),
                disputes=market.resolutions.count("disputed"),
                won=winning_outcome(market),
            )
        )
        records.append(_record(LINKS, market.id, bucket, assets=list(linked.assets), by=linked.by))
    return list({(each.register, each.symbol): each for each in records}.values())


def _record(register: str, subject: str, bucket: int, **values: Any) -> RegistryRecord:
    return RegistryRecord(subject, bucket, canonical_json(values).decode(), register)
