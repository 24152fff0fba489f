"""The seed's API: `init_db`, `ContextStore` and `ContextAggregator` over the layers, now or as of any moment.

    store = ContextStore(conn)
    store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", 1234.56)
    store.get_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl")

`tapebook.open(home)` gives a connection for a home. `init_db` opens a database that holds layers and nothing else:
there, days are what somebody writes into L6 (`StatedLeaves`), for there are no trades, and L7 is what somebody writes
into it. Where the roll-up and somebody else both have a value of one key, the roll-up's stands under the key, for it
can be computed again, and the other one beside it as `<key>_curated` or `<key>_observed`. The same holds for what is
`live`: in a home the positions, prices and volatilities of L7, and in L6 the day that is running, are not stored but
computed as of the moment that is asked for. Every aggregation repairs all ancestors of the days it finds new, so that
sums agree at any moment; the methods of the single layers carry their names from a chain of layers, but here each is
built from days.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tapebook.clock import SystemClock
from tapebook.db import Database, migrate
from tapebook.db import connect as open_database
from tapebook.domain.units import DAY, E6, divide_half_even, to_units
from tapebook.errors import BadInput
from tapebook.horizons import events as ev
from tapebook.horizons.aggregate import Aggregate, Sums, running_total_of
from tapebook.horizons.events import NO_VALUE, PROJECTION
from tapebook.horizons.layers import (
    LAYER_SPECS,
    LEGACY,
    ContextLayer,
    Period,
    PeriodKind,
    check_key,
    is_leaf,
    parse_period,
    period_of,
    value_text,
)
from tapebook.horizons.markets import MarketDays
from tapebook.horizons.rollup import ChangedDay, LeafSource, catch_up, expire_layers, roll_up_period
from tapebook.horizons.store import MIGRATIONS, Horizons, LayerValue
from tapebook.horizons.values import RollupTerms, values_of
from tapebook.log import Draft, Leases, Log, Stream
from tapebook.log.store import MIGRATIONS as LOG


class StatedLeaves:
    """Leaves from the keys total_pnl, trade_count, win_rate and avg_confidence of a day, as far as they are numbers."""

    def __init__(self, store: Horizons, log: Log) -> None:
        self._store = store
        self._log = log

    def heads(self, scope: str) -> dict[str, int]:
        """The scope's own stream, for that is where entries are."""
        return {scope: self._log.head(Stream(self._store.owner, scope)).seq}

    def changed_days(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> list[ChangedDay]:
        """The days that were written since."""
        since, head = after.get(scope, 0), until[scope]
        days = self._store.observed_days(scope, after=since, until=head)
        return [ChangedDay(scope, since + 1, parse_period("day", day).start) for day in days]

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """What was written of a day."""
        found = self._store.values(scope, ContextLayer.L6_DAILY, day.key, seq=until[scope])
        values = {each.key: msgspec.json.decode(each.value) for each in found if each.origin == "observed"}
        return leaf_of_stated_values(day, values)


def leaf_of_stated_values(day: Period, values: Mapping[str, Any]) -> Aggregate:
    """A leaf from the values of a day; without a result there is none."""
    net, trades = _scaled_number(values, "total_pnl", E6), _scaled_number(values, "trade_count", 1)
    # Without a result there is no leaf: the other values of a day cannot be summed by themselves.
    if net is None:
        return Aggregate()
    count, sure = max(trades or 0, 0), _scaled_number(values, "avg_confidence", 10_000)
    won = divide_half_even(count * (_scaled_number(values, "win_rate", E6) or 0), 100 * E6)
    return Aggregate(
        trades=count,
        # Stated by others: a win rate of 130 % must not break the sums above.
        wins=max(0, min(count, won)),
        net_usd_e6=net,
        gross_usd_e6=net,
        first_day=day.start // DAY,
        last_day=day.start // DAY,
        daily=Sums(1, net, net * net),
        confidence_e4=Sums() if sure is None else Sums(1, sure, sure * sure),
        path=running_total_of(net),
        years=(int(day.key[:4]),),
    )


def _scaled_number(values: Mapping[str, Any], key: str, unit: int) -> int | None:
    value = values.get(key)
    # True is an int in Python, and no amount.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return to_units(value, unit)
    except ValueError:
        return None


DEFAULT_OWNER = "local"


class LayerClock(Protocol):
    """Anything that knows market time."""

    def now(self) -> int:
        """UTC milliseconds."""
        ...


class LiveLayer(Protocol):
    """What is so at a moment, computed when it is asked for: positions, prices, short volatility (L7)."""

    def values(self, scope: str, *, at: int, key: str | None = None) -> Mapping[str, Any]:
        """The keys of a scope with their values at a moment, all of them or one."""
        ...


class LayerConnection:
    """The layers of one owner, for reading and writing at this moment."""

    def __init__(
        self,
        db: Database,
        log: Log,
        *,
        owner: str,
        clock: LayerClock,
        days: LeafSource | None = None,
        live: LiveLayer | None = None,
        leases: Leases | None = None,
        terms: RollupTerms | None = None,
    ) -> None:
        if not owner:
            raise BadInput("layers belong to somebody: name an owner")
        self._db = db
        self._log = log
        self._clock = clock
        self._leases = leases
        self.owner = owner
        self.store = Horizons(db, owner=owner)
        self.days: LeafSource = days or StatedLeaves(self.store, log)
        self.live = live
        self.terms = terms

    def market_days(self, scope: str) -> MarketDays | None:
        """The prices of a scope's days; a database of layers alone has none."""
        return None

    def now(self) -> int:
        """The clock's time."""
        return self._clock.now()

    def head(self, scope: str) -> int:
        """The newest sequence number of a scope's stream."""
        return self._log.head(Stream(self.owner, scope)).seq

    def seq_as_of(self, scope: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(Stream(self.owner, scope), as_of)

    def known_at(self, scope: str, seq: int) -> int:
        """When an event of a scope became known; 0 when there is none of that number."""
        events = self._log.events(Stream(self.owner, scope), after=seq - 1, until=seq)
        return next((event.known_at for event in events), 0)

    def append(self, scope: str, drafts: Sequence[Draft], *, expected_seq: int) -> None:
        """Writes events under the lease in hand, if any; StaleWriter when the stream moved on."""
        if drafts:
            stream = Stream(self.owner, scope)
            lease = self._leases.for_write(stream) if self._leases else None
            self._log.append(stream, drafts, expected_seq=expected_seq, lease=lease)

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()


class HasHorizons(Protocol):
    """Something larger that holds a connection, such as what `tapebook.open` gives."""

    @property
    def horizons(self) -> LayerConnection:
        """Its layers."""
        ...


def init_db(place: str, *, clock: LayerClock | None = None, owner: str = DEFAULT_OWNER) -> LayerConnection:
    """Opens or makes a database of layers alone: a path, or a `postgresql://` URL; time is the machine's by default."""
    if "://" not in place and place != ":memory:":
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    db, clock = open_database(place), clock or SystemClock()
    migrate(db, (LOG, MIGRATIONS))
    return LayerConnection(db, Log(db, [PROJECTION], clock=clock), owner=owner, clock=clock)


def connection_of(conn: LayerConnection | HasHorizons) -> LayerConnection:
    """The connection itself, or the one somebody holds."""
    return conn if isinstance(conn, LayerConnection) else conn.horizons


# Where two origins have one key, the computed value keeps it and the written one gets its origin as a suffix.
COMPUTED_ORIGINS = ("rollup", "live")


class ContextStore:
    """The layers of a deployment, or of all of them together (an empty scope)."""

    def __init__(self, conn: LayerConnection | HasHorizons, *, scope: str = "") -> None:
        self._conn = connection_of(conn)
        self._scope = scope

    def set_context(self, layer: ContextLayer, timeframe: str, key: str, value: Any) -> None:
        """Writes a value that JSON can hold. Above the days it is the owner's comment: marked, and never summed."""
        seq, now = self._conn.head(self._scope), self._conn.now()
        checked = checked_values(layer, timeframe, {key: value})
        first = self._conn.store.first_kept(self._scope, layer, seq=seq)
        # What is older was dropped; written again it would stand alone, without what it was part of.
        if timeframe < first:
            raise BadInput(f"{timeframe} of {layer} is past its time: the oldest that is kept is {first}")
        self._conn.append(
            self._scope, [draft_values_written(checked, owner=self._conn.owner, at=now)], expected_seq=seq
        )

    def get_context(
        self,
        layer: ContextLayer,
        timeframe: str,
        key: str,
        *,
        origin: ev.Origin | None = None,
        as_of: int | None = None,
        seq: int | None = None,
    ) -> Any:
        """One value, or None; of a certain origin when asked."""
        found = self._values_of(layer, timeframe, self._read_limit(as_of, seq), key=key)
        if origin:
            found = [each for each in found if each.origin == origin]
        return values_by_key(each for each in found if each.key == key).get(key)

    def get_all_contexts(
        self, layer: ContextLayer, timeframe: str | None = None, *, as_of: int | None = None, seq: int | None = None
    ) -> dict[str, Any]:
        """Every key of a timeframe; or every key of a layer, each of the latest timeframe that has it."""
        when = self._read_limit(as_of, seq)
        if timeframe is not None:
            return values_by_key(self._values_of(layer, timeframe, when))
        live = {each.key: each for each in self._live_values(layer, when)}
        newest = self._conn.store.newest_values(self._scope, layer, seq=when.seq)
        # A live value of today stands for the stored one of an earlier day.
        old = [each for each in newest if each.key in live and each.timeframe < live[each.key].timeframe]
        return values_by_key([*live.values(), *(each for each in newest if each not in old)])

    def get_latest_timeframe(
        self, layer: ContextLayer, *, as_of: int | None = None, seq: int | None = None
    ) -> str | None:
        """The latest timeframe of a layer: by its own time, whichever was written last."""
        when = self._read_limit(as_of, seq)
        stored = self._conn.store.latest_timeframe(self._scope, layer, seq=when.seq)
        return max([stored or "", *(each.timeframe for each in self._live_values(layer, when))]) or None

    def entries(self, layer: ContextLayer, *, as_of: int | None = None, seq: int | None = None) -> list[LayerValue]:
        """Everything of a layer that is kept, the newest timeframe first, with who wrote it."""
        when = self._read_limit(as_of, seq)
        frames = set(self._conn.store.timeframes(self._scope, layer, seq=when.seq))
        running = self._live_values(layer, when)
        frames |= {each.timeframe for each in running}
        # The running day is summed from all of its trades, so it is not asked for again with every timeframe.
        live = running if layer is ContextLayer.L6_DAILY else None
        found = [
            each for frame in sorted(frames, reverse=True) for each in self._values_of(layer, frame, when, running=live)
        ]
        return [each for each in found if each.value != NO_VALUE]

    def cleanup_expired_contexts(self) -> dict[ContextLayer, int]:
        """Drops what is past its retention, counted from the end of its period; returns how many keys of each layer.

        Later reads do not see them. Reads as of an earlier moment do: a decision made then must replay.
        """
        seq = self._conn.head(self._scope)
        counts, drafts = expire_layers(self._conn.store, self._scope, seq=seq, now=self._conn.now())
        self._conn.append(self._scope, drafts, expected_seq=seq)
        return counts

    def _values_of(
        self,
        layer: ContextLayer,
        timeframe: str,
        when: "_ReadLimit",
        *,
        key: str | None = None,
        running: Sequence[LayerValue] | None = None,
    ) -> list[LayerValue]:
        LAYER_SPECS[layer].period(timeframe)
        stored = self._conn.store.values(self._scope, layer, timeframe, seq=when.seq)
        if running is None:
            live = self._live_values(layer, when, timeframe=timeframe, key=key)
        else:
            live = [each for each in running if each.timeframe == timeframe]
        # A roll-up of the day that is running is as old as the trade that ended after it.
        keys = {each.key for each in live}
        return [*live, *(each for each in stored if each.origin != "rollup" or each.key not in keys)]

    def _live_values(
        self, layer: ContextLayer, when: "_ReadLimit", *, timeframe: str | None = None, key: str | None = None
    ) -> list[LayerValue]:
        """What is computed of a day of L7: as it was at its end, or is by now; nothing once it is past its time.

        Of L6 it is the day that is running, as far as it has come.
        """
        if self._conn.live is None:
            return []
        if layer is ContextLayer.L6_DAILY:
            return self._running_day(when, timeframe=timeframe, key=key)
        if layer is not ContextLayer.L7_REALTIME:
            return []
        spec, today = LAYER_SPECS[layer], period_of("day", when.at)
        day = today if timeframe is None else spec.period(timeframe)
        if day > today or day.key < (spec.first_kept(now=when.at) or ""):
            return []
        # Of a day that is over, its last moment.
        values = self._conn.live.values(self._scope, at=min(when.at, day.end - 1), key=key)
        return [LayerValue(name, "live", value_text(value), day.key) for name, value in values.items()]

    def _running_day(self, when: "_ReadLimit", *, timeframe: str | None, key: str | None) -> list[LayerValue]:
        today, conn = period_of("day", when.at), self._conn
        if timeframe not in (None, today.key):
            return []
        heads = conn.days.heads(self._scope)
        until = {name: min(seq, conn.seq_as_of(name, when.at)) for name, seq in heads.items()}
        if self._scope:
            until = {self._scope: when.seq}
        leaf = conn.days.leaf(self._scope, today, until=until)
        values = values_of(today, leaf, conn.terms or RollupTerms()) if leaf.trades else {}
        return [LayerValue(name, "live", value, today.key) for name, value in values.items() if key in (None, name)]

    def _read_limit(self, as_of: int | None, seq: int | None) -> "_ReadLimit":
        if seq is not None:
            return _ReadLimit(seq, self._conn.known_at(self._scope, seq))
        if as_of is not None:
            return _ReadLimit(self._conn.seq_as_of(self._scope, as_of), as_of)
        return _ReadLimit(self._conn.head(self._scope), self._conn.now())


class _ReadLimit(msgspec.Struct, frozen=True):
    """How far a read may see: the newest event, and the moment it is asked for."""

    seq: int
    at: int


def checked_values(layer: ContextLayer, timeframe: str, values: Mapping[str, Any]) -> ev.TimeframeValues:
    """Checked values of a timeframe; BadInput says what is wrong with them."""
    LAYER_SPECS[layer].period(timeframe)
    for key in values:
        check_key(key)
    return ev.TimeframeValues(layer, timeframe, {key: value_text(value) for key, value in values.items()})


def draft_values_written(values: ev.TimeframeValues, *, owner: str, at: int) -> Draft:
    """The event of values by hand: observed in the leaf layers, curated above them."""
    return ev.draft(at, ev.LayerObserved(values) if is_leaf(values.layer) else ev.LayerCurated(owner, values))


def values_by_key(found: Iterable[LayerValue]) -> dict[str, Any]:
    """Values by key, those that were computed first; those that are gone are left out."""
    shown: dict[str, Any] = {}
    for each in sorted(found, key=lambda each: (each.key, each.origin not in COMPUTED_ORIGINS, each.origin)):
        if each.value != NO_VALUE:
            shown[f"{each.key}_{each.origin}" if each.key in shown else each.key] = msgspec.json.decode(each.value)
    return shown


class ContextAggregator:
    """Rolls up the layers of a deployment, or of all of them together (an empty scope)."""

    def __init__(
        self, conn: LayerConnection | HasHorizons, *, scope: str = "", terms: RollupTerms | None = None
    ) -> None:
        self._conn = connection_of(conn)
        self._scope = scope
        self._terms = terms or self._conn.terms

    def aggregate_daily_from_trades(self, date: str | None = None) -> None:
        """Sums up the trades that ended on a day, today by default; a day without any stays as it is."""
        self._roll("day", date)

    def aggregate_weekly_from_daily(self, week: str | None = None) -> None:
        """Rolls up a week such as 2026-W06."""
        self._roll("week", week)

    def aggregate_monthly_from_weekly(self, month: str | None = None) -> None:
        """Rolls up a month such as 2026-02, from its days."""
        self._roll("month", month)

    def aggregate_quarterly_from_monthly(self, quarter: str | None = None) -> None:
        """Rolls up a quarter such as 2026-Q1, from its days."""
        self._roll("quarter", quarter)

    def aggregate_annual_from_quarterly(self, year: str | None = None) -> None:
        """Rolls up a year such as 2026, from its days."""
        self._roll("year", year)

    def aggregate_legacy_from_annual(self) -> None:
        """Rolls up all time, from its days."""
        self._roll("legacy", LEGACY)

    def run_all_aggregations(self) -> None:
        """Brings every layer up to date, whatever was missed; twice in a row, the second writes nothing."""
        conn, seq = self._conn, self._conn.head(self._scope)
        market = conn.market_days(self._scope)
        drafts = catch_up(conn.store, conn.days, self._scope, seq=seq, at=conn.now(), terms=self._terms, market=market)
        conn.append(self._scope, drafts, expected_seq=seq)

    def _roll(self, kind: PeriodKind, key: str | None) -> None:
        conn, seq = self._conn, self._conn.head(self._scope)
        period = period_of(kind, conn.now()) if key is None else parse_period(kind, key)
        drafts = roll_up_period(conn.store, conn.days, self._scope, period, seq=seq, at=conn.now(), terms=self._terms)
        conn.append(self._scope, drafts, expected_seq=seq)
