"""Open positions (memory view): how far each open trade has been in the money, for how long, and why it was opened."""

from tapebook.context.quote import plain, symbol_text
from tapebook.context.sections import Layout
from tapebook.context.sections.figures import price, signed_usd, whole_usd
from tapebook.context.situation import Situation
from tapebook.domain.instants import MINUTE
from tapebook.domain.packet import Section
from tapebook.domain.trade import TradeState

COLUMNS = ("what", "size", "entry", "mark", "mfe", "mae", "held", "reason")
MOST_WORDS = 120


def build(situation: Situation) -> Section | None:
    """One row per open trade: first the one in the packet's symbol, then by symbol."""
    trades = sorted(situation.open_trades.values(), key=lambda trade: (trade.symbol != situation.symbol, trade.symbol))
    rows = tuple(_row(situation, trade) for trade in trades)
    return Section("open_positions", "Open positions (memory view)", COLUMNS, rows) if rows else None


def _row(situation: Situation, trade: TradeState) -> tuple[str, ...]:
    return (
        f"{symbol_text(trade.symbol)} {trade.side}",
        whole_usd(trade.entered_usd_e6),
        price(trade.entry_price_e8),
        price(situation.marks[trade.symbol]),
        signed_usd(trade.mfe_usd_e6, digits=0),
        signed_usd(trade.mae_usd_e6, digits=0),
        f"{(situation.as_of - trade.entry_tick_at) // MINUTE}m",
        plain(trade.entry_reason, MOST_WORDS),
    )


def line(row: tuple[str, ...]) -> str:
    """A position as one line."""
    what, size, entry, mark, mfe, mae, held, reason = row
    return f'- {what} {size} @ {entry} mark={mark} MFE={mfe} / MAE={mae} held {held} "{reason}"'


LAYOUT = Layout(name="open_positions", cap=200, build=build, line=line, memory=True)
