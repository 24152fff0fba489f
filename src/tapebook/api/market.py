"""The market: what the tape knows of a symbol, and files of history in and out.

tb.import_file("candles", "btc.parquet", symbol="BTC", interval="5m")
tb.market("BTC", as_of="2026-01-05T02:00:00Z")["midPrice"]

A file is taken in whole or not at all, while nobody else writes the tape; reads go on beside it.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tapebook.api.open_home import AsOf, HomePart
from tapebook.domain.agent import OWN_SUBSCRIPTIONS, Horizon
from tapebook.domain.files import make_folders
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E8, HOUR, iso_text
from tapebook.errors import BadInput, UnknownName
from tapebook.home import exclusive_lock, shared_lock
from tapebook.report.market import AssetContextView, MarketSource, MarketView, asset_context_view, market_view
from tapebook.tape.bars import finished_bars
from tapebook.tape.registry import COVERAGE, PRICE_FIGURES, TRENDING, ListedAsset, seed_sql, trending_symbols
from tapebook.tape.view import View, bar_length_ms
from tapebook.tick.story import deploy_agent

if TYPE_CHECKING:
    from tapebook.history.book_import import FillsReport
    from tapebook.history.download import DownloadKind, DownloadReport
    from tapebook.history.importer import ImportKind
    from tapebook.history.transfer import ExportReport, ImportReport, StreamReport


__all__ = ["ALL_SOURCES", "AssetContextView", "AssetView", "MarketHistory", "MarketSource", "MarketView"]

# A day is the largest bar, and these are a year of hours.
MOST_BAR_MINUTES, MOST_BARS = 1_440, 8_760

ALL_SOURCES: tuple[MarketSource, ...] = ("hyperliquid", "polymarket", "defillama")


class AssetView(TypedDict):
    """A market of the registry; numbers are decimal text, and what is not known of it is null."""

    symbol: str
    kind: str
    displayName: str
    searchTerms: list[str]
    categories: list[str]
    coverage: dict[str, bool]
    live: bool
    listed: bool
    tick: str | None
    priceFigures: int
    lot: str | None
    maxLeverage: int | None
    quote: str | None
    knownAt: str
    assumed: bool


class BarView(TypedDict):
    """A finished bar of trades."""

    at: str
    open: float
    high: float
    low: float
    close: float
    volume: float


class MarketHistory(HomePart):
    """The tape of a home."""

    def candles(self, symbol: str, *, minutes: int = 5, most: int = 100, as_of: AsOf = None) -> list[BarView]:
        """The newest finished bars of a symbol, oldest first, as they were known at a moment."""
        if not 1 <= minutes <= MOST_BAR_MINUTES or not 1 <= most <= MOST_BARS:
            raise BadInput(f"bars have 1 to {MOST_BAR_MINUTES:,} minutes, and at most {MOST_BARS:,} are given")
        with self._home.read() as rooms:
            _require_symbol(rooms.tape.symbols(), symbol)
            view = View(self._home.moment(as_of))
            # Unfinished bars would be drawn as if nothing more could happen in them.
            found = finished_bars(rooms.tape, symbol, minutes=minutes, count=most, view=view).bars
            return [_bar_view(bar) for bar in found]

    def assets(self, category: str | None = None, *, delisted: bool = False, as_of: AsOf = None) -> list[AssetView]:
        """The markets there are, or those of a category such as `Layer 2`, as they were known at a moment."""
        with self._home.read() as rooms:
            view = View(self._home.moment(as_of))
            trending = trending_symbols(rooms.tape, view=view)
            found = rooms.tape.registry.assets(view=view, category=category, trending=trending)
        if category is not None and category.casefold() == TRENDING.casefold():
            # The most traded first; all others are in the order of their symbols.
            found = sorted(found, key=lambda asset: trending.index(asset.symbol))
        return [_asset_view(asset) for asset in found if asset.live or delisted]

    def write_asset_snapshot(self, path: str | Path, *, as_of: AsOf = None) -> int:
        """Writes the registry as a migration that seeds another; returns how many markets are in it."""
        with self._home.read() as rooms:
            view = View(self._home.moment(as_of))
            text, count = seed_sql(rooms.tape.registry, view=view), len(rooms.tape.registry.assets(view=view))
        # Written whole by people on purpose, so nothing is made of a file that is there.
        Path(path).write_text(text, "utf-8")
        return count

    def market(self, symbol: str, *, as_of: AsOf = None) -> MarketView:
        """What is known of a symbol: price, liquidity, funding, volatility, positioning, gaps."""
        with self._home.read() as rooms:
            _require_symbol(rooms.tape.symbols(), symbol)
            return market_view(rooms.tape, symbol, view=View(self._home.moment(as_of)))

    def market_context(
        self,
        assets: Sequence[str] = (),
        *,
        agent: str | None = None,
        horizon: Horizon | None = None,
        sources: Collection[MarketSource] = ALL_SOURCES,
        as_of: AsOf = None,
    ) -> dict[str, AssetContextView]:
        """The compact context of assets: price, features, prediction markets and macro rows, each with its age.

        An agent filters what is global by what it subscribes to; its watchlist and the horizon of its profile count
        where none are named here.
        """
        subscriptions = OWN_SUBSCRIPTIONS
        with self._home.read() as rooms:
            if agent is not None:
                profile = rooms.book.find_agent(agent).agent
                assets, horizon = assets or profile.watchlist, horizon or profile.context.horizon
                subscriptions = profile.context.subscriptions
            view, known = View(self._home.moment(as_of)), set(rooms.tape.symbols())
            unheard = [symbol for symbol in assets if symbol not in known]
            # Reading the registry takes longer than the context of an asset.
            listed = {asset.symbol for asset in rooms.tape.registry.assets(view=view)} if unheard else set()
            for symbol in unheard:
                if symbol not in listed:
                    raise UnknownName(f"there is no market {symbol!r}: `tapebook assets` lists those there are")
            return {
                symbol: asset_context_view(
                    rooms.tape,
                    symbol,
                    view=view,
                    horizon=horizon or "intraday",
                    sources=sources,
                    subscriptions=subscriptions,
                )
                for symbol in assets
            }

    def import_file(self, kind: "ImportKind", path: str | Path, **options: Any) -> "ImportReport":
        """Brings history from a file into the tape, whole or not at all; options as in `transfer.import_file`."""
        # Files of history know the wire format of a source, which brings an event loop.
        from tapebook.history import transfer

        with self._home.write() as rooms, exclusive_lock(rooms.home, "tape"):
            return transfer.import_file(
                rooms.tape, rooms.clock, kind, Path(path), **options, config=rooms.config, sources=rooms.sources
            )

    def download(
        self,
        kind: "DownloadKind",
        symbol: str,
        *,
        interval: str = "5m",
        days: float = 30,
        url: str | None = None,
        out: str | Path | None = None,
        progress: Callable[[float, int], None] = lambda done, rows: None,
    ) -> "tuple[DownloadReport, ImportReport]":
        """Fetches bars or settled funding from the exchange into a file, and imports it; goes on where one stopped."""
        import asyncio

        from tapebook.history import transfer
        from tapebook.history.download import Download, fetch_history
        from tapebook.ingest.world_process import clock_of_source

        name = f"{symbol.replace('/', '_')}-{interval if kind == 'candles' else kind}.csv"
        with self._home.write() as rooms, exclusive_lock(rooms.home, "tape"):
            path = Path(out) if out else rooms.home / "downloads" / name
            make_folders(path.parent, durable=False)
            settings, step = rooms.config.hyperliquid, bar_length_ms(interval) if kind == "candles" else HOUR

            async def fetch() -> "DownloadReport":
                now = (await clock_of_source(url or settings.url)).now()
                asked = Download(kind, symbol, interval, step, now - round(days * DAY), now, url or settings.url)
                return await fetch_history(asked, path, weight_share=settings.weight_share, progress=progress)

            fetched, length = asyncio.run(fetch()), interval if kind == "candles" else None
            return fetched, transfer.import_file(
                rooms.tape,
                rooms.clock,
                kind,
                path,
                symbol=symbol,
                interval=length,
                config=rooms.config,
                sources=rooms.sources,
            )

    def import_fills(self, path: str | Path, *, agent: str, dry_run: bool = False, **options: Any) -> "FillsReport":
        """Books fills of the past for an agent, all of a file or nothing; those it has already are left alone.

        Options as in `history.book_import.import_fills`.
        """
        from tapebook.history.book_import import import_fills

        with self._home.write() as rooms:
            deployment = rooms.book.find_agent(agent)
            if dry_run:
                return import_fills(rooms, Path(path), deployment, dry_run=True, **options)
            with shared_lock(rooms.home), rooms.leases.holding(rooms.book.stream(deployment.id)):
                return import_fills(rooms, Path(path), deploy_agent(rooms.book, rooms.clock, agent), **options)

    def export_candles(self, path: str | Path, **options: Any) -> "ExportReport":
        """Writes bars of the tape to a file; options as in `history.transfer.export_candles`."""
        from tapebook.history import transfer

        with self._home.read() as rooms:
            return transfer.export_candles(rooms.tape, rooms.clock, Path(path), **options)

    def export_stream(self, path: str | Path, **options: Any) -> "StreamReport":
        """Writes recorded payloads to a file; options as in `history.transfer.export_stream`."""
        from tapebook.history import transfer

        with self._home.read() as rooms:
            return transfer.export_stream(
                rooms.tape, rooms.archive, rooms.clock, Path(path), **options, tape_db=rooms.tape_db
            )


def _require_symbol(known: Sequence[str], symbol: str) -> None:
    if symbol not in known:
        seen = ", ".join(known[:12]) or "none yet; run `tapebook ingest` first"
        raise UnknownName(f"the tape has nothing of {symbol!r}; it has: {seen}{'…' if len(known) > 12 else ''}")


def _bar_view(bar: Candle) -> BarView:
    return {
        "at": iso_text(bar.bucket_ts),
        "open": bar.open_e8 / E8,
        "high": bar.high_e8 / E8,
        "low": bar.low_e8 / E8,
        "close": bar.close_e8 / E8,
        "volume": bar.volume_base,
    }


def _asset_view(asset: ListedAsset) -> AssetView:
    return {
        "symbol": asset.symbol,
        "kind": asset.kind,
        "displayName": asset.name,
        "searchTerms": list(asset.terms),
        "categories": list(asset.categories),
        "coverage": {name: name in asset.coverage for name in COVERAGE},
        "live": asset.live,
        "listed": asset.listed,
        "tick": asset.tick,
        "priceFigures": PRICE_FIGURES,
        "lot": asset.lot,
        "maxLeverage": asset.max_leverage,
        "quote": asset.quote,
        "knownAt": iso_text(asset.known_at),
        "assumed": asset.assumed,
    }
