"""The sections of what is now: time and bars, the market, the portfolio with its risk caps, and what was done last.

Bars: what the price did over the horizon. Market: the price now, the regime of the bars, the book, funding, open
interest and features, each with its age. What is not known is left out, never carried on. A feature is one row of
`name=value` pairs under the name the tape gives it; figures that have a row of their own are not repeated in it.
Funding is always by the hour: where it is settled more seldom, a row says every how many hours.

Portfolio: what is held and under way, what it is worth, and how much more is allowed. Every cap the guard enforces
is here with what is left of it, so that nothing has to be learned from a refusal. The day's and the hour's figures
are absent when they could not be read. Open positions: how far each open trade has been in the money, for how long, and
why it was opened; size and entry are those of the position as it is held now.

Last decision: what was proposed at the tick before, what the guard said, and what became of the order; how far an
order had come is as of the packet's watermark, so that a replay says the same.
"""

from functools import lru_cache
from operator import attrgetter

import msgspec

from tapebook.context.render import (
    FACT_COLUMNS,
    LineFormatter,
    Row,
    Rows,
    SectionLayout,
    SymbolFormatter,
    cached_usd_text,
    extreme_usd_text,
    fact_text,
    plain_line,
    price_text,
    symbol_text,
    three_digits_text,
    usd_text,
    whole_usd_text,
)
from tapebook.context.situation import Feature, Market, Situation, agent_name
from tapebook.domain.agent import RiskCaps
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid, SettledFunding
from tapebook.domain.order import Order, OrderOutcome
from tapebook.domain.position import Position, TradeState
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import quote_line
from tapebook.domain.units import (
    DAY_MINUTES,
    E8,
    E12,
    MINUTE,
    TIMES_OF_DAY,
    average_price_e8,
    decimal_text,
    divide_half_even,
    floor_to_step,
    minute_text,
    notional_usd_e6,
    short_price,
    statistic_text,
    time_of_day_text,
)

BAR_COLUMNS = ("time", "high", "low", "close", "volume")


def bars_title(market: Market, name: SymbolFormatter = symbol_text) -> str:
    """Says the time, even without a bar."""
    unfinished = _unfinished_text(market) if market.unfinished else ""
    bars = f"{name(market.symbol)} {market.bar_minutes}m bars{unfinished}"
    return f"Time and bars: now {minute_text(market.as_of)} UTC, {bars}, time high low close volume"


def bar_rows(bars: tuple[Candle, ...]) -> Rows:
    """One per bar: when it began, and its figures; the open is left out because it is the close before it."""
    rows = []
    # A hundred bars are most of a packet: what is cheap is done in place.
    for bar in bars:
        when = TIMES_OF_DAY[bar.bucket_ts // MINUTE % DAY_MINUTES]
        if bar.granularity_sec >= 3_600:
            when = _bar_time(bar.bucket_ts, bar.granularity_sec // 60)
        volume = f"{bar.volume_base + 0.0:.3g}"
        if "e" in volume:
            # Of a thousand and more, three digits and zeros: what `three_digits_text` says, for most volumes.
            large = 1_000 <= bar.volume_base < 1e15
            volume = f"{float(volume):.0f}" if large else three_digits_text(bar.volume_base)
        rows.append((when, short_price(bar.high_e8), short_price(bar.low_e8), short_price(bar.close_e8), volume))
    return tuple(rows)


def _unfinished_text(market: Market) -> str:
    """Which minutes were not final in time; the bar they belong to is not among the rows."""
    missing = market.unfinished
    first, last = _bar_time(missing[0], market.bar_minutes), time_of_day_text(missing[-1])
    began = _bar_time(floor_to_step(missing[0], market.bar_minutes * MINUTE), market.bar_minutes)
    minutes = first if len(missing) == 1 else f"{first} to {last}"
    return f" ({minutes} not final yet, bar {began} left out)"


def _bar_time(moment: int, bar_minutes: int) -> str:
    # From an hour up, bars reach over days and the time of day alone would repeat itself; the year is in the title.
    return time_of_day_text(moment) if bar_minutes < 60 else minute_text(moment)[5:]


def bar_text(rows: Rows) -> str:
    """The figures alone: the title says what they are."""
    return "\n".join(map(" ".join, rows))


BARS_SECTION: SectionLayout[Market, tuple[Candle, ...]] = SectionLayout(
    name="bars",
    cap=1_600,
    title=bars_title,
    columns=BAR_COLUMNS,
    look=attrgetter("bars"),
    rows=bar_rows,
    text=bar_text,
    by_item=True,
    oldest_first=True,
    bare=True,
)


PREDICTION_MARKETS = ("predictionMarket1", "predictionMarket2")
"""Of the prediction markets of an asset, those with the most money: titles are long, and the section has a cap."""
_MOST_TITLE = 90

SHOWN_FEATURES: dict[str, tuple[str, ...]] = {
    "liquidityProfile": ("depthUsd05Pct", "spreadChange24hPct", "depthChange24hPct", "booksUsed", "regime"),
    "fundingPressure": (
        *("fundingRate8h", "fundingRateAnnual", "venueSpread8h", "aboveOtherVenues8h"),
        *("openInterestChange1hPct", "openInterestChange24hPct", "regime"),
    ),
    "volatilityProfile": (
        *("realizedVol1h", "realizedVol24h", "annualizedVol24h", "parkinsonVol1h", "volRatio1hTo24h", "regime"),
    ),
    "positioningPressure": ("direction", "score", "confidence", "momentumZ", "funding", "imbalance"),
    "predictionMarkets": ("bias", "biasScore", "probabilityShift1h", "probabilityShift24h", "markets"),
    **dict.fromkeys(PREDICTION_MARKETS, ("probability", "shift24h", "endsAt", "state")),
    "capitalFlows": ("stablecoinFlow24hUsd", "tvlChange1dPct", "chainFlowBias"),
    "chainFlows": ("name", "flow24hUsd", "flowBias"),
    "protocolFlows": ("name", "change1dPct", "change7dPct"),
    "stablecoinFlows": ("name", "flow24hUsd", "flow7dUsd"),
}
"""Which figures of each feature are shown, in this order."""


def market_title(market: Market, name: SymbolFormatter = symbol_text) -> str:
    """Names the symbol."""
    return f"Market: {name(market.symbol)}"


MarketView = tuple[
    int, Mid | None, str | None, Liquidity | None, AssetContext | None, SettledFunding | None, tuple[Feature, ...]
]
"""All that a market is shown by: the moment, since every figure has its age, and the figures."""


def market_rows(seen: MarketView, words: LineFormatter = plain_line) -> Rows:
    """Names and values."""
    rows: list[Row] = []
    now, mid, regime, book, context, settled, features = seen
    # How old each value is, so that a stale one is seen to be stale.
    if mid is not None:
        rows += ("price", short_price(mid.price_e8)), ("price_age_s", str((now - mid.bucket_ts) // 1000))
    if regime is not None:
        rows.append(("regime", regime))
    if book is not None:
        rows += (
            ("spread_bps", statistic_text(book.spread_bps, 2)),
            ("depth_usd_0.1pct", statistic_text(book.depth_usd_10bps, 0)),
            ("depth_usd_1pct", statistic_text(book.depth_usd_100bps, 0)),
            ("imbalance", statistic_text(book.imbalance, 2)),
            ("book_age_s", str((now - book.bucket_ts) // 1000)),
        )
    if context is not None:
        rows += (
            ("funding_rate_1h_pct", decimal_text(context.funding_e12 * 100, E12, 5)),
            ("premium_pct", decimal_text(context.premium_e12 * 100, E12, 4)),
            ("open_interest", statistic_text(context.open_interest_base, 0)),
            ("funding_age_s", str((now - context.bucket_ts) // 1000)),
        )
    elif settled is not None:
        rows += *settled_funding_rows(settled), ("funding_age_s", str((now - settled.bucket_ts) // 1000))
    for feature in features:
        line = feature.line or feature_line(feature, words)
        seconds = (now - feature.bucket_ts) // 1000
        rows.append((feature.name, f"{line} age_s={seconds}" if line else f"age_s={seconds}"))
    return tuple(rows)


@lru_cache(maxsize=64)
def settled_funding_rows(known: SettledFunding) -> tuple[Row, ...]:
    """The funding settled last, by the hour; premium and open interest are not known of it."""
    hourly = divide_half_even(known.rate_e12 * 100, known.interval_hours)
    return ("funding_rate_1h_pct", decimal_text(hourly, E12, 5)), ("funding_interval_h", str(known.interval_hours))


def feature_line(feature: Feature, words: LineFormatter = plain_line) -> str:
    """The figures of a feature that are shown, as `name=value` pairs; of a prediction market behind its title."""
    # Of another symbol it stands behind the name: `predictionMarkets of BTC`.
    known, kind, pairs = dict(feature.metrics), feature.name.partition(" ")[0], list[str]()
    is_market = kind in PREDICTION_MARKETS
    for name in SHOWN_FEATURES[kind]:
        if name in known:
            pairs.append(f"{name}={known[name] if is_market else words(known[name], 24)}")
    figures = " ".join(pairs)
    if not is_market:
        return figures
    # Title and outcome are text of others, so they stand in quotes that they cannot close.
    title, outcome = quote_line(known.get("question", ""), _MOST_TITLE), quote_line(known.get("outcome", "None"), 20)
    return f"{title} outcome={outcome} {figures}"


MARKET_SECTION: SectionLayout[Market, MarketView] = SectionLayout(
    name="market",
    cap=700,
    title=market_title,
    columns=FACT_COLUMNS,
    look=attrgetter("as_of", "mid", "regime", "liquidity", "context", "settled_funding", "features"),
    rows=market_rows,
    text=fact_text,
)


MAX_SYMBOLS_SHOWN = 8
MAX_ORDERS_SHOWN = 3
FLAT_ROWS: Rows = (("position_side", "flat"),)
LONG_ROW, SHORT_ROW = ("position_side", "long"), ("position_side", "short")

HeldPositions = tuple[tuple[Position, int, int], ...]
"""Positions by symbol, each with its mark and its signed value there."""


class PortfolioView(msgspec.Struct, frozen=True):
    """What the section is made of: each position with what it is worth, each order with what it would add.

    `left` is what the day began with, the orders of the hour and the seconds the symbol still rests, if they are known.
    Marks are not in it where nothing depends on them, and no mapping is, for somebody may go on to fill it.
    """

    symbol: str
    cash_usd_e6: int
    equity_usd_e6: int
    held: HeldPositions
    working: tuple[tuple[Order, int], ...]
    caps: RiskCaps
    left: tuple[int, int, int] | None
    degraded: tuple[str, ...]


def look_at_portfolio(situation: Situation) -> PortfolioView:
    """The account, the caps, and what the day and the hour have used of them."""
    symbol, marks, working = situation.market.symbol, situation.marks, situation.working
    caps, activity = situation.deployment.agent.caps, situation.activity
    equity = cash = situation.portfolio.cash_usd_e6
    positions, held = situation.portfolio.positions, []
    for name in sorted(positions):
        position, mark = positions[name], marks[name]
        value = notional_usd_e6(position.size_e8, mark)
        equity += value - position.cost_usd_e6
        held.append((position, mark, value))
    left = None
    if activity is not None:
        lost_at = activity.last_loss_at.get(symbol)
        rests = 0 if lost_at is None else max(0, -((situation.as_of - lost_at - caps.cooldown_ms) // 1000))
        left = (activity.day_start_equity_usd_e6, activity.orders_last_hour, rests)
    adds = tuple([(order, _added_usd_e6(order, marks)) for order in working]) if working else ()
    return PortfolioView(symbol, cash, equity, tuple(held), adds, caps, left, situation.degraded)


def _added_usd_e6(order: Order, marks: dict[str, int]) -> int:
    """What an order would add; nothing is known of one at the market while its symbol has no price."""
    price = order.limit_price_e8 or marks.get(order.symbol, 0)
    return 0 if order.reduce_only else notional_usd_e6(order.size_e8, price)


def portfolio_rows(seen: PortfolioView, name: SymbolFormatter = symbol_text) -> Rows:
    """Names and values; the position is that of the packet's symbol."""
    (each, together, leverage, smallest, loss), caps, equity = _cap_rows(seen.caps), seen.caps, seen.equity_usd_e6
    own, names, used, working = FLAT_ROWS, [], 0, "none"
    for position, mark, value in seen.held:
        names.append(name(position.symbol))
        used += abs(value)
        if position.symbol == seen.symbol:
            own = (
                LONG_ROW if position.size_e8 > 0 else SHORT_ROW,
                ("position_usd", usd_text(abs(value))),
                ("entry_price", short_price(average_price_e8(position.cost_usd_e6, position.size_e8))),
                ("mark", short_price(mark)),
                ("unrealised_usd", usd_text(value - position.cost_usd_e6)),
            )
    if seen.working:
        working = _orders_text([order for order, _ in seen.working], name)
        used += sum([added for _, added in seen.working])
    rows: list[Row] = [
        ("cash_usd", cached_usd_text(seen.cash_usd_e6)),
        ("equity_usd", usd_text(equity)),
        *own,
        ("open_symbols", " ".join(names if len(names) <= MAX_SYMBOLS_SHOWN else _first_names(names)) or "none"),
        ("working_orders", working),
        each,
        together,
        ("account_used_usd", usd_text(used)),
        leverage,
        smallest,
    ]
    if seen.left is not None:
        # What the day may lose, and what it and the hour still allow.
        began, sent, rests = seen.left
        allowed = caps.max_daily_loss_usd_e6 - max(0, began - equity)
        rows += loss, ("daily_loss_left_usd", cached_usd_text(max(0, allowed)))
        rows.append(("orders_left_this_hour", str(max(0, caps.max_orders_per_hour - sent))))
        if rests:
            rows.append(("rests_after_loss_s", str(rests)))
    if seen.degraded:
        rows.append(("could_not_be_read", " ".join(sorted(seen.degraded))))
    return tuple(rows)


@lru_cache(maxsize=512)
def _cap_rows(caps: RiskCaps) -> Rows:
    """What an order has to keep to."""
    # Cached, since it changes only with the agent.
    return (
        ("max_position_usd", usd_text(caps.max_position_usd_e6)),
        ("max_account_usd", usd_text(caps.max_account_usd_e6)),
        ("max_leverage", str(caps.max_leverage)),
        ("min_notional_usd", usd_text(caps.min_notional_usd_e6)),
        ("max_daily_loss_usd", usd_text(caps.max_daily_loss_usd_e6)),
    )


def _orders_text(working: list[Order], name: SymbolFormatter) -> str:
    texts = [_order_text(order, name) for order in working[:MAX_ORDERS_SHOWN]]
    more = len(working) - len(texts)
    return "; ".join([*texts, f"{more} more"] if more else texts)


def _order_text(order: Order, name: SymbolFormatter) -> str:
    at = "" if order.limit_price_e8 is None else f" at {short_price(order.limit_price_e8)}"
    size = decimal_text(order.size_e8, E8, 8).rstrip("0").rstrip(".")
    return f"{order.side} {size} {name(order.symbol)}{at}"


def _first_names(names: list[str]) -> list[str]:
    return [*names[:MAX_SYMBOLS_SHOWN], f"and {len(names) - MAX_SYMBOLS_SHOWN} more"]


PORTFOLIO_SECTION = SectionLayout(
    name="portfolio",
    cap=350,
    title="Portfolio and risk caps",
    columns=FACT_COLUMNS,
    look=look_at_portfolio,
    rows=portfolio_rows,
    text=fact_text,
    whole=agent_name,
)


OPEN_POSITION_COLUMNS = ("what", "size", "entry", "mark", "mfe", "mae", "held", "reason")
# A position is shown in every packet for as long as it is held, so its reason is short.
OPEN_REASON_CHARS = 120

OpenPositionsView = tuple[tuple[TradeState, Position, int, int], ...]


def look_at_open_positions(situation: Situation) -> OpenPositionsView:
    """Each open trade with its position, mark and minutes: first the one in the packet's symbol, then by symbol."""
    if not situation.open_trades:
        return ()
    now, marks, symbol = situation.as_of, situation.marks, situation.market.symbol
    trades = list(situation.open_trades.values())
    if len(trades) > 1:
        # The position at hand first: should the section be cut, it stays.
        trades.sort(key=lambda trade: (trade.symbol != symbol, trade.symbol))
    seen = []
    for trade in trades:
        held = situation.portfolio.positions.get(trade.symbol)
        if held is not None:
            seen.append((trade, held, marks[trade.symbol], (now - trade.entry_tick_at) // MINUTE))
    return tuple(seen)


def open_position_rows(
    seen: OpenPositionsView, words: LineFormatter = plain_line, name: SymbolFormatter = symbol_text
) -> Rows:
    """One per open trade."""
    rows = []
    for trade, held, mark_e8, minutes in seen:
        row = (
            f"{name(trade.symbol)} {trade.side}",
            whole_usd_text(abs(notional_usd_e6(held.size_e8, mark_e8))),
            price_text(held.entry_price_e8),
            price_text(mark_e8),
            extreme_usd_text(trade.mfe_usd_e6),
            extreme_usd_text(trade.mae_usd_e6),
            f"{minutes}m",
            words(trade.entry_reason, OPEN_REASON_CHARS),
        )
        rows.append(row)
    return tuple(rows)


def open_position_text(rows: Rows) -> str:
    """A line per position."""
    lines = [
        f'- {what} {size} @ {entry} mark={mark} MFE={mfe} / MAE={mae} held {held} "{reason}"'
        for what, size, entry, mark, mfe, mae, held, reason in rows
    ]
    return "\n".join(lines)


OPEN_POSITIONS_SECTION = SectionLayout(
    name="open_positions",
    cap=200,
    title="Open positions (memory view)",
    columns=OPEN_POSITION_COLUMNS,
    look=look_at_open_positions,
    rows=open_position_rows,
    text=open_position_text,
    memory=True,
    shares=True,
)


DECISION_REASON_CHARS, DECISION_DETAIL_CHARS = 80, 100

LastDecisionView = tuple[DecisionRun | None, tuple[OrderOutcome, ...], tuple[str, ...]]
"""The newest run on a symbol, its orders, and the symbols the agent was given."""


def last_decision_rows(
    seen: LastDecisionView, words: LineFormatter = plain_line, name: SymbolFormatter = symbol_text
) -> Rows:
    """When it was, and one row per action."""
    run, orders, watched = seen
    if run is None:
        return ()
    rows: list[Row] = [("at", minute_text(run.as_of))]
    outcomes = {order.symbol: order for order in orders} if orders else {}
    for action, verdict in zip(run.actions, run.verdicts, strict=True):
        # A model can name any symbol it likes; only those it was given are repeated outside quotes.
        symbol = name(action.symbol) if action.symbol in watched else "another symbol"
        what = f"{action.action} {symbol} {action.side}" if action.side else f"{action.action} {symbol}"
        outcome = "allowed"
        if not verdict.allowed:
            outcome = f'refused by {verdict.rule}: "{words(verdict.detail, DECISION_DETAIL_CHARS)}"'
        elif action.action != "hold" and action.symbol in outcomes:
            outcome = _order_outcome_text(outcomes[action.symbol], words)
        rows.append((what, f'{outcome}; reason: "{words(action.reason, DECISION_REASON_CHARS)}"'))
    if run.error:
        failed = "no answer" if run.status == "failed" else "refused, no readable reply"
        rows.append((failed, f'"{words(run.error, DECISION_DETAIL_CHARS)}"'))
    return tuple(rows)


def _order_outcome_text(order: OrderOutcome, words: LineFormatter) -> str:
    """What became of an allowed order; one that was refused later is not called allowed."""
    if order.status == "rejected":
        # The send gate writes its rule in front of the detail; a broker's refusal has none.
        rule, at_send, detail = order.detail.partition(" at send: ")
        if at_send:
            return f'refused at send by {words(rule, 40)}: "{words(detail, DECISION_DETAIL_CHARS)}"'
        return f'refused by the broker: "{words(order.detail, DECISION_DETAIL_CHARS)}"'
    if order.status == "cancelled":
        return f'allowed, then cancelled: "{words(order.detail, DECISION_DETAIL_CHARS)}"'
    return "allowed, not sent: dry run" if order.status == "dry" else f"allowed, {order.status}"


LAST_DECISION_SECTION: SectionLayout[Situation, LastDecisionView] = SectionLayout(
    name="last_decision",
    cap=100,
    title="Last decision",
    columns=FACT_COLUMNS,
    look=attrgetter("last_run", "last_orders", "deployment.agent.watchlist"),
    rows=last_decision_rows,
    text=fact_text,
    memory=True,
)
