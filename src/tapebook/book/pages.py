"""Lists of the book, page by page and as of any moment: decisions, orders and round trips, newest first.

1. A page begins behind a row that is named by its id, and has at most so many rows. Rows are found by their place:
   (as_of, deployment, seq) of a decision, (intended_at, deployment, seq) of an order, the end of a trade. It never
   changes, so whoever walks through all pages meets every row once, whatever is written meanwhile.
2. A list of all deployments merges theirs, of which each is read by its index.
3. As of a moment each stream counts up to the sequence number that was known then (`Until`), and a row is shown with
   the state it had there: tables have the newest state, and the events behind it have what was before.
"""

from collections.abc import Callable, Iterable
from heapq import merge
from itertools import islice
from typing import cast

import msgspec

from tapebook.book import events as ev
from tapebook.book.records import TRADE_COLUMNS, ActionRecord, OrderRecord, RunRecord, order_record_of_row
from tapebook.book.store import Book, closed_trade_of_row
from tapebook.db import Database, Queries, Query, Row
from tapebook.domain.position import ClosedTrade, MissingFact, TradeState
from tapebook.domain.run import DecisionRun
from tapebook.errors import BadInput, Damaged
from tapebook.log import Log

_QUERIES = Queries.load(
    "tapebook.book",
    "pages.sql",
    trade=", ".join(f"t.{name}" for name in TRADE_COLUMNS),
    exit=", ".join(f"t.{name}" for name in ClosedTrade.__struct_fields__[1:]),
)
# Beyond any moment and any sequence number, and an integer that both databases take.
_END = 2**62

Until = Callable[[str], int]
"""The newest sequence number of a deployment's stream that counts."""


class RunAsOf(msgspec.Struct, frozen=True):
    """A decision as it stood, with its times and what had become of its actions."""

    run: DecisionRun
    record: RunRecord


class TradeAsOf(msgspec.Struct, frozen=True):
    """A round trip as it stood, who made it, when that was written, and what is not known of it."""

    trade: TradeState | ClosedTrade
    agent: str
    agent_version: int
    created_at: int
    updated_at: int
    lacks: tuple[MissingFact, ...]


class BookPages:
    """The lists of one owner's book."""

    def __init__(self, book: Book, log: Log, db: Database) -> None:
        self._book = book
        self._log = log
        self._db = db
        self._owner = book.owner

    def until(self, as_of: int | None) -> Until:
        """How far each stream counts at a moment; without one, all of it does."""
        return (
            (lambda deployment: _END) if as_of is None else lambda deployment: self._book.seq_as_of(deployment, as_of)
        )

    def runs(self, deployment: str, *, until: Until, before: str | None, most: int) -> list[RunAsOf]:
        """The decisions of a deployment, or of all, that come behind one of them."""
        place = self._place(_QUERIES.run_place, before, "run")
        names = [deployment] if deployment else self._names(_QUERIES.deployments_with_runs)
        limits = {name: until(name) for name in names}

        def read(name: str) -> list[Row]:
            where = {"owner": self._owner, "deployment": name, "until": limits[name], **_behind(place, name)}
            return self._db.all(_QUERIES.runs_before, most=most, **where)

        return [self._run_as_of(row, limits[row[1]]) for row in _newest(map(read, names), most)]

    def newest_run(self, deployment: str, *, seq: int) -> tuple[str, int] | None:
        """The id of the newest decision and the moment it is of, as of a sequence number."""
        where = {"owner": self._owner, "deployment": deployment, "until": seq, **_behind(None, deployment)}
        row = self._db.one(_QUERIES.runs_before, most=1, **where)
        return None if row is None else (row[3], row[0])

    def orders(
        self, deployment: str, *, until: Until, before: str | None, working: bool, most: int
    ) -> list[OrderRecord]:
        """The orders of a deployment, or of all, that come behind one of them; or only those that had not ended."""
        place = self._place(_QUERIES.order_place, before, "order")
        names = [deployment] if deployment else self._names(_QUERIES.deployments_with_orders)
        limits = {name: until(name) for name in names}

        def read(name: str) -> list[Row]:
            where = {"owner": self._owner, "deployment": name, "until": limits[name], **_behind(place, name)}
            return self._db.all(_QUERIES.orders_before, most=most, working=int(working), **where)

        return [self._order_as_of(row, limits[row[1]]) for row in _newest(map(read, names), most)]

    def trades(
        self, deployment: str, *, seq: int, before: str | None, status: str | None, most: int
    ) -> list[TradeAsOf]:
        """The round trips of a deployment as of a sequence number, behind the one with the id `before`.

        Open ones come first, by their symbol, then those that ended, the newest end first.
        """
        symbol, ended = ("", seq + 1) if before is None else self._trade_place(deployment, before, seq)
        found: list[TradeAsOf] = []
        # An account has one open trade per symbol at most, so these are few.
        if status in (None, "open") and symbol is not None:
            trades = self._book.account(deployment, seq=seq).open_trades
            found += [self._open_trade(deployment, trades[each], seq) for each in sorted(trades) if each > symbol]
        if status in (None, "closed") and len(found) < most:
            where = {"owner": self._owner, "deployment": deployment, "before": ended, "most": most - len(found)}
            rows = self._db.all(_QUERIES.closed_before, **where)
            found += [self._closed_trade(deployment, row, seq) for row in rows]
        return found[:most]

    def _names(self, query: Query) -> list[str]:
        return [row[0] for row in self._db.all(query, owner=self._owner)]

    def _place(self, query: Query, before: str | None, noun: str) -> Row | None:
        if before is None:
            return None
        found = self._db.one(query, owner=self._owner, id=before)
        if found is None:
            raise _unknown_cursor(noun, before)
        return found

    def _trade_place(self, deployment: str, before: str, seq: int) -> tuple[str | None, int]:
        """The symbol behind which open trades go on, None when all of them came before; and where ended ones go on."""
        row = self._db.one(_QUERIES.trade_place, owner=self._owner, deployment=deployment, id=before, seq=seq)
        if row is None:
            raise _unknown_cursor("trade", before)
        symbol, exit_seq = row
        return (None, exit_seq) if exit_seq is not None and exit_seq <= seq else (symbol, seq + 1)

    def _run_as_of(self, row: Row, seq: int) -> RunAsOf:
        as_of, deployment, own_seq, run_id, created_at, status, ended_seq, ended_at = row
        event = self._log.event(self._book.stream(deployment), own_seq)
        if event is None:
            raise Damaged(f"run {run_id} is not in the log; `tapebook verify` lists what is missing")
        # The event has the decision as it was made; the row has the status it got last.
        run = ev.event_body(event, ev.RunDecided).run
        if ended_seq is not None and ended_seq <= seq:
            run = msgspec.structs.replace(run, status=status)
        else:
            ended_at = None
        updated_at = created_at if ended_at is None else ended_at
        record = RunRecord(
            started_at=as_of if run.packet_sha256 else None,
            completed_at=None if run.status == "placed" else updated_at,
            created_at=created_at,
            updated_at=updated_at,
            actions=self._action_records(run, seq),
        )
        return RunAsOf(run, record)

    def _action_records(self, run: DecisionRun, seq: int) -> tuple[ActionRecord, ...]:
        acts = [
            verdict.allowed and each.action != "hold" for each, verdict in zip(run.actions, run.verdicts, strict=True)
        ]
        rows = self._db.all(_QUERIES.orders_of, owner=self._owner, run_id=run.run_id, until=seq) if any(acts) else []
        orders = {record.order.symbol: record for record in (self._order_as_of(row, seq) for row in rows)}
        found = []
        for action, verdict in zip(run.actions, run.verdicts, strict=True):
            order = orders.get(action.symbol) if verdict.allowed and action.action != "hold" else None
            if order is not None:
                found.append(ActionRecord(order.status, order.order.client_id, order.order.size_e8))
            else:
                idle = "held" if action.action == "hold" else "allowed"
                found.append(ActionRecord(idle if verdict.allowed else "refused", None, None))
        return tuple(found)

    def _order_as_of(self, row: Row, seq: int) -> OrderRecord:
        own_seq, placed_seq, ended_seq = row[2:5]
        record = order_record_of_row(row[5:])
        placed = placed_seq is not None and placed_seq <= seq
        if seq == _END or (ended_seq is not None and ended_seq <= seq) or (placed and ended_seq is None):
            # The table has the newest word, which is the one that was known.
            return record
        stream = self._book.stream(record.deployment)
        if placed:
            # Whoever asks as of the event that placed it gets the time of that event, not of its end.
            event = self._log.event(stream, placed_seq)
            known_at = record.created_at if event is None else event.known_at
            return msgspec.structs.replace(record, status="placed", detail="", updated_at=known_at)
        # Only the log remembers that an answer was lost once it came.
        last = min([seq, *[each for each in (placed_seq, ended_seq) if each is not None]])
        detail, updated_at = "", record.created_at
        for event in self._log.events(stream, after=own_seq, until=last):
            if event.kind != ev.EVENT_KINDS[ev.OrderUnanswered]:
                continue
            doubt = ev.event_body(event, ev.OrderUnanswered)
            if doubt.client_id == record.order.client_id:
                detail, updated_at = doubt.detail, event.known_at
        return msgspec.structs.replace(record, status="intended", detail=detail, updated_at=updated_at)

    def _open_trade(self, deployment: str, trade: TradeState, seq: int) -> TradeAsOf:
        row = self._db.one(_QUERIES.trade_origin, owner=self._owner, id=trade.trade_id)
        if row is None:
            raise Damaged(f"trade {trade.trade_id} has no row; `tapebook rebuild` makes the tables again from the log")
        agent, version, created_at, lacks, entry_seq = row
        known = self._lacks_as_of(deployment, trade.trade_id, lacks, (entry_seq, seq))
        return TradeAsOf(trade, agent, version, created_at, created_at, known)

    def _closed_trade(self, deployment: str, row: Row, seq: int) -> TradeAsOf:
        trade, (agent, version, created_at, updated_at, lacks, entry_seq) = closed_trade_of_row(row[:-6]), row[-6:]
        known = self._lacks_as_of(deployment, trade.state.trade_id, lacks, (entry_seq, seq))
        return TradeAsOf(trade, agent, version, created_at, updated_at, known)

    def _lacks_as_of(
        self, deployment: str, trade_id: str, newest: str, within: tuple[int, int]
    ) -> tuple[MissingFact, ...]:
        """What was not known of a trade, as of the second of two sequence numbers; the first is of its beginning."""
        if not newest:
            return ()
        # The row has the newest word, so the log is asked of the past alone.
        if within[1] >= self._book.head(deployment):
            return cast(tuple[MissingFact, ...], tuple(newest.split(",")))
        found: tuple[MissingFact, ...] = ()
        # Few trades lack anything, so nothing but the log has what was said of one before.
        for event in self._log.events(self._book.stream(deployment), after=within[0], until=within[1]):
            if event.kind == ev.EVENT_KINDS[ev.TradeMarkedIncomplete]:
                body = ev.event_body(event, ev.TradeMarkedIncomplete)
                found = body.lacks if body.trade_id == trade_id else found
        return found


def _newest(pages: Iterable[list[Row]], most: int) -> list[Row]:
    """The first of several lists together: newest moment first, then by deployment, then newest event first."""
    # Each list is sorted already, so that merging them looks at no more rows than are wanted.
    return list(islice(merge(*pages, key=lambda row: (-row[0], row[1], -row[2])), most))


def _behind(place: Row | None, deployment: str) -> dict[str, int]:
    """Where the rows of a deployment go on behind a place among those of all."""
    if place is None:
        return {"moment": _END, "place": _END}
    moment, name, seq = place
    # Of rows of one moment those of other deployments come before or behind as a whole.
    return {"moment": moment, "place": seq if deployment == name else _END if deployment > name else 0}


def _unknown_cursor(noun: str, before: str) -> BadInput:
    return BadInput(f"there is no {noun} {before!r} to go on behind: give the id of the last row, or `next` of a page")
