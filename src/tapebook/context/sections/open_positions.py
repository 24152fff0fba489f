"""Open positions (memory view): how far each open trade has been in the money, for how long, and why it was opened.

Size and entry are those of the position as it is held now, as in the portfolio: what was closed on the way is gone.
"""

from tapebook.context.quote import Name, Words, plain, symbol_text
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.sections.figures import extreme_usd, price, whole_usd
from tapebook.context.situation import Situation
from tapebook.domain.instants import MINUTE
from tapebook.domain.memo import Memo
from tapebook.domain.money import notional_usd_e6
from tapebook.domain.position import Position
from tapebook.domain.trade import TradeState

COLUMNS = ("what", "size", "entry", "mark", "mfe", "mae", "held", "reason")
MOST_WORDS = 120

Seen = tuple[tuple[TradeState, Position, int, int], ...]


def look(situation: Situation) -> Seen:
    """Each open trade with its position, mark and minutes: first the one in the packet's symbol, then by symbol."""
    if not situation.open_trades:
        return ()
    now, marks, symbol = situation.as_of, situation.marks, situation.market.symbol
    trades = list(situation.open_trades.values())
    if len(trades) > 1:
        trades.sort(key=lambda trade: (trade.symbol != symbol, trade.symbol))
    seen = []
    for trade in trades:
        held = situation.portfolio.positions.get(trade.symbol)
        if held is not None:
            seen.append((trade, held, marks[trade.symbol], (now - trade.entry_tick_at) // MINUTE))
    return tuple(seen)


def rows(seen: Seen) -> Rows:
    """One per open trade."""
    return tuple([row(*each, cells=_known((each[0], each[1]))) for each in seen])


def row(trade: TradeState, held: Position, mark_e8: int, minutes: int, *, cells: Row) -> Row:
    """A trade with its mark and its time; `cells` are those of the trade itself."""
    what, entry, mfe, mae, reason = cells
    size = whole_usd(abs(notional_usd_e6(held.size_e8, mark_e8)))
    return what, size, entry, price(mark_e8), mfe, mae, f"{minutes}m", reason


def cells_of(known: tuple[TradeState, Position], words: Words = plain, name: Name = symbol_text) -> Row:
    """What stays while the market moves: what it is, its entry, its extremes, and why it was opened."""
    trade, held = known
    return (
        f"{name(trade.symbol)} {trade.side}",
        price(held.entry_price_e8),
        extreme_usd(trade.mfe_usd_e6),
        extreme_usd(trade.mae_usd_e6),
        words(trade.entry_reason, MOST_WORDS),
    )


# The mark and the time move on, the trade itself seldom does.
_known = Memo(cells_of)


def text(rows: Rows) -> str:
    """A line per position."""
    lines = [
        f'- {what} {size} @ {entry} mark={mark} MFE={mfe} / MAE={mae} held {held} "{reason}"'
        for what, size, entry, mark, mfe, mae, held, reason in rows
    ]
    return "\n".join(lines)


LAYOUT = Layout(
    name="open_positions",
    cap=200,
    title="Open positions (memory view)",
    columns=COLUMNS,
    look=look,
    rows=rows,
    text=text,
    memory=True,
    shares=True,
)
