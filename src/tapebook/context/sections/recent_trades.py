"""Recent trades (closed): the newest round trips, one line each, latest entry first.

The result is net of fees and funding, the size is the notional at entry; MFE and MAE are the best and the worst the
trade stood at, in dollars. Reasons are quoted; an exit without a decision of ours is a label: `liquidated`, `delisted`,
`external_flatten`, `unknown`. When the newest ten do not fit, the reasons get shorter and the year is left out;
what still does not fit goes, the oldest first.
"""

from functools import lru_cache
from operator import attrgetter

from tapebook.context.quote import Name, Words, plain, symbol_text
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.sections.figures import extreme_usd, percent, price, signed_usd, whole_usd
from tapebook.context.situation import Situation
from tapebook.domain.instants import MINUTE, clock_text, minute_text
from tapebook.domain.trade import ClosedTrade

COLUMNS = ("span", "what", "size", "prices", "pnl", "pct", "minutes", "regime", "mfe", "mae", "reason", "exit")
TITLE = "Recent trades (closed): net (%), held, regime, MFE/MAE, why in, exit"

# Characters of the reason for the entry and of that for the exit, in a row as it is and in its shorter shapes.
MOST_WORDS, MOST_EXIT, MOST_TAG = 120, 80, 60
WANTED = 10
"""How many trades are shown by default: reasons get no shorter than these need."""

QUOTE, YEAR = '"', len("2026-")
SHAPES = ((80, 48), (56, 36), (40, 28), (28, 20), (18, 14), (10, 0), (0, 0))


def rows(trades: tuple[ClosedTrade, ...], words: Words = plain, name: Name = symbol_text) -> Rows:
    """One per trade."""
    # Of one moment by symbol first: ids differ between live and a backtest.
    newest = sorted(trades, key=_entered, reverse=True)
    return tuple([_row(trade, words, name) for trade in newest])


def _entered(trade: ClosedTrade) -> tuple[int, str, str]:
    return trade.state.entry_tick_at, trade.state.symbol, trade.state.trade_id


@lru_cache(maxsize=4_096)
def _row(trade: ClosedTrade, words: Words, name: Name) -> Row:
    """Cached, since a trade that has ended looks the same in every packet after it."""
    state = trade.state
    size = state.entry_notional_usd_e6
    return (
        f"{minute_text(state.entry_tick_at)} → {clock_text(trade.exit_tick_at)}",
        f"{name(state.symbol)} {state.side}",
        whole_usd(size),
        f"{price(state.entry_price_e8)} → {price(trade.exit_price_e8)}",
        signed_usd(state.net_usd_e6),
        percent(state.net_usd_e6, size),
        f"{trade.holding_ms // MINUTE}m",
        words(state.entry_regime_tag or "unknown", MOST_TAG),
        extreme_usd(state.mfe_usd_e6),
        extreme_usd(state.mae_usd_e6),
        words(state.entry_reason, MOST_WORDS),
        _exit(trade, words),
    )


def _exit(trade: ClosedTrade, words: Words) -> str:
    """The reason of the decision that closed it, in quotes; or what else ended it, which no decision can claim."""
    said = words(trade.exit_reason, MOST_EXIT)
    return said if trade.exit_run_id is None else f'"{said}"'


@lru_cache(maxsize=16_384)
def shorten(row: Row, shape: int, words: Words = plain) -> Row:
    """A row without its year and with shorter reasons; a label is never shortened."""
    most, most_exit = SHAPES[shape]
    span, *figures, reason, end = row
    if end.startswith('"'):
        end = f'"{words(end.strip(QUOTE), most_exit)}"' if most_exit else ""
    return (span[YEAR:], *figures, words(reason, most) if most else "", end)


def text(rows: Rows) -> str:
    """A line per trade."""
    return "\n".join(map(_line, rows))


def _line(row: Row) -> str:
    span, what, size, prices, pnl, pct, minutes, regime, mfe, mae, reason, end = row
    words = (f' "{reason}"' if reason else "") + (f" exit {end}" if end else "")
    return f"- {span} {what} {size} {prices} {pnl} ({pct}) {minutes} {regime} {mfe}/{mae}{words}"


LAYOUT: Layout[Situation, tuple[ClosedTrade, ...]] = Layout(
    name="recent_trades",
    cap=600,
    title=TITLE,
    columns=COLUMNS,
    look=attrgetter("closed_trades"),
    rows=rows,
    text=text,
    memory=True,
    shapes=len(SHAPES),
    wanted=WANTED,
    shorten=shorten,
)
