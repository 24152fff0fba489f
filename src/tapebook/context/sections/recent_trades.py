"""Recent trades (closed): the newest round trips, one line each, latest entry first."""

from functools import lru_cache
from operator import attrgetter

from tapebook.context.quote import plain, symbol_text
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.sections.figures import percent, price, signed_usd, whole_usd
from tapebook.context.situation import Situation
from tapebook.domain.instants import MINUTE, clock_text, minute_text
from tapebook.domain.trade import ClosedTrade

COLUMNS = ("span", "what", "size", "prices", "pnl", "pct", "minutes", "regime", "reason")
MOST_WORDS = 120


def rows(trades: tuple[ClosedTrade, ...]) -> Rows:
    """One per trade; the result is net of fees and funding."""
    # Of one moment by symbol: ids differ between live and a backtest.
    newest = sorted(trades, key=lambda trade: (trade.state.entry_tick_at, trade.state.symbol), reverse=True)
    return tuple([_row(trade) for trade in newest])


@lru_cache(maxsize=4_096)
def _row(trade: ClosedTrade) -> Row:
    """Cached, since a trade that has ended looks the same in every packet after it."""
    state = trade.state
    return (
        f"{minute_text(state.entry_tick_at)} → {clock_text(trade.exit_tick_at)}",
        f"{symbol_text(state.symbol)} {state.side}",
        whole_usd(state.entered_usd_e6),
        f"{price(state.entry_price_e8)} → {price(trade.exit_price_e8)}",
        signed_usd(state.net_usd_e6),
        percent(state.net_usd_e6, state.entered_usd_e6),
        f"{trade.holding_ms // MINUTE}m",
        f"regime={state.entry_regime_tag or 'unknown'}",
        plain(state.entry_reason, MOST_WORDS),
    )


def text(rows: Rows) -> str:
    """A line per trade."""
    lines = [
        f'- {span} {what} {size} {prices} {pnl} ({pct}) {minutes} {regime} "{reason}"'
        for span, what, size, prices, pnl, pct, minutes, regime, reason in rows
    ]
    return "\n".join(lines)


LAYOUT: Layout[Situation, tuple[ClosedTrade, ...]] = Layout(
    name="recent_trades",
    cap=600,
    title="Recent trades (closed)",
    columns=COLUMNS,
    look=attrgetter("closed_trades"),
    rows=rows,
    text=text,
    memory=True,
)
