"""What a broker offers, what it must be told of an account, and what it may ask of the market."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

from tapebook import plug
from tapebook.domain.agent import MarginMode
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import BrokerEvent, FillRule, Increments, Order
from tapebook.domain.position import Portfolio, Position

BROKERS_FOLDER = "tapebook.broker.brokers"


@lru_cache(maxsize=64)
def trades_elsewhere(name: str) -> bool:
    """Whether agents at the broker of that name decide and trade by themselves: its module says `ELSEWHERE`."""
    # Cached, since a module says the same for as long as the process runs, and every tick asks.
    return hasattr(plug.load(BROKERS_FOLDER, name), "ELSEWHERE")


class Exposure(msgspec.Struct, frozen=True):
    """An open position, and up to when its funding is booked."""

    position: Position
    funded_until: int


class BrokerAccount(msgspec.Struct, frozen=True):
    """What a broker must know of an account; `walked_until` is how far its margin was checked before."""

    cash_usd_e6: int
    exposures: tuple[Exposure, ...] = ()
    margin: MarginMode = "cross"
    walked_until: int = 0


class BrokerActivity(msgspec.Struct, frozen=True):
    """What happened, in time order, and how far the account's margin is checked now."""

    events: tuple[BrokerEvent, ...]
    walked_until: int


class OrderBook(msgspec.Struct, frozen=True):
    """An order book: its spread in millionths, and what each side offers within 0.1, 0.5 and 1 % of the mid."""

    spread_ppm: int
    bids_usd_e6: tuple[int, int, int]
    asks_usd_e6: tuple[int, int, int]


class Settlement(msgspec.Struct, frozen=True):
    """The end of a symbol that was delisted: when, and the price at which what is still held is closed."""

    at: int
    price_e8: int


class MarketListing(msgspec.Struct, frozen=True):
    """What the exchange's list says of a symbol: decimals of its sizes and its largest leverage; None if not known."""

    size_decimals: int | None = None
    max_leverage: int | None = None


class PaperTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What paper trading costs and allows; shares of a price or a value in millionths, so that they are integers."""

    latency_ms: int
    taker_fee_ppm: int
    maker_fee_ppm: int
    spread_ppm: int
    impact_ppm_per_100k: int
    max_impact_ppm: int
    liquidation_fee_ppm: int
    limit_order_ms: int
    default_max_leverage: int
    fill: FillRule
    lots: bool = False


class Quotes(Protocol):
    """The market as far as it is known; a broker cannot see beyond it."""

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """What was observed between two moments, both included, oldest first."""
        ...

    def bars(self, symbol: str, *, since: int, until: int) -> Sequence[Candle]:
        """Bars that begin at or after one moment and end by another, oldest first, all as long as `bar_ms` says."""
        ...

    def bar_alone(self, symbol: str, *, begins: int, until: int) -> Candle | None:
        """The bar that begins at a moment, if it ended by another and no midpoint was observed in its time."""
        ...

    def bar_ms(self, symbol: str) -> int:
        """How long a symbol's bars are: a minute, or longer where that is all there is; lengths divide one another."""
        ...

    def book(self, symbol: str, *, at: int) -> OrderBook | None:
        """The order book at a moment, or None when none was recorded lately."""
        ...

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The price a position is valued at."""
        ...

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The hourly rate that was due at an hour, or None when none is known."""
        ...

    def settlement(self, symbol: str) -> Settlement | None:
        """How a symbol ended that is known to be delisted by now; None for one that is traded."""
        ...

    def listing(self, symbol: str, *, at: int) -> MarketListing:
        """What the exchange's list was known to say of a symbol at a moment."""
        ...


OrderStatus = Literal["resting", "filled", "cancelled", "rejected", "never seen", "unknown"]


class OrderState(msgspec.Struct, frozen=True):
    """What a broker knows of an order; `detail` says why, of a refusal and of what is not known.

    resting      it has the order, and some of it is not executed yet
    filled       it has executed all of it
    cancelled    it had the order, and the rest of it will never be executed
    rejected     it refused the order, for good
    never seen   it does not have the order, and one that was sent before cannot arrive any more, or does no harm
    unknown      nobody can say: the request or the answer was lost
    """

    status: OrderStatus
    detail: str = ""

    @property
    def has_arrived(self) -> bool:
        """Whether the broker has taken the order, whatever became of it since: `activity_since` tells that."""
        return self.status in ("resting", "filled", "cancelled")


class OpenOrder(msgspec.Struct, frozen=True):
    """An order that rests at a broker, and how much of it is left; one that is not ours may have no client id."""

    client_id: str | None
    symbol: str
    signed_left_e8: int


class BookedAccount(msgspec.Struct, frozen=True):
    """An account as our book has it, up to a moment, and the market as far as it is known.

    A broker without a state of its own (paper) computes its answers from this; an exchange is asked by its adapter,
    which needs little of it: `since` is a moment before which everything is booked, `until` is now.
    """

    account: BrokerAccount
    orders: tuple[Order, ...]
    quotes: Quotes
    until: int
    since: int = 0


class Broker(Protocol):
    """A place that executes orders.

    A connection that is lost while an order is placed, cancelled or asked for is an answer ("unknown") and no
    exception: whoever asked must know that nothing is known. The three reads have no such answer, for an account
    that cannot be read must not look like an empty one: they raise `BrokerAway`, and nothing is decided on it.
    """

    @property
    def account(self) -> str | None:
        """The exchange account all orders go to, which one deployment alone may use; None if each has its own."""
        ...

    def place(self, order: Order) -> OrderState:
        """Hands an order over: resting, filled, rejected or unknown; a client id counts once."""
        ...

    def cancel(self, client_id: str, booked: BookedAccount) -> OrderState:
        """Takes an order out of the market; "cancelled" also of one that was, anything else says why it is not.

        What was executed before is told by `activity_since`, so that is asked after it.
        """
        ...

    def order_state(self, client_id: str, booked: BookedAccount) -> OrderState:
        """What became of an order that may have been handed over."""
        ...

    def open_orders(self, booked: BookedAccount) -> tuple[OpenOrder, ...]:
        """Every order that rests for the account, ours or not."""
        ...

    def activity_since(self, booked: BookedAccount) -> BrokerActivity:
        """Fills, funding and ends of orders that are not booked yet, in time order: partial fills one by one.

        What is booked already may be among them; it is told apart by the id of a fill, by symbol and moment of a
        funding payment, and by the client id of an order that has ended.
        """
        ...

    def account_state(self, booked: BookedAccount) -> Portfolio:
        """What the broker says the account holds now: the booked account, moved by all that is not booked yet."""
        ...

    def increments(self, symbol: str, listing: MarketListing) -> Increments | None:
        """The steps in which sizes and prices of a symbol go, as it is listed; None where any will do."""
        ...
