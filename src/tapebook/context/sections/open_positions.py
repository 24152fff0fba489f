"""Open positions (memory view): how far each open trade has been in the money, for how long, and why it was opened."""

from tapebook.context.sections import Layout
from tapebook.context.sections.figures import price, signed_usd, whole_usd
from tapebook.context.situation import Situation
from tapebook.domain.instants import MINUTE
from tapebook.domain.packet import Section
from tapebook.domain.trade import TradeState

COLUMNS = ("what", "size", "entry", "mark", "mfe", "mae", "held", "reason")


def build(situation: Situation) -> Section | None:
    """One row per open trade, by symbol."""
    rows = tuple(_row(situation, trade) for _, trade in sorted(situation.open_trades.items()))
    return Section("open_positions", "Open positions (memory view)", COLUMNS, rows) if rows else None


def _row(situation: Situation, trade: TradeState) -> tuple[str, ...]:
    return (
        f"{trade.symbol} {trade.side}",
        whole_usd(trade.entered_usd_e6),
        price(trade.entry_price_e8),
        price(situation.marks[trade.symbol]),
        signed_usd(trade.mfe_usd_e6, digits=0),
        signed_usd(trade.mae_usd_e6, digits=0),
        f"{(situation.as_of - trade.entry_tick_at) // MINUTE}m",
        trade.entry_reason[:120],
    )


def line(row: tuple[str, ...]) -> str:
    """A position as one line."""
    what, size, entry, mark, mfe, mae, held, reason = row
    return f'- {what} {size} @ {entry} mark={mark} MFE={mfe} / MAE={mae} held {held} "{reason}"'


LAYOUT = Layout(cap=200, build=build, line=line)
