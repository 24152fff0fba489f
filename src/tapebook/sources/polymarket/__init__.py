"""Polymarket as a source: what prediction markets expect of assets, crawled once an hour.

`wire.py` reads answers, `markets.py` says what they mean, `crawl.py` is the hour's plan; `_polling.py` beside this
package asks. Events, markets and links to assets are registers of the tape (`tape/registry.py`), the summaries of each
asset rows of three tables of its own.
"""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from tapebook.domain.market import FeatureRow
from tapebook.domain.units import DAY, HOUR
from tapebook.sources._polling import PolledReplay, PolledSource
from tapebook.sources.polymarket.crawl import NAME, SUMMARY_CHANNELS, CrawlSettings, PolymarketCrawl
from tapebook.tape.families import Family
from tapebook.tape.source import Sink, SourceAdapter, SourceChannel, SourceContext
from tapebook.tape.view import NO_WATERMARK, View

if TYPE_CHECKING:
    from tapebook.tape.store import Tape

Address = Annotated[
    str, Meta(pattern=r"^https?://[^\s@?#]+\Z", description="an address like https://gamma-api.polymarket.com")
]
Rate = Annotated[float, Meta(gt=0, le=20, description="a number of requests per second above 0, up to 20")]
Count = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100")]
SpanHours = Annotated[int, Meta(ge=1, le=8760, description="a whole number of hours from 1 to 8760")]
TagSlug = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,60}\Z", description="a tag such as crypto")]


class PolymarketSettings(msgspec.Struct, frozen=True):
    """The section [polymarket]."""

    gamma_url: Address = "https://gamma-api.polymarket.com"
    clob_url: Address = "https://clob.polymarket.com"
    tag: TagSlug = "crypto"
    # Far below all limits of its servers, which begin at twenty a second.
    requests_per_second: Rate = 2.0
    search: Annotated[bool, Meta(description="true or false")] = True
    # Markets that end within this are `immediate`, all others `later`.
    immediate_hours: SpanHours = 48
    closed_days: Annotated[int, Meta(ge=1, le=60, description="a whole number of days from 1 to 60")] = 7
    # How many markets of an asset a summary shows, and of how many in all the order book is asked for.
    shown: Count = 5
    books: Count = 20


def _crawl_settings(settings: PolymarketSettings, gamma: str, clob: str) -> CrawlSettings:
    return CrawlSettings(
        gamma_url=gamma.rstrip("/"),
        clob_url=clob.rstrip("/"),
        tag=settings.tag,
        soon_ms=settings.immediate_hours * HOUR,
        closed_ms=settings.closed_days * DAY,
        shown=settings.shown,
        books=settings.books,
        searches=settings.search,
    )


def replay(settings: PolymarketSettings, tape: "Tape") -> PolledReplay:
    """Crawls that were recorded; each begins with the words it searched for then."""

    def make_session(sink: Sink, replayed: PolledReplay) -> PolymarketCrawl:
        plan = _crawl_settings(settings, settings.gamma_url, settings.clob_url)
        return PolymarketCrawl(plan, sink, terms=dict, newest=None, is_ready=lambda: False)

    return PolledReplay(NAME, make_session)


def create(settings: PolymarketSettings, context: SourceContext) -> PolledSource:
    """The source; a world at `context.url` has both servers behind prefixes of one address."""
    tape = context.tape
    gamma, clob = settings.gamma_url, settings.clob_url
    if context.url is not None:
        gamma, clob = f"{context.url.rstrip('/')}/gamma", f"{context.url.rstrip('/')}/clob"

    def terms() -> dict[str, tuple[str, ...]]:
        """Of perps of the main dex: a spot token may carry the ticker of a coin it has nothing to do with."""
        found = tape.registry.safe_terms(view=View(NO_WATERMARK))
        return {symbol: words for symbol, words in found.items() if ":" not in symbol and not symbol.startswith("@")}

    session = PolymarketCrawl(
        _crawl_settings(settings, gamma, clob),
        context.sink,
        terms=terms,
        newest=tape.newest_buckets().get(SUMMARY_CHANNELS["immediate"]),
        # The exchange has said which markets there are, in a step before this one: a step that is made again after a
        # kill finds its own commit, and must not know more than at its first time.
        is_ready=lambda: 0 < tape.head()[1] < context.clock(),
    )
    return PolledSource(NAME, session, context, per_second=settings.requests_per_second)


SOURCE = SourceAdapter(
    name=NAME,
    channels=tuple(
        SourceChannel(channel, 3 * HOUR, "features", Family(FeatureRow, f"polymarket_{channel}", channel, step_ms=HOUR))
        for channel in SUMMARY_CHANNELS.values()
    ),
    create=create,
    settings=PolymarketSettings,
    migrations="tapebook.sources.polymarket",
    replay=replay,
    remedies={
        "refused": "see that Polymarket can be reached; what is missing is asked for again",
        "limited": "lower `requests_per_second` of [polymarket] in tapebook.toml",
        "keyset": "the list repeats itself: a newer version may know how its pages are asked for",
    },
)
