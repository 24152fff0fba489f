"""Exits at random, a ledger that learns of them in any order, and what naive arithmetic says of a span."""

from collections.abc import Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.units import DAY, E6, parse_instant
from tapebook.horizons.aggregate import Aggregate, TradeExit, leaf_of
from tapebook.horizons.contexts import LayerConnection
from tapebook.horizons.events import PROJECTION
from tapebook.horizons.layers import PERIOD_KINDS, Period, PeriodKind, period_of
from tapebook.horizons.rollup import ChangedDay, catch_up
from tapebook.horizons.store import MIGRATIONS
from tapebook.log import Log
from tapebook.log.store import MIGRATIONS as LOG

START = parse_instant("2025-12-20")
NOW = parse_instant("2027-02-01")
SCOPE = "a.paper"
TAGS = ("trend_up_lowvol", "trend_down_hivol", "chop_lowvol", "chop_hivol", None)


def exit_at(instant: int | str, net_usd: float = 1.0, **more: Any) -> TradeExit:
    """A trade of 1,000 USD that ended at a moment, held for an hour."""
    at = parse_instant(instant) if isinstance(instant, str) else instant
    fields: dict[str, Any] = {
        "trade_id": f"t{at}",
        "symbol": "BTC",
        "side": "long",
        "held_ms": 3_600_000,
        "entered_usd_e6": 1_000 * E6,
        "fees_usd_e6": 0,
        "funding_usd_e6": 0,
    }
    return TradeExit(exited_at=at, gross_usd_e6=round(net_usd * E6), **(fields | more))


# Made once, and one draw gives a whole trade: drawing takes longer than what is tested with it.
TRADES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "symbol": st.sampled_from(("BTC", "ETH", "SOL")),
        "side": st.sampled_from(("long", "short")),
        "exited_at": st.integers(0, DAY - 1),
        "held_ms": st.integers(0, 10 * DAY),
        "entered_usd_e6": st.integers(1, 10**11),
        "gross_usd_e6": st.integers(-(10**10), 10**10),
        "fees_usd_e6": st.integers(0, 10**8),
        "funding_usd_e6": st.integers(-(10**8), 10**8),
        "strategy": st.sampled_from(("trend", "carry", "external")),
        "confidence_e4": st.none() | st.integers(0, 10_000),
        "regime": st.sampled_from(TAGS),
        "reason": st.sampled_from(("stop", "target")),
    }
)


@st.composite
def ledgers(draw: st.DrawFn, most: int = 40, days: int = 420) -> list[TradeExit]:
    """Closed trades over somewhat more than a year, several on some days, in no order."""
    count = draw(st.integers(0, most))
    busy = st.sampled_from(draw(st.lists(st.integers(0, days), min_size=1, max_size=12)))
    made = []
    for number in range(count):
        day, trade = START + draw(busy) * DAY, draw(TRADES)
        made.append(TradeExit(**trade | {"trade_id": f"t{number}", "exited_at": day + trade["exited_at"]}))
    return made


def leaves_of(exits: Sequence[TradeExit]) -> dict[Period, Aggregate]:
    """The leaf of every day something ended on, in the order of time."""
    days: dict[Period, list[TradeExit]] = {}
    for each in exits:
        days.setdefault(period_of("day", each.exited_at), []).append(each)
    return {day: leaf_of(day, days[day]) for day in sorted(days)}


class Ledger:
    """Trades of one deployment, each known from a sequence number on; what a book would answer."""

    def __init__(self, log: Log | None = None) -> None:
        self.known: list[tuple[int, TradeExit]] = []
        self.read_days: list[str] = []
        self.head = 0

    def learn(self, exits: Sequence[TradeExit]) -> None:
        """The next trades, in the order they became known."""
        for each in exits:
            self.head += 1
            self.known.append((self.head, each))

    def heads(self, scope: str) -> dict[str, int]:
        """One deployment."""
        return {SCOPE: self.head}

    def changed_days(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> list[ChangedDay]:
        """Exits known between."""
        known = [(seq, each) for seq, each in self.known if after.get(SCOPE, 0) < seq <= until[SCOPE]]
        return [ChangedDay(SCOPE, seq, each.exited_at) for seq, each in known]

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """A day's leaf; which days were asked for is noted."""
        self.read_days.append(day.key)
        return leaf_of(day, [each for seq, each in self.known if seq <= until[SCOPE] and each.exited_at in day])


def opened(db: Database, ledger: Ledger | None = None, *, now: int = NOW, owner: str = "me") -> LayerConnection:
    """A connection on a database that has the tables."""
    clock = VirtualClock(now)
    return LayerConnection(db, Log(db, [PROJECTION], clock=clock), owner=owner, clock=clock, days=ledger)


@contextmanager
def in_memory(ledger: Ledger | None = None, *, now: int = NOW) -> Any:
    """A connection on a new database."""
    with closing(connect(":memory:")) as db:
        migrate(db, (LOG, MIGRATIONS))
        yield opened(db, ledger, now=now)


def roll(conn: LayerConnection, scope: str = SCOPE) -> int:
    """Catches up and writes it; how many events that took."""
    seq = conn.head(scope)
    drafts = catch_up(conn.store, conn.days, scope, seq=seq, at=conn.now())
    conn.append(scope, drafts, expected_seq=seq)
    return len(drafts)


ABOVE_DAYS: tuple[PeriodKind, ...] = PERIOD_KINDS[1:]
