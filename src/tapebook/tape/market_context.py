"""What the tape knows of an asset beside its own market: prediction markets about it, and the capital around it.

Subjects are chosen before rows are read: of an asset the summaries of its prediction markets, of capital all of DeFi,
the chain whose token the asset is and the stablecoin it is. So the newest rows of an asset are never crowded out by
those of hundreds of protocols.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.domain.agent import OWN
from tapebook.domain.instants import HOUR
from tapebook.domain.market import TRADED_KINDS, FeatureRow
from tapebook.tape.view import View

if TYPE_CHECKING:
    from tapebook.tape.store import Tape

PREDICTION_CHANNELS = ("immediate_markets", "later_markets", "recently_closed_markets")
MACRO_CHANNELS = ("capital_base", "capital_flows", "economic_throughput")
ASSET_SUBJECTS = "defillama_asset_subjects"
GLOBAL_SUBJECT = "global/defi"

STALE_AFTER_MS = 3 * HOUR
"""Three missed hours: what is older is told to be stale."""


TRENDING_MARKETS = 10
"""How many markets the category `Trending` holds."""

_HOURS_OF_VOLUME = 24


class SubjectRow(msgspec.Struct, frozen=True):
    """A row of a subject, with its figures."""

    channel: str
    subject: str
    bucket_ts: int
    metrics: dict[str, Any]


def prediction_subject(symbol: str) -> str:
    """The subject of the prediction markets about an asset: their rows make nobody take it for one with prices."""
    return f"polymarket/{symbol}"


def prediction_rows(tape: "Tape", symbol: str, *, view: View) -> dict[str, SubjectRow]:
    """The newest summaries of the prediction markets about an asset, by channel; none without such a source."""
    subject = prediction_subject(symbol)
    found = {}
    for channel in PREDICTION_CHANNELS:
        row = tape.feature(channel, subject, view=view) if tape.has_channel(channel) else None
        if row is not None:
            found[channel] = _context_row(row)
    return found


def prediction_symbols(symbol: str, chosen: Sequence[str]) -> list[str]:
    """The symbols whose prediction markets are chosen for an asset: its own first, each once."""
    found = [symbol if each == OWN else each for each in chosen]
    return sorted(dict.fromkeys(found), key=lambda each: each != symbol)


def macro_subjects(tape: "Tape", symbol: str, *, view: View, chosen: Sequence[str] = (OWN,)) -> list[str]:
    """The subjects of capital that are chosen for an asset; its own are all of it and then what belongs to it."""
    if OWN not in chosen:
        return [*chosen]
    # A perp of a thousand tokens has the token's chain.
    ticker = symbol[1:] if symbol.startswith("k") and symbol[1:2].isupper() else symbol
    record = tape.registry.record(ASSET_SUBJECTS, ticker, view=view)
    own = [str(subject) for subject in record.values.get("subjects", ())] if record else []
    return [*dict.fromkeys([GLOBAL_SUBJECT, *own, *(subject for subject in chosen if subject != OWN)])]


def macro_rows(
    tape: "Tape", symbol: str, *, view: View, since: int, most: int, chosen: Sequence[str] = (OWN,)
) -> list[SubjectRow]:
    """The newest rows of each channel and subject chosen for an asset, so many of each at most, newest first."""
    found: list[SubjectRow] = []
    if not tape.has_channel(*MACRO_CHANNELS):
        return found
    for subject in macro_subjects(tape, symbol, view=view, chosen=chosen):
        for channel in MACRO_CHANNELS:
            # Rows are hourly: mostly the newest are found without going through all of a month.
            recent = max(since, view.as_of - 2 * most * HOUR)
            rows = tape.features_since(channel, subject, since=recent, view=view)
            if len(rows) < most and recent > since:
                rows = tape.features_since(channel, subject, since=since, view=view)
            # What was said last stands for itself, however long ago: it is told to be stale.
            newest = rows[-most:] or [row for row in [tape.feature(channel, subject, view=view)] if row is not None]
            found += [_context_row(row) for row in reversed(newest)]
    return found


def trending_symbols(tape: "Tape", *, view: View) -> list[str]:
    """The markets with the most USD traded in the last day, the most first, as far as their bars were known."""
    volumes = {}
    for symbol in tape.symbols(*TRADED_KINDS):
        bars = tape.bars(symbol, minutes=60, count=_HOURS_OF_VOLUME, view=view)
        # The newest bars of a market that has stopped are of another day.
        recent = [bar for bar in bars if bar.bucket_ts >= view.as_of - (_HOURS_OF_VOLUME + 1) * HOUR]
        volumes[symbol] = sum(bar.volume_quote_usd for bar in recent)
    traded = [symbol for symbol, volume in volumes.items() if volume > 0]
    return sorted(traded, key=lambda symbol: (-volumes[symbol], symbol))[:TRENDING_MARKETS]


def _context_row(row: FeatureRow) -> SubjectRow:
    metrics = msgspec.json.decode(row.metrics_json, type=dict[str, Any])
    return SubjectRow(row.family, row.symbol, row.bucket_ts, metrics)
