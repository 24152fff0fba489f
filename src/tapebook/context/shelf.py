"""Markets that were read already, for the agents that are due at the same moment.

A market is a function of its key: a symbol, the bars that are wanted, the moment and the tape's
watermark name rows that never change. So a market from the shelf and one read again are equal, and
the shelf only saves the reading.
"""

import msgspec

from tapebook.context.situation import Market

MOST_MARKETS = 512
"""Some 20 KB each; more than the symbols that are due at one moment."""


class MarketKey(msgspec.Struct, frozen=True):
    """All that a market depends on."""

    symbol: str
    bar_minutes: int
    bar_count: int
    as_of: int
    watermark: int


class MarketShelf:
    """The newest markets of one tape; the oldest gives way."""

    def __init__(self, most: int = MOST_MARKETS) -> None:
        self._most = most
        self._markets: dict[MarketKey, Market] = {}

    def __len__(self) -> int:
        return len(self._markets)

    def get(self, key: MarketKey) -> Market | None:
        """The market of a key, if it was read before."""
        return self._markets.get(key)

    def put(self, key: MarketKey, market: Market) -> None:
        """Keeps a market for others."""
        while len(self._markets) >= self._most:
            del self._markets[next(iter(self._markets))]
        self._markets[key] = market
