"""L7, the layer of this moment: positions, prices and short volatility, computed from book and tape when asked for.

    current_position_BTC   {"size": -0.5, "cost_usd": -31000.0}: what is held, and what was paid for it
    live_price_BTC         the price last observed on that day
    volatility_5m_BTC      realised over the last five full minutes, as a fraction

Nothing of it is stored: what was known at a moment can be computed again for as long as the tape has it.
"""

import math
from typing import Any

from tapebook.domain.agent import deployment_id
from tapebook.domain.instants import DAY, MINUTE, floor
from tapebook.domain.market import Mid
from tapebook.domain.money import E6, E8
from tapebook.loop.quotes import TapeQuotes
from tapebook.tape.features.returns import covered_ms, ended_bars, since, sum_of_squares
from tapebook.tape.store import View
from tapebook.wiring import Rooms

POSITION, PRICE, VOLATILITY = "current_position_", "live_price_", "volatility_5m_"

_SPAN = 5 * MINUTE
_LEAST_COVERED = 0.75


class LiveView:
    """The moment as the rooms know it."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def values(self, scope: str, *, at: int, key: str | None = None) -> dict[str, Any]:
        """The keys of a deployment, or of all together, with their values at a moment; or those of one key."""
        wanted = [key] if key else self._keys(scope, at)
        found = {name: self._value(scope, name, at) for name in wanted}
        return {name: value for name, value in found.items() if value is not None}

    def _keys(self, scope: str, at: int) -> list[str]:
        """Of everything that is watched or held."""
        agents = [profile for _, profile in self._rooms.book.agents()]
        watched = [set(agent.watchlist) for agent in agents if scope in ("", deployment_id(agent))]
        symbols = self._held(scope, at).keys() | set().union(*watched)
        return [f"{kind}{symbol}" for kind in (POSITION, PRICE, VOLATILITY) for symbol in sorted(symbols)]

    def _value(self, scope: str, key: str, at: int) -> Any:
        if key.startswith(POSITION):
            held = self._held(scope, at).get(key.removeprefix(POSITION))
            return None if held is None else {"size": held[0] / E8, "cost_usd": held[1] / E6}
        if key.startswith(PRICE):
            return self._price(key.removeprefix(PRICE), at)
        return self._volatility(key.removeprefix(VOLATILITY), at) if key.startswith(VOLATILITY) else None

    def _held(self, scope: str, at: int) -> dict[str, tuple[int, int]]:
        """Sizes and costs by symbol."""
        book, held = self._rooms.book, dict[str, tuple[int, int]]()
        for name in [scope] if scope else [deployment for deployment, _ in book.deployments()]:
            account = book.account(name, seq=book.seq_as_of(name, at))
            for symbol, position in account.portfolio.positions.items():
                size, cost = held.get(symbol, (0, 0))
                held[symbol] = size + position.size_e8, cost + position.cost_usd_e6
        return held

    def _price(self, symbol: str, at: int) -> float | None:
        tape, view, today = self._rooms.tape, View(at), floor(at, DAY)
        mid = tape.newest(Mid, symbol, view=view)
        told = mid is not None and mid.bucket_ts >= today
        if not told and not tape.candles(symbol, granularity_sec=60, since=today, view=view):
            return None
        price = TapeQuotes(tape, view).mark_e8(symbol, at=at)
        return None if price is None else price / E8

    def _volatility(self, symbol: str, at: int) -> float | None:
        end = floor(at, MINUTE)
        bars = self._rooms.tape.candles(symbol, granularity_sec=60, since=end - _SPAN - MINUTE, view=View(at))
        inside = since(ended_bars(bars, as_of=at), end - _SPAN)
        covered = covered_ms(inside)
        if covered < _LEAST_COVERED * _SPAN:
            return None
        return round(math.sqrt(sum_of_squares(inside) * _SPAN / covered), 8)
