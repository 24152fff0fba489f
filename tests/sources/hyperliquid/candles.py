"""A small market for tests of bars: minutes with trades, the frames they cause, and the bars they end as."""

from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import MINUTE

START = 1_785_053_340_000


def picture(symbol: str, minute: int, prices: list[int]) -> Candle:
    """The bar of a minute after trades at these prices, one unit each."""
    begins = START + minute * MINUTE
    volume = float(len(prices))
    bar = (prices[0], max(prices), min(prices), prices[-1], volume, float(sum(prices)), len(prices))
    return Candle(symbol, 60, begins, *bar)


def flat(symbol: str, minute: int, price: int = 1) -> Candle:
    """The row by which REST may show a minute without trades."""
    return Candle(symbol, 60, START + minute * MINUTE, price, price, price, price, 0.0, 0.0, 0)


class Market:
    """Trades by symbol and minute; a minute without trades is quiet."""

    def __init__(self, trades: dict[tuple[str, int], list[int]]) -> None:
        self.trades = {place: prices for place, prices in trades.items() if prices}
        self.symbols = sorted({symbol for symbol, _ in self.trades})
        self.end = START + (1 + max((minute for _, minute in self.trades), default=0)) * MINUTE

    def frames(self) -> list[tuple[int, Candle]]:
        """Every frame with the moment it is sent, in order."""
        sent = [
            (START + minute * MINUTE + (number + 1) * 1_000, picture(symbol, minute, prices[: number + 1]))
            for (symbol, minute), prices in self.trades.items()
            for number in range(len(prices))
        ]
        return sorted(sent, key=lambda frame: (frame[0], frame[1].symbol))

    def rows(self, symbol: str) -> list[Candle]:
        """What REST answers for the whole time, flat rows of quiet minutes included."""
        minutes = (self.end - START) // MINUTE
        shown = [(minute, self.trades.get((symbol, minute))) for minute in range(minutes)]
        return [picture(symbol, minute, prices) if prices else flat(symbol, minute) for minute, prices in shown]

    def final(self) -> dict[tuple[str, int], Candle]:
        """The bars as they end, by symbol and beginning."""
        bars = [picture(symbol, minute, prices) for (symbol, minute), prices in self.trades.items()]
        return {(bar.symbol, bar.bucket_ts): bar for bar in bars}


def markets() -> st.SearchStrategy[Market]:
    """Markets of three symbols over six minutes."""
    places = st.tuples(st.sampled_from(["A", "B", "C"]), st.integers(0, 5))
    trades = st.lists(st.integers(1, 9), min_size=1, max_size=6)
    return st.dictionaries(places, trades, min_size=1, max_size=18).map(Market)
