"""What the source reads of the tape: where it resumes, its newest books, and gaps that only the tape shows.

Gaps of books need the tape itself: a round of books is many requests, and a kill can fall between them. The next
process does not know which symbols had been answered: it may miss one that the tape has, or begin in the next round
and miss none. So the tape is asked before a gap is written (`gaps_missing_on_tape`), and again when a round is
over (`unrecorded_book_gaps`).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tapebook.domain.market import EVERY_SUBJECT, Gap, Liquidity, dex_of
from tapebook.domain.units import DAY, HOUR, MINUTE, floor_to_step
from tapebook.sources.hyperliquid.gaps import NO_BAR, NOT_RUNNING, SOURCE_NAME, channel_of
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK, View

# What a start of the source asks for in any case, behind the newest bar; and what the exchange keeps, less a day.
_RESTART_LOOKBACK_MS = 55 * MINUTE
_MAX_HISTORY_MS = 60 * HOUR
# Rows of midpoints stay for half an hour; a dex that was silent for longer is not known to have been before.
_DEX_LOOKBACK_MS = 15 * MINUTE

BOOK_ROUND_MS = 5 * MINUTE
# After this long the source itself has named what it did not get in a round.
_ROUND_GRACE_MS = MINUTE


def live_markets(tape: Tape) -> list[str]:
    """The markets that the registry has as listed by now."""
    return [asset.symbol for asset in tape.registry.assets(view=View(NO_WATERMARK)) if asset.live and asset.listed]


def gaps_missing_on_tape(tape: Tape, gaps: Iterable[Gap], *, now: int) -> list[Gap]:
    """The gaps without those of single books of this source that the tape has."""
    return [gap for gap in gaps if not _book_is_on_tape(tape, gap, now)]


def _book_is_on_tape(tape: Tape, gap: Gap, now: int) -> bool:
    if (gap.source, gap.channel) != (SOURCE_NAME, "books") or gap.subject == EVERY_SUBJECT:
        return False
    books = tape.facts(Liquidity, gap.subject, since=gap.from_ts, view=View(now))
    return any(book.bucket_ts < gap.to_ts for book in books)


def unrecorded_book_gaps(tape: Tape, *, now: int) -> list[Gap]:
    """The books missing in rounds of the last hour in which others came, that no gap names."""
    since = now - HOUR
    books = tape.buckets_by_symbol(Liquidity, since=now - 2 * HOUR, view=View(now))
    # A book that was kept between two rounds because it had changed says nothing of others.
    found = {bucket for each in books.values() for bucket in each if bucket % BOOK_ROUND_MS == 0}
    rounds = {bucket for bucket in found if since <= bucket <= now - BOOK_ROUND_MS - _ROUND_GRACE_MS}
    named = [each.gap for each in tape.channel_gaps("books", since=since, as_of=now)]
    return [
        Gap(SOURCE_NAME, "books", symbol, bucket, bucket + BOOK_ROUND_MS, NOT_RUNNING)
        for bucket in sorted(rounds)
        for symbol, there in sorted(books.items())
        # A symbol without a book for an hour is not expected to have one.
        if bucket not in there and any(bucket - HOUR < other < bucket for other in there)
        if not any(gap.subject in (EVERY_SUBJECT, symbol) and gap.from_ts <= bucket < gap.to_ts for gap in named)
    ]


def resume_points(tape: Tape, *, now: int, history_ms: int, dexes: Iterable[str] = ()) -> dict[str, int]:
    """The newest bucket of each channel up to which the tape has all it can have, dex by dex.

    A process can be killed while it still fetches: then one symbol is complete and the next is not. So settled rates
    are asked for again as far back as a first start does, which costs as much as one; bars from the first long hole on.
    """
    since = now - min(history_ms, _MAX_HISTORY_MS)
    found = tape.newest_buckets()
    if dexes := tuple(dexes):
        found |= _newest_by_dex(tape, found, dexes, since=since)
    for channel in (channel_of("funding", dex) for dex in ("", *dexes)):
        if channel in found:
            found[channel] = min(found[channel], floor_to_step(since, HOUR))
    asked = _answered_gaps(tape, since=since, now=now)
    for symbol in tape.newest_by_symbol("contexts", since=since):
        channel = channel_of("candles", dex_of(symbol))
        hole = _first_long_gap(tape, symbol, since=floor_to_step(since, MINUTE), now=now, asked=asked.get(symbol, ()))
        if channel in found and hole is not None:
            found[channel] = min(found[channel], hole)
    return found


def newest_books(tape: Tape, *, now: int) -> dict[str, Liquidity]:
    """The newest book of each symbol that had one within the day."""
    # Several commits of one moment are known a little after it.
    view = View(max(now, tape.head()[1]))
    found = {
        symbol: tape.newest(Liquidity, symbol, view=view) for symbol in tape.newest_by_symbol("books", since=now - DAY)
    }
    return {symbol: book for symbol, book in found.items() if book is not None}


def _newest_by_dex(tape: Tape, newest: Mapping[str, int], dexes: Iterable[str], *, since: int) -> dict[str, int]:
    """Channels dex by dex: one dex can have been silent while another was heard.

    What keeps a beat counts as missing for as far back as is looked; what can be asked for again, as far as is asked.
    """
    heard = {dex_of(symbol) for symbol in tape.symbols()}
    found = {}
    for channel in newest.keys() & {"mids", "contexts", "candles", "funding"}:
        first = newest[channel] - _DEX_LOOKBACK_MS if channel in ("mids", "contexts") else since
        by_symbol = tape.newest_by_symbol(channel, since=first)
        for dex in heard & {"", *dexes}:
            buckets = (bucket for symbol, bucket in by_symbol.items() if dex_of(symbol) == dex)
            found[channel_of(channel, dex)] = max(buckets, default=first)
    return found


def _answered_gaps(tape: Tape, *, since: int, now: int) -> dict[str, list[Gap]]:
    """By symbol, the candle gaps that the exchange has answered for: filled ones, and those it has no bars of."""
    found: dict[str, list[Gap]] = {}
    for each in tape.channel_gaps("candles", since=since, as_of=now):
        if each.filled_at is not None or each.gap.reason == NO_BAR:
            found.setdefault(each.gap.subject, []).append(each.gap)
    return found


def _first_long_gap(tape: Tape, symbol: str, *, since: int, now: int, asked: Sequence[Gap]) -> int | None:
    """The beginning of the first hole in a symbol's bars that a start does not look at anyway and nobody asked for.

    What is left open of an outage lies beside a part of it that was filled, so to touch such a part is enough.
    """
    bars = tape.candles(symbol, granularity_sec=60, since=since, view=View(now))
    there = [since, *(bar.bucket_ts for bar in bars), floor_to_step(now, MINUTE)]
    for before, after in pairwise(there):
        if after - before <= _RESTART_LOOKBACK_MS:
            continue
        if not any(gap.from_ts <= after and before + MINUTE <= gap.to_ts for gap in asked):
            return before
    return None
