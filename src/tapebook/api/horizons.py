"""Horizons: the layers of a home as people and programs use them.

`HomeLayers` is a connection, so the seed's classes work on it: `ContextStore(tb)`, `ContextAggregator(tb,
scope="btc-5m.paper")`. Writes to the stream of a deployment wait for its lease, as every other writer does. Its own
methods may be called from any thread; what is built on it belongs to the thread that opened the home.

L7, the layer of this moment, is computed from book and tape when asked for (`LiveView`); nothing of it is stored:

    current_position_BTC   {"size": -0.5, "cost_usd": -31000.0}: what is held, and what was paid for it
    live_price_BTC         the price last observed on that day
    volatility_5m_BTC      realised over the last five full minutes, as a fraction
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import msgspec

from tapebook.api.open_home import AsOf, OpenHome
from tapebook.book.store import Book
from tapebook.domain.agent import deployment_id
from tapebook.domain.market import Mid
from tapebook.domain.units import DAY, E6, E8, MINUTE, floor_to_step
from tapebook.errors import BadInput, UnknownName
from tapebook.home import shared_lock
from tapebook.horizons import ContextAggregator, ContextLayer, ContextStore, LayerConnection, LayerValue
from tapebook.log import Draft
from tapebook.tape.price_features import bars_since, covered_ms, ended_bars, sum_of_squares
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.learn import BookDays, TapeDays, rollup_terms
from tapebook.tick.quotes import TapeQuotes
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms

POSITION_KEY, PRICE_KEY, VOLATILITY_KEY = "current_position_", "live_price_", "volatility_5m_"

_VOLATILITY_SPAN_MS = 5 * MINUTE
# As for stored features: a window that is observed for less is not measured.
_LEAST_COVERED = 0.75


class LiveView:
    """The moment as the rooms know it."""

    def __init__(self, book: Book, tape: Tape) -> None:
        self._book = book
        self._tape = tape

    def values(self, scope: str, *, at: int, key: str | None = None) -> dict[str, Any]:
        """The keys of a deployment, or of all together, with their values at a moment; or those of one key."""
        wanted = [key] if key else self._keys(scope, at)
        found = {name: self._value(scope, name, at) for name in wanted}
        return {name: value for name, value in found.items() if value is not None}

    def _keys(self, scope: str, at: int) -> list[str]:
        """Of everything that is watched or held."""
        agents = [profile for _, profile in self._book.agents()]
        watched = [set(agent.watchlist) for agent in agents if scope in ("", deployment_id(agent))]
        symbols = self._sizes_and_costs(scope, at).keys() | set().union(*watched)
        return [f"{kind}{symbol}" for kind in (POSITION_KEY, PRICE_KEY, VOLATILITY_KEY) for symbol in sorted(symbols)]

    def _value(self, scope: str, key: str, at: int) -> Any:
        if key.startswith(POSITION_KEY):
            held = self._sizes_and_costs(scope, at).get(key.removeprefix(POSITION_KEY))
            return None if held is None else {"size": held[0] / E8, "cost_usd": held[1] / E6}
        if key.startswith(PRICE_KEY):
            return self._price(key.removeprefix(PRICE_KEY), at)
        return self._volatility(key.removeprefix(VOLATILITY_KEY), at) if key.startswith(VOLATILITY_KEY) else None

    def _sizes_and_costs(self, scope: str, at: int) -> dict[str, tuple[int, int]]:
        """Sizes and costs by symbol."""
        book, held = self._book, dict[str, tuple[int, int]]()
        for name in [scope] if scope else [deployment for deployment, _ in book.deployments()]:
            account = book.account(name, seq=book.seq_as_of(name, at))
            for symbol, position in account.portfolio.positions.items():
                size, cost = held.get(symbol, (0, 0))
                held[symbol] = size + position.size_e8, cost + position.cost_usd_e6
        return held

    def _price(self, symbol: str, at: int) -> float | None:
        tape, view, today = self._tape, View(at), floor_to_step(at, DAY)
        mid = tape.newest(Mid, symbol, view=view)
        has_mid = mid is not None and mid.bucket_ts >= today
        if not has_mid and not tape.candles(symbol, granularity_sec=60, since=today, view=view):
            return None
        price = TapeQuotes(tape, view).mark_e8(symbol, at=at)
        return None if price is None else price / E8

    def _volatility(self, symbol: str, at: int) -> float | None:
        end = floor_to_step(at, MINUTE)
        bars = self._tape.candles(symbol, granularity_sec=60, since=end - _VOLATILITY_SPAN_MS - MINUTE, view=View(at))
        inside = bars_since(ended_bars(bars, as_of=at), end - _VOLATILITY_SPAN_MS)
        covered = covered_ms(inside)
        if covered < _LEAST_COVERED * _VOLATILITY_SPAN_MS:
            return None
        return round(math.sqrt(sum_of_squares(inside) * _VOLATILITY_SPAN_MS / covered), 8)


class LayerView(TypedDict):
    """A key of a layer; the value is whatever was written, or computed, for it."""

    layer: str
    timeframe: str
    scope: str
    key: str
    value: Any
    origin: str


class HomeLayers(LayerConnection):
    """The layers of every agent of a home, on the rooms that may write, or on others to read with."""

    def __init__(self, home: OpenHome, rooms: Rooms | None = None) -> None:
        rooms = rooms or home.writer
        super().__init__(
            rooms.book_db,
            rooms.log,
            owner=rooms.book.owner,
            clock=rooms.clock,
            days=BookDays(rooms.book),
            live=LiveView(rooms.book, rooms.tape),
            leases=rooms.leases,
            terms=rollup_terms(rooms.config),
        )
        self._home = home
        self._rooms = rooms

    def now(self) -> int:
        """The moment the home is at."""
        return self._home.moment(None)

    def market_days(self, scope: str) -> TapeDays:
        """What its agents, or all of them, watch on the tape."""
        book = self._rooms.book
        agents = [agent for _, agent in book.agents(removed=True) if scope in ("", deployment_id(agent))]
        return TapeDays(self._rooms.tape, [symbol for each in agents for symbol in each.watchlist], now=self.now())

    def show(self, agent: str | None = None, *, layer: str | None = None, as_of: AsOf = None) -> list[LayerView]:
        """The newest timeframe of every layer, from all time to now; or of one layer all that is kept."""
        with self._home.read() as rooms:
            return HomeLayers(self._home, rooms)._rows(agent, layer, as_of)

    def _rows(self, agent: str | None, layer: str | None, as_of: AsOf) -> list[LayerView]:
        scope = self._scope_of(agent) if agent else ""
        store, at = ContextStore(self, scope=scope), None if as_of is None else self._home.moment(as_of)
        rows = []
        for one in [layer_named(layer)] if layer else list(ContextLayer):
            found = store.entries(one, as_of=at)
            newest = [each for each in found if layer or each.timeframe == found[0].timeframe]
            rows += [_layer_view(one, scope, each) for each in newest]
        return rows

    def rollup(self, agent: str | None = None) -> dict[str, bool]:
        """Brings the layers of an agent up to this moment; without one, those of all agents, and of all together.

        For each scope, whether there was anything new.
        """
        with self._home.write():
            scopes = [self._scope_of(agent)] if agent else [*self._scopes(), ""]
            before = {scope: self.head(scope) for scope in scopes}
            for scope in scopes:
                ContextAggregator(self, scope=scope).run_all_aggregations()
            return {scope: self.head(scope) > seq for scope, seq in before.items()}

    def cleanup(self) -> dict[str, int]:
        """Drops what is past its time in every scope; how many keys of each layer."""
        counts = dict.fromkeys((layer.value for layer in ContextLayer), 0)
        with self._home.write():
            for scope in [*self._scopes(), ""]:
                for layer, count in ContextStore(self, scope=scope).cleanup_expired_contexts().items():
                    counts[layer.value] += count
        return counts

    def set(self, layer: str, timeframe: str, key: str, value: Any, *, agent: str | None = None) -> None:
        """Writes a value by the owner's hand: for one agent, or for all of them."""
        with self._home.write():
            scope = self._scope_of(agent) if agent else ""
            with self._writing(scope):
                if agent:
                    # A stream begins with its deployment.
                    deploy_agent(self._rooms.book, self._rooms.clock, agent)
                ContextStore(self, scope=scope).set_context(layer_named(layer), timeframe, key, value)

    def append(self, scope: str, drafts: Sequence[Draft], *, expected_seq: int) -> None:
        """Writes events under the scope's lease; StaleWriter when the stream moved on."""
        if scope and drafts and not expected_seq:
            raise UnknownName(f"there is no deployment {scope!r} yet: it begins with its agent's first decision")
        with self._writing(scope):
            super().append(scope, drafts, expected_seq=expected_seq)

    def _scope_of(self, agent: str) -> str:
        return self._rooms.book.find_agent(agent, removed=True).id

    def _scopes(self) -> list[str]:
        return [name for name, _ in self._rooms.book.deployments()]

    @contextmanager
    def _writing(self, scope: str) -> Iterator[None]:
        stream = self._rooms.book.stream(scope)
        # The owner's stream is nobody's to hold.
        if not scope or self._rooms.leases.in_hand.get(stream):
            yield
            return
        with shared_lock(self._rooms.home), self._rooms.leases.holding(stream):
            yield


def _layer_view(layer: ContextLayer, scope: str, found: LayerValue) -> LayerView:
    return {
        "layer": layer.value,
        "timeframe": found.timeframe,
        "scope": scope,
        "key": found.key,
        "value": msgspec.json.decode(found.value),
        "origin": found.origin,
    }


def layer_named(name: str) -> ContextLayer:
    """A layer by its number or its whole name: L5, or L5_WEEKLY."""
    for layer in ContextLayer:
        if name.upper() in (layer.short, layer.value):
            return layer
    raise BadInput(f"{name!r} is not a layer: write L1 (all time) to L7 (now), such as L5 for weeks")
