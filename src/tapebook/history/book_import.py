"""Imports past fills from a file into an agent's book, through the ledger and materializer that live fills use.

1. `read_fill_rows` makes rows of the file; the first that is no fill refuses it, with its number;
2. fills the book has are left alone, by their id; the others must come after the newest one there is;
3. what the file says was held before each fill must be what the book holds (`_Booking._bridge`): where fills are
   missing the file is refused, or the difference is booked as a marked adjustment;
4. each goes through `settle_fill`, with the funding and the prices the tape has of the time before it
   (`PastMarket`), and all events are one append: all of the file or nothing;
5. what the trades teach is learned at once, so that the next decision need not.

They happened when the file says and are known from now on: no decision of the past gets to see them. Spot fills are
written apart: they move neither cash nor positions, and their fees stay in their tokens.

`PastMarket` reads rates and prices as they are known now, by when they happened. Funding is due at every hour for
which a rate was settled, on what was held just before it, at the price observed then: a midpoint of the last
minute, else the newest midpoint or end of a bar within the hour. Each answer says whether the tape has all of it;
rates come every hour or every eight, so what is missing follows from the distance of those that are there.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import dropwhile, islice, pairwise
from pathlib import Path

import msgspec

from tapebook.book.events import (
    FillBridged,
    SpotFillObserved,
    TokenFeeObserved,
    TradeClosed,
    TradeMarkedIncomplete,
    TradeOpened,
    draft_event,
)
from tapebook.book.materializer import Account, TradeCause, settle_fill, settle_funding
from tapebook.book.store import Book
from tapebook.domain.agent import Deployment, is_dry_run
from tapebook.domain.canonical import short_id
from tapebook.domain.market import TRADED_KINDS, Candle, FundingRate, Mid
from tapebook.domain.order import Fill, FundingPayment, SpotFill
from tapebook.domain.position import MissingFact, Position, PriceRange
from tapebook.domain.text import plural
from tapebook.domain.units import (
    DAY,
    E6,
    E8,
    E12,
    HOUR,
    MINUTE,
    SECOND,
    decimal_text,
    divide_half_even,
    iso_text,
    notional_usd_e6,
)
from tapebook.errors import BadInput
from tapebook.history.fill_files import FillFile, FillRow, read_fill_rows
from tapebook.log import Draft
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import Tape
from tapebook.tape.view import INTERVALS, View
from tapebook.tick.learn import learn_everything
from tapebook.tick.prepare import regime_at
from tapebook.tick.quotes import TapeQuotes, extremes
from tapebook.wiring import Rooms

# Venues settle every hour to every eight hours; rates that lie farther apart have a gap between them.
_LONGEST_SPACING = 8 * HOUR


class _SettledRates:
    """The settled rates of a symbol, by their hour."""

    def __init__(self, rates: Sequence[FundingRate]) -> None:
        self.by_hour = {rate.bucket_ts: rate.rate_e12 for rate in rates}
        self._hours = sorted(self.by_hour)

    def is_rate_due(self, hour: int) -> bool:
        """Whether a rate is to be expected at an hour, by the distance of those nearest to it."""
        at = bisect_left(self._hours, hour)
        near = self._hours[max(0, at - 2) : at + 2]
        apart = min((after - before for before, after in pairwise(near)), default=HOUR)
        return not near or (hour - near[0]) % (apart if apart <= _LONGEST_SPACING else HOUR) == 0


class PastMarket:
    """Funding and prices of the past as they are known at `now`, from `since` on."""

    def __init__(self, tape: Tape, *, since: int, now: int) -> None:
        self._tape = tape
        self._since = since
        self._view = View(now)
        self._symbols = frozenset(tape.symbols(*TRADED_KINDS))
        # Rates by symbol: they do not change while a file is imported.
        self._rates: dict[str, _SettledRates] = {}

    def funding_paid(self, held: Position, *, after: int, until: int) -> tuple[list[FundingPayment], bool]:
        """What a position paid or received after one moment and up to another, and whether all rates are there."""
        rates, paid, whole = self._known_rates(held.symbol), [], True
        for hour in range(after - after % HOUR + HOUR, until + 1, HOUR):
            rate = rates.by_hour.get(hour)
            price = None if rate is None else self.price_at(held.symbol, hour)
            if rate is not None and price is not None:
                amount = -divide_half_even(notional_usd_e6(held.size_e8, price) * rate, E12)
                paid.append(FundingPayment(held.symbol, hour, amount, rate))
            elif rates.is_rate_due(hour):
                whole = False
        return paid, whole

    def price_range(self, held: Position, *, since: int, until: int, ended_by: int) -> tuple[PriceRange | None, bool]:
        """The prices that count for what was held between two fills, and whether the tape has that time.

        It has it when some price was observed in it, and never none for an hour, or for a bar where these are longer.
        Of a liquidation, `ended_by` leaves out the bar it happened in.
        """
        if until <= since or held.symbol not in self._symbols:
            return None, until <= since
        bars = self._bars(held.symbol, since=since, until=until)
        begins = min(since, bars[0].bucket_ts) if bars else since
        mids = self._tape.facts(Mid, held.symbol, since=begins, until=until - 1, view=self._view)
        ended = [bar for bar in bars if bar.end <= ended_by]
        return extremes(ended, mids, since), _covers_span(bars, mids, since=since, until=until)

    def price_at(self, symbol: str, moment: int) -> int | None:
        """The price observed at a moment; None when none was within the hour before it."""
        mids = self._tape.facts(Mid, symbol, since=moment - HOUR, until=moment, view=self._view)
        if mids and mids[-1].bucket_ts >= moment - MINUTE:
            return mids[-1].price_e8
        ended = [bar for bar in self._bars(symbol, since=moment - HOUR, until=moment) if bar.end <= moment]
        if ended and (not mids or ended[-1].end > mids[-1].bucket_ts):
            return ended[-1].close_e8
        return mids[-1].price_e8 if mids else None

    def _known_rates(self, symbol: str) -> _SettledRates:
        if symbol not in self._rates:
            rates = self._tape.facts(FundingRate, symbol, since=self._since - DAY, view=self._view)
            self._rates[symbol] = _SettledRates(rates)
        return self._rates[symbol]

    def _bars(self, symbol: str, *, since: int, until: int) -> list[Candle]:
        """The bars that were under way between two moments, oldest first, the finest there are of each time."""
        found: list[Candle] = []
        for seconds in INTERVALS.values() if symbol in self._symbols else ():
            first = since - seconds * SECOND + 1
            bars = self._tape.candles(symbol, granularity_sec=seconds, since=first, until=until - 1, view=self._view)
            if found:
                begins, ends = found[0].bucket_ts, found[-1].end
                bars = [bar for bar in bars if bar.end <= begins or bar.bucket_ts >= ends]
            found = sorted([*found, *bars], key=lambda bar: bar.bucket_ts) if found and bars else found or bars
            if found and found[0].bucket_ts <= since and found[-1].end >= until:
                break
        return found


def _covers_span(bars: Sequence[Candle], mids: Sequence[Mid], *, since: int, until: int) -> bool:
    """Whether the time between two moments has prices throughout."""
    seen = sorted([*((bar.bucket_ts, bar.end) for bar in bars), *((mid.bucket_ts, mid.bucket_ts) for mid in mids)])
    if not seen:
        return False
    longest = max([HOUR, *(bar.end - bar.bucket_ts for bar in bars)])
    reached = since
    for begins, ends in seen:
        if begins - reached > longest:
            return False
        reached = max(reached, ends)
    return until - reached <= longest


IMPORT_REASON = "imported"
BRIDGE_REASON = "bridged"
_SHOWN_EVERY = 500
_LACKS: tuple[MissingFact, ...] = ("fills", "funding", "path")


class FillsReport(msgspec.Struct, frozen=True):
    """What a file of fills came to; `lacks` counts the closed trades of which something is not known."""

    file: str
    agent: str
    format: str
    fills: int
    new: int
    opened: int
    closed: int
    net_pnl_usd: float
    funding_usd: float
    spot: int
    token_fees: dict[str, str]
    repeated: int
    bridged: tuple[str, ...]
    lacks: dict[MissingFact, int]
    notes: tuple[str, ...]
    dry_run: bool

    def lines(self) -> list[str]:
        """What was found and what is not known, for people."""
        fees = ", ".join(f"{amount} {token}" for token, amount in self.token_fees.items())
        return [
            f"{self.file}: {self.format}, {plural(self.fills, 'fill')}",
            *(f"note: {note}" for note in self.notes),
            *([f"left out, for they stand there twice: {plural(self.repeated, 'row')}"] if self.repeated else []),
            *([f"{plural(self.spot, 'spot fill')} booked apart: no trades, no part of cash"] if self.spot else []),
            *([f"fees in tokens, no part of USD results: {fees}"] if fees else []),
            *(f"{BRIDGE_REASON}: {each}" for each in self.bridged),
            *self._lacking(),
        ]

    def result_line(self) -> str:
        """What came of it, in one line."""
        if not self.new:
            return f"nothing new: {self.agent} has all of these {plural(self.fills, 'fill')} already"
        trades = f"{plural(self.opened, 'trade')} opened, {self.closed:,} closed, net {self.net_pnl_usd:,.2f} USD"
        funding = f" (funding {self.funding_usd:+,.2f})" if self.funding_usd else ""
        verb = "would be booked" if self.dry_run else "booked"
        return f"{self.new:,} of {self.fills:,} fills {verb} for {self.agent}: {trades}{funding}"

    def _lacking(self) -> Iterator[str]:
        words = {
            "fills": "fills are missing of {}: their results are partly assumed, and nothing is learned from them",
            "funding": "funding is not all known of {}: the tape lacks rates or prices of their hours",
            "path": "best and worst results are not all known of {}: the tape lacks prices of their time",
        }
        for lack, count in self.lacks.items():
            yield words[lack].format(f"{count:,} of {plural(self.closed, 'closed trade')}")


def import_fills(
    rooms: Rooms,
    path: Path,
    deployment: Deployment,
    *,
    dry_run: bool = False,
    bridge: bool = False,
    account: str | None = None,
    progress: Callable[[str], None] = lambda words: None,
) -> FillsReport:
    """Books the fills of a file that the book does not have. BadInput names the row that stands against it.

    `bridge` books an adjustment where fills are missing; `account` says whose rows of a file are meant.
    """
    if is_dry_run(deployment.id):
        name = deployment.agent.name
        raise BadInput(f"{name} is in dry run and has no fills: `tapebook agents edit {name} --mode trade` first")
    file = read_fill_rows(path, now=rooms.clock.now(), account=account)
    new = list(_rows_not_in_book(rooms.book, deployment, file.rows, path))
    seq = rooms.book.head(deployment.id)
    # Every fill asks for prices, bars and rates of its time, and fills come in the order of time: rows are read a
    # page at a time instead of a few statements for each.
    tape = ForwardTape(rooms.tape_db, clock=rooms.clock, fetch=rooms.archive.get, sources=rooms.recorded_sources)
    known = rooms.book.account(deployment.id, seq=seq)
    booking = _Booking(rooms.book, tape, deployment, account=known, rows=new, now=rooms.clock.now())
    for number, row in enumerate(new, 1):
        booking.book_row(row, bridge=bridge)
        if number % _SHOWN_EVERY == 0:
            progress(f"{number:,} of {len(new):,} fills")
            rooms.leases.heartbeat_if_due()
    booking.mark_open_trades()
    if booking.objections:
        raise BadInput(_objection_text(booking.objections, path))
    if booking.drafts and not dry_run:
        rooms.book.append(deployment.id, booking.drafts, expected_seq=seq)
        # Here, where it may take its time: the next decision learns one step only.
        learn_everything(rooms, deployment, progress=lambda learned: progress(f"{learned:,} learned"))
    return _fills_report(path, deployment, file, booking, new=len(new), dry_run=dry_run)


def _fills_report(
    path: Path, deployment: Deployment, file: FillFile, booking: "_Booking", *, new: int, dry_run: bool
) -> FillsReport:
    closed = booking.closed
    return FillsReport(
        file=str(path),
        agent=deployment.agent.name,
        format=file.format,
        fills=len(file.rows),
        new=new,
        opened=booking.opened,
        closed=len(closed),
        net_pnl_usd=sum(each.trade.state.net_usd_e6 for each in closed) / E6,
        funding_usd=sum(each.trade.state.funding_usd_e6 for each in closed) / E6,
        spot=booking.spot,
        token_fees={token: _short_amount(amount) for token, amount in sorted(booking.token_fees.items()) if amount},
        repeated=file.repeated,
        bridged=tuple(booking.bridges),
        lacks={lack: booking.lacking[lack] for lack in _LACKS if booking.lacking[lack]},
        notes=file.notes,
        dry_run=dry_run,
    )


def _objection_text(objections: list[str], path: Path) -> str:
    more = f" (and so at {plural(len(objections) - 1, 'more row')})" if len(objections) > 1 else ""
    return f"{path} {objections[0]}{more}; import what came before it first, or book the difference with `bridge=`"


def _rows_not_in_book(book: Book, deployment: Deployment, rows: list[FillRow], path: Path) -> Iterator[FillRow]:
    """The rows the book does not have."""
    newest = book.newest_fill_at(deployment.id)
    for row in rows:
        if row.spot:
            if not book.has_spot_fill(deployment.id, row.fill.fill_id):
                yield row
            continue
        fill, there = row.fill, book.fill(deployment.id, row.fill.fill_id)
        # The book does not repeat of a fill whether its symbol was delisted: its trade says so.
        if there is not None and there != msgspec.structs.replace(fill, delisted=False):
            raise BadInput(f"{path} row {row.number}: the book has another fill with the id {fill.fill_id!r}")
        if there is None and newest is not None and fill.happened_at < newest:
            name = deployment.agent.name
            raise BadInput(f"{path} row {row.number} is before the newest fill of {name}, {iso_text(newest)}")
        if there is None:
            yield row


class _Booking:
    """An account on its way through the fills of a file, and all that is to be written of it."""

    def __init__(
        self, book: Book, tape: ForwardTape, deployment: Deployment, *, account: Account, rows: list[FillRow], now: int
    ) -> None:
        self.drafts: list[Draft] = []
        self.closed: list[TradeClosed] = []
        self.opened = 0
        self.spot = 0
        self.token_fees: Counter[str] = Counter()
        self.bridges: list[str] = []
        self.objections: list[str] = []
        self.lacking: Counter[MissingFact] = Counter()
        self._deployment = deployment
        self._stream = book.stream(deployment.id).name
        self._account = account
        self._rows = rows
        self._tape = tape
        self._quotes = TapeQuotes(tape, View(now))
        self._past = PastMarket(tape, since=rows[0].fill.happened_at if rows else now, now=now)
        trades = account.open_trades.values()
        self._lacks: dict[str, set[MissingFact]] = {
            trade.trade_id: set(book.trade_lacks(trade.trade_id)) for trade in trades
        }
        self._marked = {trade_id: frozenset(lacks) for trade_id, lacks in self._lacks.items()}

    def book_row(self, row: FillRow, *, bridge: bool) -> None:
        """Books one row, after what its time before it cost and showed."""
        if row.fee_token:
            self.token_fees[row.fee_token] += row.fee_e8
        if row.spot:
            self.spot += 1
            self._write(row.fill.happened_at, [SpotFillObserved(_spot_fill(row))])
            return
        fill = row.fill
        self._fund(fill.happened_at)
        self._bridge(row, allowed=bridge)
        self._settle(fill, IMPORT_REASON)
        if row.fee_token and row.fee_e8:
            self._write(fill.happened_at, [TokenFeeObserved(fill.fill_id, row.fee_token, row.fee_e8)])

    def mark_open_trades(self) -> None:
        """Writes what is not known by now of trades that are still open."""
        for trade in self._account.open_trades.values():
            self._mark(trade.trade_id, trade.entry_tick_at)

    def _fund(self, until: int) -> None:
        """Books the funding of everything that is held, hour by hour up to a moment."""
        due = []
        for symbol, held in self._account.portfolio.positions.items():
            trade = self._account.open_trades[symbol]
            paid, whole = self._past.funding_paid(held, after=max(trade.funded_until, held.moved_at), until=until)
            due += paid
            if not whole:
                self._lacks.setdefault(trade.trade_id, set()).add("funding")
        for payment in sorted(due, key=lambda payment: (payment.happened_at, payment.symbol)):
            self._account, bodies = settle_funding(self._account, payment, self._cause(IMPORT_REASON))
            self._write(payment.happened_at, bodies)

    def _bridge(self, row: FillRow, *, allowed: bool) -> None:
        """Books what is missing before a row, or objects to it."""
        fill, held = row.fill, self._account.portfolio.positions.get(row.fill.symbol)
        held_e8 = held.size_e8 if held else 0
        if row.start_e8 is None or row.start_e8 == held_e8:
            return
        stated, known = _short_amount(row.start_e8), _short_amount(held_e8)
        words = f"{fill.symbol} stood at {stated} before it, by the fills known {known}"
        sentence = f"row {row.number}: {words}"
        if not allowed:
            self.objections.append(sentence)
        self.bridges.append(sentence)
        name = f"bridge {short_id('bridge', fill.fill_id)}"
        price = fill.price_e8
        if held is None:
            later = islice(self._rows, bisect_left(self._rows, fill.happened_at, key=_happened_at), None)
            same = (each for each in later if each.fill.symbol == fill.symbol and not each.spot)
            price = _entry_price_e8(dropwhile(lambda each: each is not row, same))
        missing = Fill(name, fill.symbol, fill.happened_at, row.start_e8 - held_e8, price, 0, maker=False)
        before = self._account.open_trades.get(fill.symbol)
        if before is not None:
            self._lacks.setdefault(before.trade_id, set()).add("fills")
        self._settle(missing, BRIDGE_REASON)
        self._write(fill.happened_at, [FillBridged(name, fill.symbol, held_e8, row.start_e8)])
        after = self._account.open_trades.get(fill.symbol)
        if after is not None:
            self._lacks.setdefault(after.trade_id, set()).add("fills")
            self._mark(after.trade_id, fill.happened_at)

    def _settle(self, fill: Fill, reason: str) -> None:
        held = self._account.portfolio.positions.get(fill.symbol)
        trade = self._account.open_trades.get(fill.symbol)
        seen = None
        if held is not None and trade is not None:
            since = held.moved_at or trade.entry_tick_at
            # A liquidation is told at the end of the bar it happened in.
            ended_by = fill.happened_at - 1 if fill.liquidation else fill.happened_at
            seen, whole = self._past.price_range(held, since=since, until=fill.happened_at, ended_by=ended_by)
            if not whole:
                self._lacks.setdefault(trade.trade_id, set()).add("path")
        mark = self._quotes.mark_e8(fill.symbol, at=fill.happened_at)
        adds = held is not None and (held.size_e8 > 0) == (fill.signed_size_e8 > 0)
        view = View(fill.happened_at)
        tag = None if adds else regime_at(self._tape, self._deployment, fill.symbol, view=view)
        cause = self._cause(reason, tag)
        self._account, bodies = settle_fill(self._account, fill, cause, mark_e8=mark, path=seen)
        self._write(fill.happened_at, bodies)

    def _cause(self, reason: str, tag: str | None = None) -> TradeCause:
        own = self._deployment
        name = own.agent.name
        return TradeCause(name, own.version, reason=reason, regime=tag, exit_label=reason, stream=self._stream)

    def _write(self, at: int, bodies: list[msgspec.Struct]) -> None:
        for body in bodies:
            if isinstance(body, TradeClosed):
                # Before its end, so that whoever reads that knows it.
                self._mark(body.trade.state.trade_id, at)
                self.lacking.update(self._lacks.get(body.trade.state.trade_id, ()))
                self.closed.append(body)
            self.opened += isinstance(body, TradeOpened)
            self.drafts.append(draft_event(at, body))

    def _mark(self, trade_id: str, at: int) -> None:
        """Writes what is not known of a trade, if that is not written yet."""
        lacks = frozenset(self._lacks.get(trade_id, ()))
        if lacks and self._marked.get(trade_id) != lacks:
            self._marked[trade_id] = lacks
            self.drafts.append(
                draft_event(at, TradeMarkedIncomplete(trade_id, tuple(lack for lack in _LACKS if lack in lacks)))
            )


def _happened_at(row: FillRow) -> int:
    return row.fill.happened_at


def _spot_fill(row: FillRow) -> SpotFill:
    fill = row.fill
    return SpotFill(
        fill_id=fill.fill_id,
        market=fill.symbol,
        happened_at=fill.happened_at,
        signed_size_e8=fill.signed_size_e8,
        price_e8=fill.price_e8,
        fee_e8=row.fee_e8,
        fee_token=row.fee_token,
        direction=row.direction,
        maker=fill.maker,
        order_id=fill.client_id,
    )


def _entry_price_e8(rows: Iterable[FillRow]) -> int:
    """At which price what was held before the first of a symbol's rows had been entered; its own price if unknown."""
    # The result the exchange gives for the first fill that closes some of it tells the average entry price by then,
    # from which what was added since is taken off.
    price = held = begun = added = cost = 0
    for row in rows:
        fill, start = row.fill, row.start_e8 or 0
        if not begun:
            price, held, begun = fill.price_e8, start, abs(start)
        if start != held:
            break
        if held * fill.signed_size_e8 > 0:
            added += abs(fill.signed_size_e8)
            cost += abs(fill.signed_size_e8) * fill.price_e8
            held += fill.signed_size_e8
            continue
        if row.closed_pnl_usd_e6 is None:
            break
        gained = divide_half_even(row.closed_pnl_usd_e6 * 10**10, min(abs(held), abs(fill.signed_size_e8)))
        average = fill.price_e8 - gained if held > 0 else fill.price_e8 + gained
        entered = divide_half_even(average * (begun + added) - cost, begun)
        return entered if entered > 0 else price
    return price


def _short_amount(amount_e8: int) -> str:
    """An amount without the zeros behind it."""
    text = decimal_text(amount_e8, E8, 8)
    return text.rstrip("0").rstrip(".")
