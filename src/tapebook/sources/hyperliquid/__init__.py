"""Hyperliquid as a source: mids and candles over WebSocket, contexts, books and funding over REST.

`SOURCE` says what it delivers; `create` gives the source itself. Everything it concludes is in pure modules
(`session.py` is the map); `connection.py`, `rest.py` (`post_request`) and `client.py` are the shell that touches the
network, `tape_reads.py` what is read of the tape.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tapebook.domain.market import Gap, Liquidity
from tapebook.domain.units import HOUR, MINUTE
from tapebook.sources.hyperliquid.settings import FeedSettings, HyperliquidSourceSettings, source_settings
from tapebook.tape.source import RecordPayload, Sink, SourceAdapter, SourceChannel, SourceContext, SourceProblem

if TYPE_CHECKING:
    from tapebook.sources.hyperliquid.client import Health, HyperliquidSource
    from tapebook.tape.store import Tape

__all__ = ["SOURCE", "Health", "HyperliquidSource", "HyperliquidSourceSettings", "create"]

_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_BOOKS: Mapping[str, Liquidity] = MappingProxyType({})

SYMBOL_SETTINGS_REMEDY = "correct `symbols` and `dexes` of [hyperliquid] in tapebook.toml"


def create(
    settings: HyperliquidSourceSettings,
    *,
    sink: Sink,
    clock: Callable[[], int],
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    resume: Mapping[str, int] = _NOTHING,
    books: Mapping[str, Liquidity] = _NO_BOOKS,
    listed: Collection[str] = (),
    record: RecordPayload | None = None,
) -> "HyperliquidSource":
    """The source. `resume` names the newest bucket the tape has of each channel, so that an outage becomes a gap.

    Channels: mids, candles, books, contexts, funding; those of a builder dex but books as `mids:xyz`. A channel the
    tape has nothing of is left out. `books` are the newest books the tape has, with which later ones are compared;
    `listed` the markets that its registry counts as live.
    `record` is given every payload as it was received, an answer with its question as a frame of its own.
    """
    # What speaks HTTP takes longer to load than all else together, and most commands never listen.
    from tapebook.sources.hyperliquid.client import HyperliquidSource

    return HyperliquidSource(
        settings,
        sink=sink,
        clock=clock,
        monotonic=monotonic,
        sleep=sleep,
        resume=resume,
        books=books,
        listed=listed,
        record=record,
    )


def _create_on_tape(feed: FeedSettings, context: SourceContext) -> "HyperliquidSource":
    """The source that resumes where the tape ends."""
    from tapebook.sources.hyperliquid.tape_reads import live_markets, newest_books, resume_points

    settings, now = source_settings(feed, url=context.url), context.clock()
    return create(
        settings,
        sink=context.sink,
        clock=context.clock,
        monotonic=context.monotonic,
        sleep=context.sleep,
        resume=resume_points(context.tape, now=now, history_ms=settings.history_ms, dexes=settings.dexes),
        books=newest_books(context.tape, now=now),
        listed=live_markets(context.tape),
        record=context.record,
    )


def _is_current(feed: FeedSettings, problem: SourceProblem) -> bool:
    """A name that was corrected in the settings is nobody's problem any more."""
    return problem.kind != "unknown" or problem.subject in {*feed.symbols, *feed.dexes, ""}


def _missing_on_tape(tape: "Tape", gaps: list[Gap], *, now: int) -> list[Gap]:
    from tapebook.sources.hyperliquid.tape_reads import gaps_missing_on_tape

    return gaps_missing_on_tape(tape, gaps, now=now)


def _unrecorded_gaps(tape: "Tape", *, now: int) -> list[Gap]:
    from tapebook.sources.hyperliquid.tape_reads import unrecorded_book_gaps

    return unrecorded_book_gaps(tape, now=now)


SOURCE = SourceAdapter(
    name="hyperliquid",
    # A channel is stale after about three missed deliveries.
    channels=(
        SourceChannel("mids", MINUTE, "mids"),
        SourceChannel("candles", 5 * MINUTE, "candles"),
        SourceChannel("contexts", 5 * MINUTE, "candles"),
        SourceChannel("predicted", 5 * MINUTE, "candles"),
        SourceChannel("funding", 2 * HOUR, "funding"),
        SourceChannel("books", 15 * MINUTE, "features"),
    ),
    create=_create_on_tape,
    remedies={
        "unknown": SYMBOL_SETTINGS_REMEDY,
        "limited": "lower `weight_share` of [hyperliquid] in tapebook.toml",
    },
    is_current=_is_current,
    missing_on_tape=_missing_on_tape,
    unrecorded_gaps=_unrecorded_gaps,
)
