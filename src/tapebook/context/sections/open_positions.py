"""Open positions (memory view): how far each open trade has been in the money, for how long, and why it was opened."""

from tapebook.context.quote import plain, symbol_text
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.sections.figures import price, signed_usd, whole_usd
from tapebook.context.situation import Situation
from tapebook.domain.instants import MINUTE
from tapebook.domain.trade import TradeState

COLUMNS = ("what", "size", "entry", "mark", "mfe", "mae", "held", "reason")
MOST_WORDS = 120

Seen = tuple[tuple[TradeState, int, int], ...]


def look(situation: Situation) -> Seen:
    """Each open trade with its mark and its minutes: first the one in the packet's symbol, then by symbol."""
    if not situation.open_trades:
        return ()
    now, marks, symbol = situation.as_of, situation.marks, situation.market.symbol
    trades = sorted(situation.open_trades.values(), key=lambda trade: (trade.symbol != symbol, trade.symbol))
    return tuple([(trade, marks[trade.symbol], (now - trade.entry_tick_at) // MINUTE) for trade in trades])


def rows(seen: Seen) -> Rows:
    """One per open trade."""
    return tuple([_row(*each) for each in seen])


def _row(trade: TradeState, mark_e8: int, minutes: int) -> Row:
    return (
        f"{symbol_text(trade.symbol)} {trade.side}",
        whole_usd(trade.entered_usd_e6),
        price(trade.entry_price_e8),
        price(mark_e8),
        signed_usd(trade.mfe_usd_e6, 0),
        signed_usd(trade.mae_usd_e6, 0),
        f"{minutes}m",
        plain(trade.entry_reason, MOST_WORDS),
    )


def line(row: Row) -> str:
    """A position as one line."""
    what, size, entry, mark, mfe, mae, held, reason = row
    return f'- {what} {size} @ {entry} mark={mark} MFE={mfe} / MAE={mae} held {held} "{reason}"'


LAYOUT = Layout(
    name="open_positions",
    cap=200,
    title="Open positions (memory view)",
    columns=COLUMNS,
    look=look,
    rows=rows,
    line=line,
    memory=True,
)
