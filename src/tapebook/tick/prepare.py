"""Reads every room for one decision (`gather_situation`); replay calls it with stored watermarks.

1. the market, which agents that are due together share (`read_market`, `with_features`): bars must be there,
   features may fail;
2. the account with its orders and marks, without which there is no decision;
3. the memories, each by itself (`OptionalReads`): one that fails, whatever it raises, becomes an empty default, and
   its name goes into `degraded`.

A cause of failure is stored with the run, logged, and shown by `runs show` and `doctor`, so it is one capped line
without a key of this home (`safe_causes`). Errors of what a decision cannot do without, such as the account, are
raised. A replay names what had failed then (`skip`), and it is left out again; it reads by the rules of the
packet's version.
"""

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import msgspec

from tapebook.book.materializer import Account
from tapebook.book.store import Book
from tapebook.context import (
    CURRENT_VERSION,
    Feature,
    Market,
    MarketCache,
    MarketKey,
    PacketVersion,
    Situation,
)
from tapebook.context.market_sections import PREDICTION_MARKETS, feature_line
from tapebook.domain.agent import (
    MOST_TRADES_SHOWN,
    NO_LESSONS_FOLLOWED,
    OWN_SUBSCRIPTIONS,
    ContextProfile,
    Deployment,
    LayerRow,
    Subscriptions,
)
from tapebook.domain.cache import LastCall
from tapebook.domain.market import AssetContext, Liquidity, LookbackBars, SettledFunding
from tapebook.domain.order import Order, OrderOutcome
from tapebook.domain.packet import Citation
from tapebook.domain.position import DayResults, Position
from tapebook.domain.run import Activity, DecisionRun, Watermarks
from tapebook.domain.text import short_line
from tapebook.domain.units import DAY, HOUR, MINUTE, floor_to_step
from tapebook.errors import Damaged, DatabaseAway, SpendLimit, TapebookError
from tapebook.experience import Experience
from tapebook.experience.features import RawBars, cut_lookback
from tapebook.horizons import HeldNow
from tapebook.log.store import StreamSetBack
from tapebook.search.documents import Documents
from tapebook.search.index import IndexFiles, decode_search_terms
from tapebook.tape import features as tape_features
from tapebook.tape.bars import FinishedBars, finished_bars, regime_of
from tapebook.tape.features import liquidity_profile, settled_pressure, to_metrics
from tapebook.tape.history_features import HistoryFeatures
from tapebook.tape.registry import (
    GLOBAL_SUBJECT,
    macro_rows,
    prediction_rows,
)
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.memory import (
    NO_EXPERIENCE,
    ShownMemories,
    citations_for,
    experience_for,
    lessons_and_scale,
)
from tapebook.tick.quotes import TapeQuotes, position_marks
from tapebook.tick_memory import TickMemory
from tapebook.wiring import Rooms

_PPM_PER_BP = 100
MAX_CAUSES = 16
MAX_CAUSE_CHARS = 300

LEARNING = "learning"
"""The name under which a run says that not all could be learned before it."""

_LOG = logging.getLogger("tapebook.tick")


ReadValue = TypeVar("ReadValue")
ReadParams = ParamSpec("ReadParams")


class OptionalReads(msgspec.Struct):
    """Reads that may fail: what comes instead is the empty default; the name and the cause are remembered.

    `degraded` names what is not to be read, and what could not be; `causes` say why, as far as it was tried:
    `name: ErrorType: message`.
    """

    degraded: list[str] = []
    causes: list[str] = []

    def read_or_default(
        self,
        name: str,
        empty: ReadValue,
        read: Callable[ReadParams, ReadValue],
        *given: ReadParams.args,
        **terms: ReadParams.kwargs,
    ) -> ReadValue:
        """What a read gives, or the empty default."""
        if name in self.degraded:
            return empty
        try:
            return read(*given, **terms)
        except DatabaseAway:
            # No memory can be read, and in a moment all can: the whole decision is made then.
            raise
        except SpendLimit:
            # Going on without it would be another decision than the one that is made when the limit is raised.
            raise
        except Exception as error:
            # Everything, also what nobody thought of: a memory that is broken must not stop who trades with it.
            self.degraded.append(name)
            self.add_cause(name, error)
            return empty

    def add_cause(self, name: str, error: Exception) -> None:
        """Remembers why something did not work."""
        self.causes.append(cause_of(name, error))


def cause_of(name: str, error: Exception) -> str:
    """What went wrong where. The text may be long and may hold anything: `safe_causes` makes it fit to be kept."""
    # It copes with errors that cannot say what they are.
    message = " ".join(traceback.format_exception_only(error)).partition(": ")[2]
    return f"{name}: {type(error).__name__}: {message}" if message.strip() else f"{name}: {type(error).__name__}"


def safe_causes(causes: Iterable[str], *, without_keys: Callable[[str], str]) -> tuple[str, ...]:
    """Causes as they may be kept and shown: each a capped line without control characters and without a key."""
    lines = [short_line(without_keys(cause), MAX_CAUSE_CHARS) for cause in causes]
    return tuple(dict.fromkeys(lines))[:MAX_CAUSES]


def log_causes(causes: Iterable[str], **fields: str | int) -> None:
    """Writes causes, which must be safe ones, to the log of the process; the fields say what they are about."""
    for cause in causes:
        _LOG.warning("memory failed", extra={"fields": {**fields, "cause": cause}})


FEATURE_FAMILIES = {
    "fundingPressure": "pressure",
    "volatilityProfile": "volatility",
    "positioningPressure": "positioning",
}


STORED_FEATURE_MAX_AGE_MS = DAY
"""A stored feature or context older than this tells of nothing a decision still sees: then bars and rates speak."""


def read_market(
    tape: Tape,
    symbol: str,
    *,
    minutes: int,
    count: int,
    view: View,
    version: PacketVersion = CURRENT_VERSION,
    memory: TickMemory | None = None,
) -> Market:
    """Bars, price and regime: what no decision does without."""
    if version.complete_bars:
        seen = finished_bars(tape, symbol, minutes=minutes, count=count, view=view)
    else:
        seen = FinishedBars(tape.bars(symbol, minutes=minutes, count=count, view=view))
    return Market(
        symbol=symbol,
        as_of=view.as_of,
        bar_minutes=minutes,
        bars=seen.bars,
        mid=tape.last_price(symbol, view=view),
        unfinished=seen.unfinished,
        # A half-hour bar is the newest of six decisions in a row, and of many agents.
        regime=(memory or TickMemory()).regimes[symbol, minutes, count](seen.bars) if version.scaled_regimes else None,
    )


def with_features(
    tape: Tape,
    market: Market,
    *,
    view: View,
    version: PacketVersion = CURRENT_VERSION,
    subscriptions: Subscriptions = OWN_SUBSCRIPTIONS,
    memory: TickMemory | None = None,
) -> Market:
    """The market with its book, its funding and the features of its symbol, and what is subscribed to around it.

    Features are those that were stored as the market was observed. Where none were, as in imported history, they are
    derived from the bars and rates there are.
    """
    symbol, stored_at = market.symbol, 0
    if not tape.has_prices_alone:
        books = tape.facts(Liquidity, symbol, since=view.as_of - DAY, view=view)
        profile = liquidity_profile(books, as_of=view.as_of) if books else None
        features = [_feature("liquidityProfile", books[-1].bucket_ts, to_metrics(profile))] if profile else []
        context = tape.newest(AssetContext, symbol, view=view)
        stored_at = context.bucket_ts if context else 0
        for name, family in FEATURE_FAMILIES.items():
            row = tape.newest(family, symbol, view=view)
            if row is None:
                continue
            try:
                metrics = msgspec.json.decode(row.metrics_json, type=dict[str, Any])
            except msgspec.DecodeError as error:
                why = f"a feature of {symbol} is not readable ({error})"
                raise Damaged(f"{why}; restore tape.db from a backup") from error
            stored_at = max(stored_at, row.bucket_ts)
            features.append(_feature(name, row.bucket_ts, metrics))
        market = msgspec.structs.replace(
            market,
            liquidity=books[-1] if books else tape.newest(Liquidity, symbol, view=view),
            context=context,
            features=tuple(features),
        )
    if version.derived_features and view.as_of - stored_at > STORED_FEATURE_MAX_AGE_MS:
        market = _with_history_features(tape, market, view=view, memory=memory or TickMemory())
    around = _context_features(tape, symbol, subscriptions, view=view) if version.market_context else ()
    return msgspec.structs.replace(market, features=(*market.features, *around)) if around else market


# What a packet shows of the market around an asset: no other channel is read for it.
_PREDICTIONS_CHANNEL, _FLOWS_CHANNEL = "immediate_markets", "capital_flows"


def _context_features(tape: Tape, symbol: str, subscriptions: Subscriptions, *, view: View) -> tuple[Feature, ...]:
    """What prediction markets expect of an asset, and where capital goes; nothing where no source brings them.

    Of prediction markets it has the figures, and those of each of the largest.
    """
    if tape.feature_channels.isdisjoint((_PREDICTIONS_CHANNEL, _FLOWS_CHANNEL)):
        return ()
    own, flows, others = list[Feature](), list[Feature](), list[Feature]()
    chosen, channels = subscriptions.predictions, (_PREDICTIONS_CHANNEL,)
    for each, rows in prediction_rows(tape, symbol, view=view, chosen=chosen, channels=channels).items():
        found, about = (own, "") if each == symbol else (others, f" of {each}")
        for row in rows.values():
            figures = row.metrics.copy()
            largest = figures.pop("top", ())
            found.append(_feature(f"predictionMarkets{about}", row.bucket_ts, figures))
            for name, market in zip(PREDICTION_MARKETS, largest, strict=False):
                found.append(_feature(f"{name}{about}", row.bucket_ts, market))
    since, chosen = view.as_of - DAY, subscriptions.macro
    for macro in macro_rows(tape, symbol, view=view, since=since, most=1, chosen=chosen, channels=(_FLOWS_CHANNEL,)):
        name = "capitalFlows" if macro.subject == GLOBAL_SUBJECT else "chainFlows"
        # A protocol and a stablecoin that were asked for by name have figures of their own.
        kind = macro.subject.partition("/")[0]
        name = f"{kind}Flows" if macro.subject in chosen and kind in ("protocol", "stablecoin") else name
        flows.append(_feature(name, macro.bucket_ts, macro.metrics))
    # Those of other symbols come last: when the section is too long, they are left out first.
    return (*own, *flows, *others)


_LOOKBACK_MINUTES = (60, 240, 1_440)
_LOOKBACK_MS = 7 * DAY


def read_lookback(
    tape: Tape, symbol: str, *, view: View, cut: Callable[[RawBars], LookbackBars] = cut_lookback
) -> LookbackBars:
    """The bars at which the situation of a decision is looked, the same for every agent.

    Quarters of an hour reach back to the full hour four hours before the newest, hours seven days: on a live tape
    hours are stored, and a week of minutes would take ten times as long to read. `cut` is `cut_lookback`, or a
    cache of it: every tick asks, and mostly gets the same bars.
    """
    # Nineteen quarters at most lie behind that hour.
    recent = finished_bars(tape, symbol, minutes=15, count=20, view=view).bars
    if not recent:
        for minutes in _LOOKBACK_MINUTES:
            count = _LOOKBACK_MS // (minutes * MINUTE) + 2
            if older := finished_bars(tape, symbol, minutes=minutes, count=count, view=view).bars:
                return LookbackBars((), older)
        return LookbackBars()
    older, _ = tape.bars_and_end(symbol, minutes=60, count=(_LOOKBACK_MS + DAY) // HOUR, view=view)
    return cut((recent, older))


def _with_history_features(tape: Tape, market: Market, *, view: View, memory: TickMemory) -> Market:
    """The market with what its bars and settled rates say; a profile of books that were stored stays."""
    derived = tape.history_features(market.symbol, view=view)
    written = memory.history_features.get(market.symbol)
    if written is None:
        written = memory.history_features[market.symbol] = LastCall(_history_features_writer())
    found = written(derived)
    if not found:
        return market
    if market.features:
        found = (*(feature for feature in market.features if feature.name == "liquidityProfile"), *found)
    settled = derived.settled
    context = market.context if settled is None else None
    return msgspec.structs.replace(market, context=context, settled_funding=settled, features=found)


def _history_features_writer() -> Callable[[HistoryFeatures], tuple[Feature, ...]]:
    """What writes down the features of history: those of a boundary are the same for every tick until the next."""
    funding = LastCall(_funding_line)

    def features_of(derived: HistoryFeatures) -> tuple[Feature, ...]:
        at, volatility, positioning = derived.bucket_ts, derived.volatility, derived.positioning
        found = []
        if derived.settled is not None:
            found.append(Feature("fundingPressure", at, (), funding(derived.settled)))
        if volatility is not None:
            line = volatility if isinstance(volatility, str) else _feature_line("volatilityProfile", volatility)
            found.append(Feature("volatilityProfile", at, (), line))
        if positioning is not None:
            line = positioning if isinstance(positioning, str) else _feature_line("positioningPressure", positioning)
            found.append(Feature("positioningPressure", at, (), line))
        return tuple(found)

    return features_of


def _funding_line(settled: SettledFunding) -> str:
    """What a settled rate says, which stays the same for as long as it is the newest."""
    return _feature_line("fundingPressure", settled_pressure(settled, as_of=settled.bucket_ts))


def _feature_line(name: str, found: tape_features.Feature) -> str:
    """Those figures of a feature that a packet shows."""
    return feature_line(_feature(name, 0, to_metrics(found)))


def _feature(name: str, bucket_ts: int, metrics: Mapping[str, Any]) -> Feature:
    known = []
    for key, value in sorted(metrics.items()):
        if value is not None:
            known.append((key, str(value)))
    return Feature(name, bucket_ts, tuple(known))


def documents_watermark(documents: Documents, indexes: IndexFiles) -> int:
    """The documents' watermark of this moment: all that is indexed here, and nothing that is not.

    Without an index there are no documents, which costs a look at the disk.
    """
    if not indexes.has_index():
        return 0
    until = documents.log_head()
    state = documents.state_as_of(until)
    indexed = indexes.open_index(decode_search_terms(state.terms)).head()
    # Terms count from their own event on, which may be behind the newest version.
    return until if indexed >= state.newest > 0 else min(indexed, until)


def watermarks_now(
    rooms: Rooms, deployment: Deployment, *, tape: int | None = None, optional: OptionalReads | None = None
) -> Watermarks:
    """How far each store reaches at this moment, or reached the tape when it was looked at.

    Documents or layers that cannot be asked reach nowhere, and their sections are not read either.
    """
    tape = rooms.tape.head()[0] if tape is None else tape
    read = (optional or OptionalReads()).read_or_default
    docs = read("citations", 0, documents_watermark, rooms.documents, rooms.indexes)
    # Up to which event of the owner's stream something was written for every agent.
    curated = read("horizons", 0, rooms.horizons.store.last_change, "", seq=rooms.book.head())
    if docs or curated:
        # Documents and layers that a clock which was ahead has dated are not seen before that moment has come.
        own = rooms.book.set_back_after("", seq=max(docs, curated), as_of=rooms.clock.now())
        docs, curated = (min(seq, own.first_seq - 1) if own else seq for seq in (docs, curated))
    return Watermarks(tape, rooms.book.head(deployment.id), docs, curated)


def gather_situation(
    rooms: Rooms,
    deployment: Deployment,
    symbol: str,
    *,
    as_of: int,
    watermarks: Watermarks,
    skip: Iterable[str] = (),
    shelf: MarketCache | None = None,
    version: PacketVersion = CURRENT_VERSION,
    optional: OptionalReads | None = None,
) -> Situation:
    """Everything one decision may know, and nothing beyond its watermarks; a shelf offers markets read before.

    `optional` has what failed already, and is told what fails here and why; without it, `skip` says what is left out.
    """
    view, tape, own = View(as_of, watermarks.tape), rooms.tape, deployment.id
    optional = optional or OptionalReads(list(skip))
    market = _read_shared_market(
        tape,
        deployment.agent.context,
        symbol,
        view=view,
        optional=optional,
        shelf=shelf,
        version=version,
        experience=rooms.experience,
        memory=rooms.memory,
    )
    account = rooms.book.account(own, seq=watermarks.book)
    if not watermarks.book:
        # No decision is made before the deposit; a preview shows the account as it will begin.
        begins = msgspec.structs.replace(account.portfolio, cash_usd_e6=deployment.agent.starting_cash_usd_e6)
        account = msgspec.structs.replace(account, portfolio=begins)
    ahead = rooms.book.set_back_after(own, seq=watermarks.book, as_of=as_of)
    if ahead is not None:
        account = account_not_after(account, as_of)
    working = rooms.book.orders_under_way(own, seq=watermarks.book, as_of=as_of)
    memory = _read_memories(
        rooms,
        deployment,
        market,
        account=account,
        watermarks=watermarks,
        optional=optional,
        version=version,
        ahead=ahead,
    )
    # The spread of the book; that of the settings where there is none, or none that can be meant.
    paper, quoted = rooms.config.paper, market.liquidity
    spread = quoted.spread_bps if quoted is not None and 0 <= quoted.spread_bps < 1_000 else paper.spread_bps
    return Situation(
        deployment=deployment,
        as_of=as_of,
        watermarks=watermarks,
        market=market,
        portfolio=account.portfolio,
        marks=_situation_marks(tape, market, account.portfolio.positions, working=working, view=view, shelf=shelf),
        open_trades=account.open_trades,
        working=working,
        degraded=tuple(optional.degraded),
        renderer=version.renderer,
        # What a trade at the market costs: the fee, and half the spread.
        cost_ppm=round(_PPM_PER_BP * (paper.taker_fee_bps + spread / 2)),
        **memory,
    )


def account_not_after(account: Account, moment: int) -> Account:
    """The account with nothing of a later moment: what a clock that was ahead has dated is dated now."""
    if not any(held.moved_at > moment for held in account.portfolio.positions.values()) and not any(
        trade.entry_tick_at > moment for trade in account.open_trades.values()
    ):
        return account
    replace, positions = msgspec.structs.replace, account.portfolio.positions
    held = {symbol: replace(each, moved_at=min(each.moved_at, moment)) for symbol, each in positions.items()}
    trades = {
        symbol: replace(trade, entry_tick_at=min(trade.entry_tick_at, moment))
        for symbol, trade in account.open_trades.items()
    }
    return replace(account, portfolio=replace(account.portfolio, positions=held), open_trades=trades)


def tape_marks(
    tape: Tape, positions: Mapping[str, Position], *, view: View, shelf: MarketCache | None = None
) -> dict[str, int]:
    """What each position is valued at: the price last observed, or its cost where none is known."""
    prices = None if shelf is None else shelf.prices(as_of=view.as_of, watermark=view.watermark)
    return position_marks(tape, positions.values(), view=view, prices=prices)


def regime_at(tape: Tape, deployment: Deployment, symbol: str, *, view: View) -> str | None:
    """The regime tag of the bars an agent would have seen at a moment; None when it could not be found out.

    A trade is booked either way: the tag says something about it and is no part of it.
    """
    profile = deployment.agent.context
    try:
        seen = finished_bars(tape, symbol, minutes=profile.bar_minutes, count=profile.bar_count, view=view)
    except TapebookError:
        return None
    return regime_of(seen.bars)


def _read_shared_market(
    tape: Tape,
    profile: ContextProfile,
    symbol: str,
    *,
    view: View,
    optional: OptionalReads,
    shelf: MarketCache | None,
    version: PacketVersion,
    experience: Experience,
    memory: TickMemory,
) -> Market:
    minutes, count, subscriptions = profile.bar_minutes, profile.bar_count, profile.subscriptions
    looks_back = version.lookbacks and "experience" in profile.rooms
    shelf = None if "features" in optional.degraded else shelf
    key, read = None, optional.read_or_default
    if shelf is not None:
        key = MarketKey(symbol, minutes, count, view.as_of, view.watermark, looks_back, subscriptions)
        found = shelf.get(key)
        if found is not None:
            return found
    terms: Any = {"view": view, "version": version, "memory": memory}
    market = read_market(tape, symbol, minutes=minutes, count=count, **terms)
    # After the bars that are shown: those that are looked back at are mostly among them.
    if looks_back:
        lookback = experience.lookbacks_ahead.get((symbol, view.as_of, view.watermark))
        if lookback is None:
            cut = experience.readers[symbol].cut
            lookback = read("experience", None, read_lookback, tape, symbol, view=view, cut=cut)
        market = msgspec.structs.replace(market, lookback=lookback)
    found = read("features", market, with_features, tape, market, subscriptions=subscriptions, **terms)
    # Only what was read whole is for others.
    if shelf is not None and key is not None and not {"features", "experience"} & set(optional.degraded):
        shelf.store_market(key, found)
    return found


def _read_memories(
    rooms: Rooms,
    deployment: Deployment,
    market: Market,
    *,
    account: Account,
    watermarks: Watermarks,
    optional: OptionalReads,
    version: PacketVersion,
    ahead: StreamSetBack | None,
) -> dict[str, Any]:
    """The fields of a situation that come from memory; without any, what the caps are weighed against is still read."""
    # Where the clock was `ahead`, trades and decisions of later moments are left out one by one. What was learned is
    # that of before, until the moment has come that the clock had shown.
    book, own, seq, profile = rooms.book, deployment.id, account.seq, deployment.agent.context
    view, read = View(market.as_of, watermarks.tape), optional.read_or_default
    doing = read("activity", None, account_activity, book, rooms.tape, own, account, view=view, memory=rooms.memory)
    on = profile.rooms
    if not on:
        return {"activity": doing}
    most = min(profile.recent_trades_k, MOST_TRADES_SHOWN)
    if "trades" not in on:
        closed = []
    elif ahead is None:
        closed = read("recent_trades", [], book.closed_trades, own, seq=seq, most=most)
    else:
        closed = read("recent_trades", [], book.closed_trades_until, own, seq=seq, most=most, until=view.as_of)
    learned, until = (seq, None) if ahead is None else (ahead.first_seq - 1, view.as_of)
    decided: Any = {"seq": seq, "version": version, "until": until}
    last, outcomes = read("last_decision", (None, ()), _last_decision, book, own, market.symbol, **decided)
    portfolio, lessons, followed, learning = account.portfolio, None, NO_LESSONS_FOLLOWED, NO_EXPERIENCE
    layers: tuple[LayerRow, ...] = ()
    citations: tuple[Citation, ...] = ()
    terms: Any = {"seq": learned, "version": version}
    if "lessons" in on:
        parts = rooms.notes, rooms.experience
        lessons, followed = read("lessons", (None, followed), lessons_and_scale, *parts, deployment, market, **terms)
    terms["portfolio"] = portfolio
    if "experience" in on:
        learning = read("experience", learning, experience_for, rooms, deployment, market, **terms)
    if "horizons" in on:
        reached: Any = {"seq": learned, "as_of": view.as_of}
        now = None
        # Since renderer 5 it is told of the day that is running, and of what is held.
        if version.market_phases:
            now = HeldNow(read("horizons", DayResults(), book.day_results, own, **reached), portfolio.positions)
        reached |= {"curated": watermarks.curated, "now": now}
        layers = read("horizons", layers, rooms.horizons.packet_rows, own, **reached)
    if watermarks.docs and "documents" in on:
        shown = ShownMemories(closed, lessons, layers)
        terms = {"portfolio": portfolio, "remembered": shown, "seq": watermarks.docs, "version": version}
        terms |= {"archive": rooms.archive, "market": market}
        places = rooms.documents, rooms.indexes
        citations = read("citations", citations, citations_for, *places, deployment.agent, **terms)
    rows, trust, analog = learning
    return {
        "activity": doing,
        "closed_trades": tuple(closed),
        "last_run": last,
        "last_orders": outcomes,
        "lessons": lessons,
        "followed": followed,
        "experience": rows,
        "trust": trust,
        "analog": analog,
        "horizons": layers,
        "citations": citations,
    }


def account_activity(
    book: Book, tape: Tape, deployment: str, account: Account, *, view: View, memory: TickMemory
) -> Activity:
    """What a deployment whose account has been read already did lately: rows of the book with the marks of midnight.

    The packet shows it, and the guard's caps on losses, orders and rests are checked against it.
    """
    session = book.session(deployment, account, as_of=view.as_of)
    for close in session.closes:
        if close.at > view.as_of:
            # A clock that was ahead has dated it: no rest after a trade begins in the future.
            closes = tuple(each for each in session.closes if each.at <= view.as_of)
            session = msgspec.structs.replace(session, closes=closes)
            break
    held = session.held.values()
    # Most days begin with nothing held.
    midnight = View(floor_to_step(view.as_of, DAY), view.watermark)
    marks = position_marks(tape, held, view=midnight) if held else {}
    # Most decisions are told the session that the one before was told.
    return memory.activity((session, marks))


def _last_decision(
    book: Book, deployment: str, symbol: str, *, seq: int, version: PacketVersion, until: int | None
) -> tuple[DecisionRun | None, tuple[OrderOutcome, ...]]:
    """The newest decision on a symbol, made by a moment if one is given, and how far its orders had come."""
    if until is None:
        run = book.last_run(deployment, symbol, seq=seq, expired_orders=version.expired_orders)
    else:
        run = book.last_run_until(deployment, symbol, seq=seq, until=until)
    for action, verdict in zip(run.actions, run.verdicts, strict=True) if run else ():
        # Most decisions are to hold, or refused, and have no orders to ask for.
        if run and verdict.allowed and action.action != "hold":
            return run, book.order_outcomes(run.run_id, seq=seq)
    return run, ()


def _situation_marks(
    tape: Tape,
    market: Market,
    positions: Mapping[str, Position],
    *,
    working: Iterable[Order],
    view: View,
    shelf: MarketCache | None,
) -> dict[str, int]:
    """What is held, at its marks, and what is being traded, where there is a price; the market has its own already."""
    mid = market.mid
    found: dict[str, int] = {}
    # A price of the last minute is the mark as it is; an older one is looked for again for what is at stake.
    if mid is not None and view.as_of - mid.bucket_ts < MINUTE:
        found[market.symbol] = mid.price_e8
    if not working and positions.keys() <= found.keys():
        return found
    others = {symbol: held for symbol, held in positions.items() if symbol not in found}
    found |= tape_marks(tape, others, view=view, shelf=shelf)
    for symbol in sorted({order.symbol for order in working} - found.keys()):
        price = TapeQuotes(tape, view).mark_e8(symbol, at=view.as_of)
        found |= {} if price is None else {symbol: price}
    return found
