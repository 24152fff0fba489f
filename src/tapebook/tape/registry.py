"""The registry: which markets there are, what they are called, and which categories they belong to, as of a moment.

A register is a set of records by subject, kept in versions: `hyperliquid_assets` (a market each),
`hyperliquid_asset_categories` (a curated category each), and those that sources bring. A record that is said again
leaves no trace; one that says something new becomes a version of its subject, with all that was known before and is
not said anew. Versions of commit 0 are the snapshot of the migrations: it is there on a fresh home, and before its own
day it is only assumed.

Other parts ask the registry what is supported, and never conclude it from rows. Names of markets were written by
others: they are shown through `domain/text.py`, and searched for only where `safe_terms` allows it.

Around an asset the tape knows prediction markets about it and capital. Subjects are chosen before rows are read: of an
asset the summaries of its prediction markets (`prediction_rows`), of capital all of DeFi, the chain whose token the
asset is and the stablecoin it is (`macro_rows`). So the newest rows of an asset are never crowded out by those of
hundreds of protocols.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import OWN
from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import TRADED_KINDS, Delisting, MidFrame, Observation, RegistryRecord
from tapebook.domain.text import short_line
from tapebook.domain.units import HOUR, iso_text
from tapebook.errors import UnknownName
from tapebook.tape.families import CommitStamp
from tapebook.tape.seals import rows_digest
from tapebook.tape.view import NO_WATERMARK, KnownDelisting, View

if TYPE_CHECKING:
    from tapebook.tape.store import Tape

_QUERIES = Queries.load("tapebook.tape", "registry.sql")
_TAPE_QUERIES = Queries.load("tapebook.tape")
_decode_values = msgspec.json.Decoder(dict[str, Any]).decode

ASSETS = "hyperliquid_assets"
CATEGORIES = "hyperliquid_asset_categories"

# A perp's price has at most five significant figures, and fewer decimals the more its size has.
PRICE_FIGURES = 5
_PRICE_DECIMALS = {"perp": 6, "spot": 8}
_MOST_NAME = 60
# Shorter tickers are words or parts of them in every second title.
_SHORTEST_TICKER = 3

COVERAGE = ("mids", "candles", "liquidity", "funding", "volatility", "positioning", "trading")
"""What the tape can hold of a market."""

_COVERAGE_OF_KIND = {"perp": COVERAGE, "spot": ("mids", "trading"), "unknown": ("mids",)}
_QUOTE_GROUPS = {"USDC": "USDC", "USDH": "USDH", "USDT0": "USDT"}
HIGH_LEVEL = ("All", "Perps", "Spot", "Crypto", "Tradfi")
"""The categories that follow from what a market is; all others are curated, or the quote of a spot pair."""

TRENDING = "Trending"
"""The category that follows from volume: `trending_symbols` says which markets are in it."""


class StoredRecord(msgspec.Struct, frozen=True):
    """A record as it was known; `assumed` of a snapshot that is newer than the moment it was asked for."""

    values: dict[str, Any]
    known_at: int
    seq: int
    assumed: bool


class ListedAsset(msgspec.Struct, frozen=True):
    """A market of the exchange; `terms` are those that may be searched for elsewhere, none where no word is safe.

    A market that is delisted is not `live`. One that is not `listed` is missing in the list of the exchange that this
    tape listens to, such as a small world or a test net: it is known, and nothing can be held of it.
    """

    symbol: str
    kind: str
    name: str
    terms: tuple[str, ...]
    categories: tuple[str, ...]
    coverage: tuple[str, ...]
    live: bool
    listed: bool
    tick: str | None
    lot: str | None
    max_leverage: int | None
    quote: str | None
    known_at: int
    assumed: bool


def commits_of_records(facts: Sequence[Observation | MidFrame]) -> list[list[Observation | MidFrame]]:
    """Facts as so many commits that each has one record of a subject at most: a version is told by its commit."""
    parts: list[list[Observation | MidFrame]] = [[]]
    seen: dict[tuple[str, str], int] = {}
    for fact in facts:
        number = 0
        if isinstance(fact, RegistryRecord):
            number = seen[fact.register, fact.symbol] = seen.get((fact.register, fact.symbol), -1) + 1
        if number == len(parts):
            parts.append([])
        parts[number].append(fact)
    return parts


class Registry:
    """All registers of one tape, or those up to a commit: a cache of versions then, which nothing invalidates."""

    def __init__(self, db: Database, *, watermark: int | None = None) -> None:
        self._db = db
        self._watermark = watermark
        self._versions: dict[tuple[str, str], list[tuple[Any, ...]]] = {}

    def records(self, register: str, *, view: View) -> dict[str, StoredRecord]:
        """Every record of a register as it was known, by subject."""
        reach = view.watermark if self._watermark is None else min(view.watermark, self._watermark)
        where = {"register": register, "as_of": view.as_of, "watermark": reach}
        return {
            subject: StoredRecord(_decode_values(text), known_at, seq, seq == 0 and known_at > view.as_of)
            for subject, text, known_at, seq in self._db.all(_QUERIES.records, **where)
        }

    def record(self, register: str, subject: str, *, view: View) -> StoredRecord | None:
        """One record as it was known; None of a subject nobody has heard of."""
        reach = view.watermark if self._watermark is None else min(view.watermark, self._watermark)
        # A backtest asks for the same few markets at every window of their margin.
        is_kept = reach == self._watermark
        versions = self._versions.get((register, subject)) if is_kept else None
        if versions is None:
            known_by = NO_WATERMARK if is_kept else view.as_of
            where = {"register": register, "subject": subject, "as_of": known_by, "watermark": reach}
            versions = self._db.all(_QUERIES.record, **where)
            if is_kept:
                self._versions[register, subject] = versions
        for text, known_at, seq in reversed(versions):
            if known_at <= view.as_of or seq == 0:
                return StoredRecord(_decode_values(text), known_at, seq, seq == 0 and known_at > view.as_of)
        return None

    def write_records(self, records: Iterable[RegistryRecord], place: CommitStamp) -> int:
        """Writes what says something new as versions of a commit; returns how many there are."""
        written = 0
        for each in records:
            where = {"register": each.register, "subject": each.symbol}
            known_at = place.known_at if place.assumed is None else place.assumed(each)
            row = self._db.one(_QUERIES.newest, **where, known_at=known_at)
            before: dict[str, Any] = msgspec.json.decode(row[0]) if row else {}
            after = before | msgspec.json.decode(each.record_json, type=dict[str, Any])
            # What is said again is no news, so an hourly list costs nothing.
            if after == before:
                continue
            values = {"record_json": canonical_json(after).decode(), "known_at": known_at, "seq": place.seq}
            self._db.execute(_QUERIES.add, **where, **values)
            written += 1
        return written

    def assets(self, *, view: View, category: str | None = None, trending: Collection[str] = ()) -> list[ListedAsset]:
        """Every market that was known, or those of a category, by symbol; UnknownName of a wrong category.

        `trending` are the symbols of the category that depends on volume, which registers do not hold.
        """
        # Categories are curated: the exchange names none for the perps of its main dex.
        groups = self.records(CATEGORIES, view=view)
        members: dict[str, list[str]] = {}
        for name, record in groups.items():
            for symbol in record.values["symbols"]:
                members.setdefault(symbol, []).append(name)
        parents = {name: str(record.values["group"]) for name, record in groups.items()}
        for symbol in trending:
            members.setdefault(symbol, []).append(TRENDING)
        found = [
            _asset(symbol, record, members.get(symbol, []), parents)
            for symbol, record in sorted(self.records(ASSETS, view=view).items())
        ]
        if category is None or category == "All":
            return found
        known = [*HIGH_LEVEL, TRENDING, *sorted(parents), *_QUOTE_GROUPS.values()]
        wanted = next((name for name in known if name.casefold() == category.casefold()), None)
        if wanted is None:
            raise UnknownName(f"there is no category {short_line(category, 40)!r}; choose one of: {', '.join(known)}")
        return [asset for asset in found if wanted in asset.categories]

    def safe_terms(self, *, view: View) -> dict[str, tuple[str, ...]]:
        """What may be searched for elsewhere, by symbol of every listed market that has such words."""
        return {
            asset.symbol: asset.terms for asset in self.assets(view=view) if asset.live and asset.listed and asset.terms
        }

    def vintage(self) -> int:
        """The day of the snapshot that came with the migrations; 0 without one."""
        return self._db.all(_QUERIES.vintage)[0][0] or 0


def _asset(symbol: str, record: StoredRecord, members: list[str], parents: Mapping[str, str]) -> ListedAsset:
    values = record.values
    kind = str(values.get("kind", "unknown"))
    decimals = values.get("size_decimals")
    quote = values.get("quote")
    return ListedAsset(
        symbol=symbol,
        kind=kind,
        name=short_line(str(values.get("name") or symbol), _MOST_NAME),
        terms=_safe_terms(symbol, values),
        categories=_categories_of(kind, quote, members, parents),
        coverage=_coverage(kind, values),
        live=bool(values.get("live", True)),
        listed=bool(values.get("listed", True)),
        tick=None if decimals is None else _step(_PRICE_DECIMALS.get(kind, 6) - decimals),
        lot=None if decimals is None else _step(decimals),
        max_leverage=values.get("max_leverage"),
        quote=quote,
        known_at=record.known_at,
        assumed=record.assumed,
    )


def _coverage(kind: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """What can be held of a market of a kind; spot pairs have candles where they are asked for alone."""
    if not values.get("listed", True):
        return ()
    found = set(_COVERAGE_OF_KIND.get(kind, ())) | ({"candles"} if values.get("candles") else set())
    return tuple(name for name in COVERAGE if name in found)


def _safe_terms(symbol: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The curated words; a ticker that is an ordinary word is none of them, however it is written there."""
    # Curated words of an unsafe ticker are phrases that hold more than the ticker.
    terms = [str(term).casefold() for term in values.get("terms", ())]
    ticker = symbol.casefold()
    if not values.get("safe") or len(ticker) < _SHORTEST_TICKER:
        return tuple(term for term in terms if term != ticker)
    return tuple(terms)


def _categories_of(kind: str, quote: str | None, members: list[str], parents: Mapping[str, str]) -> tuple[str, ...]:
    tradfi = any(parents.get(name) == "Tradfi" for name in members)
    # A builder's dex may list coins too, so the curated groups decide what is Tradfi.
    found = [{"perp": "Perps", "spot": "Spot"}.get(kind, "")]
    if kind == "perp":
        found.append("Tradfi" if tradfi else "Crypto")
    if quote:
        found.append(_QUOTE_GROUPS.get(quote, ""))
    return tuple(name for name in [*found, *sorted(members)] if name)


def _step(decimals: int) -> str:
    """The smallest step of a number with so many decimals: `0.001`, or `10` with fewer than none."""
    return str(10**-decimals) if decimals <= 0 else f"{10**-decimals:.{decimals}f}"


def seed_sql(registry: Registry, *, view: View) -> str:
    """The registry as known at a moment as a migration that seeds it: what a checkout keeps as the next snapshot."""
    rows = [
        (register, subject, view.as_of, canonical_json(record.values).decode(), 0)
        for register in (CATEGORIES, ASSETS)
        for subject, record in sorted(registry.records(register, view=view).items())
    ]
    # In the order in which `seals.sql` reads them: the checksum of a snapshot comes with it.
    rows.sort()
    lines = [f"({', '.join(_sql_literal(value) for value in row)})" for row in rows]
    text = resources.files("tapebook.tape").joinpath("registry_seed.sql.template").read_text("utf-8")
    filled = {"day": iso_text(view.as_of), "rows": ",\n".join(lines), "count": str(len(rows))}
    for name, words in {**filled, "digest": f"{rows_digest(rows):032x}"}.items():
        text = text.replace(f"{{{name}}}", words)
    return text


def _sql_literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


class DelistingTable:
    """Which perps the exchange lists no more, and at what price it settled them, as of a moment and a commit.

    `watermark` is the newest commit that is looked at.
    """

    def __init__(self, db: Database, *, watermark: int = NO_WATERMARK) -> None:
        self._db = db
        self._watermark = watermark
        # A cache of what is delisted as of a commit, by symbol: decisions that are recorded together ask for each.
        self._as_of_commit: tuple[int, dict[str, list[Row]]] = (-1, {})

    def newest(self, symbol: str, *, view: View) -> KnownDelisting | None:
        """The settlement of a perp that the exchange does not list any more; None while it does, as far as is known."""
        reach = min(view.watermark, self._watermark)
        if reach == NO_WATERMARK:
            row = self._db.one(_TAPE_QUERIES.delisting, symbol=symbol, as_of=view.as_of, watermark=NO_WATERMARK)
        else:
            if self._as_of_commit[0] != reach:
                versions = dict[str, list[Row]]()
                for name, known_at, _, price_e8 in self._db.all(_TAPE_QUERIES.delistings, watermark=reach):
                    versions.setdefault(name, []).append((known_at, price_e8))
                self._as_of_commit = reach, versions
            known = [each for each in self._as_of_commit[1].get(symbol, ()) if each[0] <= view.as_of]
            row = known[-1] if known else None
        return KnownDelisting(*row) if row and row[1] is not None else None

    def add(self, fact: Delisting, place: CommitStamp) -> int:
        """Writes what is new about a symbol; how many rows that were."""
        known = self.newest(fact.symbol, view=View(NO_WATERMARK))
        if (None if known is None else known.settlement_e8) == fact.settlement_e8:
            return 0
        known_at = place.known_at if place.assumed is None else place.assumed(fact)
        self._db.execute(_TAPE_QUERIES.add_delisting, **msgspec.structs.asdict(fact), known_at=known_at, seq=place.seq)
        return 1


PREDICTION_CHANNELS = ("immediate_markets", "later_markets", "recently_closed_markets")
MACRO_CHANNELS = ("capital_base", "capital_flows", "economic_throughput")
ASSET_SUBJECTS = "defillama_asset_subjects"
GLOBAL_SUBJECT = "global/defi"

SUBJECT_STALE_AFTER_MS = 3 * HOUR
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


PREDICTION_SUBJECTS = "polymarket/"
"""Before the symbol it makes the subject of the prediction markets about an asset: nobody takes that for its prices."""


def prediction_rows(
    tape: "Tape",
    symbol: str,
    *,
    view: View,
    chosen: Sequence[str] = (OWN,),
    channels: Sequence[str] = PREDICTION_CHANNELS,
) -> dict[str, dict[str, SubjectRow]]:
    """The newest summaries of the prediction markets chosen for an asset, by symbol and channel; its own come first.

    A symbol about which no source has said anything is left out.
    """
    found: dict[str, dict[str, SubjectRow]] = {}
    symbols = dict.fromkeys([symbol, *chosen] if OWN in chosen or symbol in chosen else chosen)
    symbols.pop(OWN, None)
    for each in symbols:
        subject = PREDICTION_SUBJECTS + each
        for channel in channels:
            row = tape.newest(channel, subject, view=view) if channel in tape.feature_channels else None
            if row is not None:
                metrics = _decode_values(row.metrics_json)
                found.setdefault(each, {})[channel] = SubjectRow(channel, subject, row.bucket_ts, metrics)
    return found


def macro_rows(
    tape: "Tape",
    symbol: str,
    *,
    view: View,
    since: int,
    most: int,
    chosen: Sequence[str] = (OWN,),
    channels: Sequence[str] = MACRO_CHANNELS,
) -> list[SubjectRow]:
    """The newest rows of each channel and subject chosen for an asset, so many of each at most, newest first.

    An asset's own subjects are all of capital and then what belongs to it.
    """
    found: list[SubjectRow] = []
    if tape.feature_channels.isdisjoint(channels):
        return found
    subjects = [*chosen]
    if OWN in subjects:
        # A perp of a thousand tokens has the token's chain.
        ticker = symbol[1:] if symbol.startswith("k") and symbol[1:2].isupper() else symbol
        record = tape.registry.record(ASSET_SUBJECTS, ticker, view=view)
        own = map(str, record.values.get("subjects", ())) if record else ()
        subjects = list(dict.fromkeys([GLOBAL_SUBJECT, *own, *chosen]))
        subjects.remove(OWN)
    for subject in subjects:
        for channel in channels:
            # Rows are hourly: mostly the newest are found without going through all of a month.
            recent = max(since, view.as_of - 2 * most * HOUR)
            rows = tape.facts(channel, subject, since=recent, view=view)
            if len(rows) < most and recent > since:
                rows = tape.facts(channel, subject, since=since, view=view)
            newest = rows[-most:]
            # What was said last stands for itself, however long ago: it is told to be stale.
            if not newest and (stale := tape.newest(channel, subject, view=view)) is not None:
                newest = [stale]
            for row in reversed(newest):
                found.append(SubjectRow(channel, subject, row.bucket_ts, _decode_values(row.metrics_json)))
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
