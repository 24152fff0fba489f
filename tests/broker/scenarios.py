"""Random markets with orders and positions in them, made so that everything meets: minutes, hours, executions, falls.

Times lie on a grid of twenty seconds around a full hour. A market is calm, lively or wild; a wild
one liquidates nearly everything. Bars are sometimes missing and never quite agree with the
midpoints, so that whoever takes one for the other is found out. Most are minutes; some symbols have
bars of two or four.
"""

from random import Random

import msgspec
from hypothesis import strategies as st

from tapebook.broker import Broker, BrokerAccount, Exposure, OrderBook, PaperTerms
from tapebook.domain.agent import MarginMode
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import Order, OrderType
from tapebook.domain.position import Position
from tapebook.domain.units import E6, E8, HOUR, MINUTE
from tests.broker.market import NOON, TERMS, Market, Teller

# Two that the margin tables know, with tiers, and one that they do not.
SYMBOLS = ("ARB", "BTC", "NEW")
STEP = 20_000
START, END = NOON - 4 * MINUTE, NOON + 6 * MINUTE
MOMENTS = range(START, END, STEP)


class Scenario(msgspec.Struct, frozen=True):
    """A market, an account, and the orders it sends."""

    market: Market
    account: BrokerAccount
    orders: tuple[Order, ...]
    terms: PaperTerms

    def teller(self) -> Teller:
        """The account before anything has happened."""
        return Teller(self.account, self.orders)

    def lived(self, broker: Broker, *stops: int) -> Teller:
        """The account after asking a broker at some moments, and at the end."""
        teller = self.teller()
        for stop in sorted({*stops, END}):
            teller.ask(broker, self.market, until=stop)
        return teller


class Chance:
    """Everything random in a scenario, from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.swing = self.one((0.0003, 0.003, 0.03))

    def one(self, choices: tuple[float, ...]) -> float:
        """One of several numbers."""
        return self._random.choice(choices)

    def path(self, length: int) -> list[int]:
        """A price that begins near 100."""
        price = self._random.uniform(95, 105)
        found = []
        for _ in range(length):
            price *= 1 + self._random.gauss(0, self.swing)
            found.append(round(price * E8))
        return found

    def mids(self, symbol: str) -> list[Mid]:
        """Midpoints of most moments, now and then of none for minutes, or of none at all."""
        if self._random.random() < 0.15:
            return []
        silent = self._random.choice([*MOMENTS])
        gap = self._random.choice([0, 0, 3 * MINUTE, 8 * MINUTE])
        prices = self.path(len(MOMENTS))
        found = [Mid(symbol, at, price) for at, price in zip(MOMENTS, prices, strict=True)]
        return [mid for mid in found if not silent <= mid.bucket_ts < silent + gap and self._random.random() < 0.9]

    def bars(self, symbol: str) -> list[Candle]:
        """Bars of most of the time, all of one length."""
        minutes = self._random.choice([1, 1, 1, 2, 4])
        starts = range(START - 4 * MINUTE, END, minutes * MINUTE)
        prices = self.path(len(starts) + 1)
        found = []
        for start, first, last in zip(starts, prices, prices[1:], strict=False):
            high = max(first, last) + round(abs(self._random.gauss(0, self.swing)) * 100 * E8)
            low = min(first, last) - round(abs(self._random.gauss(0, self.swing)) * 100 * E8)
            if self._random.random() < 0.85:
                found.append(Candle(symbol, minutes * 60, start, first, high, max(1, low), last, 1.0, 1.0, 1))
        return found

    def book(self) -> OrderBook:
        """A book, thin as the orders are large."""

        def side() -> tuple[int, int, int]:
            near, middle, far = sorted(self._random.choice([0, 1, 37, 1_003, 40_009]) * E6 for _ in range(3))
            return near, middle, far

        return OrderBook(self._random.choice([0, 3, 151, 2_999, 25_000]), side(), side())

    def market(self) -> Market:
        """Ten minutes of up to three symbols."""
        symbols = self._random.sample(SYMBOLS, self._random.choice([1, 2, 2, 3]))
        mids = [mid for symbol in symbols for mid in self.mids(symbol)]
        bars = [bar for symbol in symbols for bar in self.bars(symbol)]
        books = [(symbol, at, self.book()) for symbol in symbols for at in MOMENTS if self._random.random() < 0.05]
        rates = {f"{symbol} {NOON}": self._random.randint(-(10**10), 10**10) for symbol in symbols}
        return Market(tuple(mids), tuple(bars), tuple(books), rates if self._random.random() < 0.8 else {})

    def size(self) -> int:
        """What costs from a cent to some ten thousand USD."""
        return round(10 ** self._random.uniform(4, 10)) + self._random.randint(0, 3)

    def order(self, number: int) -> Order:
        """Any order; ids do not stand in the order of time."""
        kinds: list[OrderType] = ["market", "market", "limit"]
        kind = self._random.choice(kinds)
        return Order(
            client_id=f"{self._random.choice('abc')}{number}",
            run_id="r",
            symbol=self._random.choice(SYMBOLS),
            side=self._random.choice(["buy", "sell"]),
            size_e8=self.size(),
            type=kind,
            limit_price_e8=round(self._random.uniform(97, 103) * E8) if kind == "limit" else None,
            reduce_only=self._random.random() < 0.25,
            leverage=self._random.choice([1, 2, 3, 5, 10, 20, 40, 41]),
            intended_at=self._random.choice([*MOMENTS]),
        )

    def exposure(self, symbol: str) -> Exposure:
        """A position from before the market begins, or from its first moments."""
        size, price = self.size() * self._random.choice([1, -1]), round(self._random.uniform(97, 103) * E8)
        cost, leverage = round(size * price / 10**10), self._random.choice([1, 3, 10, 40])
        moved = self._random.choice([START - HOUR, START - MINUTE, START - STEP])
        margin = -(-abs(cost) // leverage) + self._random.randint(-E6, E6)
        return Exposure(Position(symbol, size, cost, leverage, margin, moved), moved)

    def account(self) -> BrokerAccount:
        """An account that may be short of money."""
        names = sorted(self._random.sample(SYMBOLS, self._random.choice([0, 1, 2])))
        cash = round(10 ** self._random.uniform(1, 5) * E6)
        modes: list[MarginMode] = ["cross", "isolated"]
        margin = self._random.choice(modes)
        return BrokerAccount(cash, tuple(map(self.exposure, names)), margin, self._random.choice([0, START - MINUTE]))

    def terms(self) -> PaperTerms:
        """Paper trading as it may be set."""
        return msgspec.structs.replace(
            TERMS,
            latency_ms=self._random.choice([0, 500]),
            impact_ppm_per_100k=self._random.choice([0, 70_000]),
            limit_order_ms=self._random.choice([MINUTE, HOUR]),
        )


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    chance = Chance(seed)
    count = int(chance.one((0, 2, 4, 8)))
    return Scenario(
        chance.market(), chance.account(), tuple(chance.order(number) for number in range(count)), chance.terms()
    )


def scenarios() -> st.SearchStrategy[Scenario]:
    """Any scenario. A market is too large to be drawn number by number, so its seed is."""
    return st.integers(0, 2**32).map(scenario)
