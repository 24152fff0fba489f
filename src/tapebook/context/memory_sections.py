"""The sections of what an agent remembers, and its manual; its open positions and last decision stand with the market.

recent activity   what was refused lately, by whomever, and what the day has come to. Lines about nothing are left
                  out. When the last three refusals have the same code it says so, for a model that sees only its
                  last one tends to propose the same again; what grows without bound is shortened until the section
                  fits
recent trades     the newest round trips, latest entry first, net of fees and funding, with the notional at entry;
                  an exit without a decision of ours is a label. When the newest ten do not fit, the reasons get
                  shorter and the year is left out; what still does not fit goes, the oldest first
experience        the weights of providers, their record by regime, and how situations like this one ended; an
                  ensemble reads a member's weight off ("provider", NAME, "1.20")
horizons          what the day, the week, the month, the year and all time look like, nearest first
rules             the agent's manual, whole, behind a fence so that its own headings are not those of the packet.
                  One that does not fit is refused when the agent is saved: half of the rules is worse than none
citations         places in rules, notes and past runs that speak to this situation; an action names them in `cites`
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from tapebook.context.render import (
    FACT_COLUMNS,
    LineFormatter,
    Row,
    Rows,
    SectionLayout,
    SymbolFormatter,
    extreme_usd_text,
    fact_text,
    percent_text,
    plain_line,
    price_text,
    signed_usd_text,
    symbol_text,
    whole_usd_text,
)
from tapebook.context.situation import Situation, agent_name
from tapebook.domain.agent import ExperienceRow, LayerRow
from tapebook.domain.packet import Citation
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import LONGEST_STREAK, Activity
from tapebook.domain.text import sanitise_lines, text_tokens
from tapebook.domain.units import MINUTE, decimal_text, minute_text, time_of_day_text

# Tokens, with the nudges in it.
ACTIVITY_CAP = 130
ACTIVITY_TITLE = "Recent activity (this session)"
REPEATED_REJECTION_NUDGE = "← same code in the last 3+ rejections; do not repeat the same proposal shape"
LOSING_STREAK_NUDGE = "(consider whether your read of the regime still holds)"
# How many codes of the sequence and how many rules are shown; the first shape that fits is taken.
_ACTIVITY_SHAPES = ((4, 99), (3, 3), (3, 2), (3, 1), (1, 1))


def activity_rows(activity: Activity | None) -> Rows:
    """Names and values of what is not zero."""
    if activity is None:
        return ()
    for tail, rules in _ACTIVITY_SHAPES:
        found = _activity_rows_in_shape(activity, tail=tail, rules=rules)
        if text_tokens(f"## {ACTIVITY_TITLE}\n{fact_text(found)}") <= ACTIVITY_CAP:
            break
    return found


def _activity_rows_in_shape(activity: Activity, *, tail: int, rules: int) -> Rows:
    rows = []
    if activity.refusals:
        rows.append(("engine rejections (last 1h)", _rule_counts(activity.refusals, rules)))
        rows.append(("recent rejection sequence", _code_sequence(activity.refusals, tail)))
    if activity.executed_today:
        rows.append(("executed orders today (UTC)", str(activity.executed_today)))
    start = activity.day_start_equity_usd_e6
    share = percent_text(activity.realised_today_usd_e6, start, digits=2) if start > 0 else ""
    # What rounds to nothing says nothing, least of all with a sign.
    if share.strip("+-0.%"):
        rows.append(("realized PnL today (UTC, vs day-start equity)", share))
    if activity.losing_streak:
        # No more closes than that are read, so a longer streak is not known.
        more = "+" if activity.losing_streak >= LONGEST_STREAK else ""
        rows.append(("consecutive losing closes", f"{activity.losing_streak}{more} {LOSING_STREAK_NUDGE}"))
    return tuple(rows)


def _rule_counts(codes: Sequence[str], rules: int) -> str:
    """`R3_POSITION_CAP=4, R6_RATE_LIMIT=1`: the most frequent first."""
    counted = sorted(Counter(codes).items(), key=lambda pair: (-pair[1], pair[0]))
    texts = [f"{code}={count}" for code, count in counted[:rules]]
    more = len(counted) - len(texts)
    return ", ".join([*texts, f"{more} more rules"] if more else texts)


def _code_sequence(codes: Sequence[str], tail: int) -> str:
    """The last codes, oldest first, with the nudge when three are the same."""
    shown = " → ".join(codes[-tail:])
    return f"{shown} {REPEATED_REJECTION_NUDGE}" if len(codes) >= 3 and len(set(codes[-3:])) == 1 else shown


RECENT_ACTIVITY_SECTION: SectionLayout[Situation, Activity | None] = SectionLayout(
    name="recent_activity",
    cap=ACTIVITY_CAP,
    title=ACTIVITY_TITLE,
    columns=FACT_COLUMNS,
    look=attrgetter("activity"),
    rows=activity_rows,
    text=fact_text,
    memory=True,
    shares=True,
)


TRADE_COLUMNS = ("span", "what", "size", "prices", "pnl", "pct", "minutes", "regime", "mfe", "mae", "reason", "exit")
TRADES_TITLE = "Recent trades (closed): net (%), held, regime, MFE/MAE, why in, exit"

# Characters of the reason for the entry and of that for the exit, in a row as it is and in its shorter shapes.
TRADE_REASON_CHARS, TRADE_EXIT_CHARS, TRADE_REGIME_CHARS = 120, 80, 60
TRADES_WANTED = 10
"""How many trades are shown by default: reasons get no shorter than these need."""

QUOTE_SIGN, YEAR_CHARS = '"', len("2026-")
TRADE_SHAPES = ((80, 48), (56, 36), (40, 28), (28, 20), (18, 14), (10, 0), (0, 0))


def trade_rows(
    trades: tuple[ClosedTrade, ...], words: LineFormatter = plain_line, name: SymbolFormatter = symbol_text
) -> Rows:
    """One per trade."""
    # Of one moment by symbol first: ids differ between live and a backtest.
    newest = sorted(trades, key=_entry_key, reverse=True)
    return tuple([_trade_row(trade, words, name) for trade in newest])


def _entry_key(trade: ClosedTrade) -> tuple[int, str, str]:
    return trade.state.entry_tick_at, trade.state.symbol, trade.state.trade_id


@lru_cache(maxsize=4_096)
def _trade_row(trade: ClosedTrade, words: LineFormatter, name: SymbolFormatter) -> Row:
    """The row of a closed trade."""
    # Cached, since a trade that has ended looks the same in every packet after it.
    state = trade.state
    size = state.entry_notional_usd_e6
    return (
        f"{minute_text(state.entry_tick_at)} → {time_of_day_text(trade.exit_tick_at)}",
        f"{name(state.symbol)} {state.side}",
        whole_usd_text(size),
        f"{price_text(state.entry_price_e8)} → {price_text(trade.exit_price_e8)}",
        signed_usd_text(state.net_usd_e6),
        percent_text(state.net_usd_e6, size),
        f"{trade.holding_ms // MINUTE}m",
        words(state.entry_regime_tag or "unknown", TRADE_REGIME_CHARS),
        extreme_usd_text(state.mfe_usd_e6),
        extreme_usd_text(state.mae_usd_e6),
        words(state.entry_reason, TRADE_REASON_CHARS),
        _exit_text(trade, words),
    )


def _exit_text(trade: ClosedTrade, words: LineFormatter) -> str:
    """The reason of the decision that closed it, in quotes; or what else ended it, which no decision can claim."""
    reason = words(trade.exit_reason, TRADE_EXIT_CHARS)
    # In quotes is what a model wrote; a label such as `liquidated` is ours.
    return reason if trade.exit_run_id is None else f'"{reason}"'


@lru_cache(maxsize=16_384)
def shorten_trade_row(row: Row, shape: int, words: LineFormatter = plain_line) -> Row:
    """A row without its year and with shorter reasons; a label is never shortened."""
    most, most_exit = TRADE_SHAPES[shape]
    span, *figures, reason, end = row
    if end.startswith('"'):
        end = f'"{words(end.strip(QUOTE_SIGN), most_exit)}"' if most_exit else ""
    return (span[YEAR_CHARS:], *figures, words(reason, most) if most else "", end)


def trade_text(rows: Rows) -> str:
    """A line per trade."""
    return "\n".join(map(_trade_line, rows))


def _trade_line(row: Row) -> str:
    span, what, size, prices, pnl, pct, minutes, regime, mfe, mae, reason, end = row
    words = (f' "{reason}"' if reason else "") + (f" exit {end}" if end else "")
    return f"- {span} {what} {size} {prices} {pnl} ({pct}) {minutes} {regime} {mfe}/{mae}{words}"


RECENT_TRADES_SECTION: SectionLayout[Situation, tuple[ClosedTrade, ...]] = SectionLayout(
    name="recent_trades",
    cap=600,
    title=TRADES_TITLE,
    columns=TRADE_COLUMNS,
    look=attrgetter("closed_trades"),
    rows=trade_rows,
    text=trade_text,
    memory=True,
    shapes=len(TRADE_SHAPES),
    wanted=TRADES_WANTED,
    shorten=shorten_trade_row,
)


EXPERIENCE_COLUMNS = ("kind", "name", "value")


def experience_rows(learned: tuple[ExperienceRow, ...], words: LineFormatter = plain_line) -> Rows:
    """One per thing learned, as the room of experience ordered them."""
    return tuple([(words(each.kind, 20), words(each.name, 60), words(each.value, 120)) for each in learned])


def experience_text(rows: Rows) -> str:
    """A line per thing learned."""
    return "\n".join([f"- {kind} {name}: {value}" for kind, name, value in rows])


EXPERIENCE_SECTION: SectionLayout[Situation, tuple[ExperienceRow, ...]] = SectionLayout(
    name="experience",
    cap=250,
    title="Experience (providers, record, similar situations)",
    columns=EXPERIENCE_COLUMNS,
    look=attrgetter("experience"),
    rows=experience_rows,
    text=experience_text,
    by_item=True,
    memory=True,
)


HORIZON_COLUMNS = ("layer", "timeframe", "key", "value")


def horizon_rows(layers: tuple[LayerRow, ...], words: LineFormatter = plain_line) -> Rows:
    """One per key of a layer; its value is quoted, for people write some of them."""
    return tuple(
        [(words(row.layer, 12), words(row.timeframe, 20), words(row.key, 60), words(row.value, 120)) for row in layers]
    )


def horizon_text(rows: Rows) -> str:
    """A line per key."""
    return "\n".join([f'- {layer} {timeframe} {key}: "{value}"' for layer, timeframe, key, value in rows])


HORIZONS_SECTION: SectionLayout[Situation, tuple[LayerRow, ...]] = SectionLayout(
    name="horizons",
    cap=250,
    title="Horizons",
    columns=HORIZON_COLUMNS,
    look=attrgetter("horizons"),
    rows=horizon_rows,
    text=horizon_text,
    by_item=True,
    memory=True,
)


RULES_TITLE = "Rules (your manual)"


def rule_rows(manual: str) -> Rows:
    """One per line; a line also ends at the breaks a reader may not see."""
    # Not capped line by line: a manual is shown whole or refused when its agent is enabled.
    return tuple([(line,) for line in sanitise_lines(manual)])


def rule_text(rows: Rows) -> str:
    """The lines of the manual."""
    return "\n".join([f"| {line}".rstrip() for (line,) in rows])


RULES_SECTION: SectionLayout[Situation, str] = SectionLayout(
    name="rules",
    cap=600,
    title=RULES_TITLE,
    columns=("line",),
    look=attrgetter("deployment.agent.manual"),
    rows=rule_rows,
    text=rule_text,
    whole=agent_name,
)


CITATION_COLUMNS = ("id", "place", "score", "source", "snippet")
# Enough for a paragraph's point; who wants more opens the place.
CITATION_CHARS = 240


def citation_rows(found: tuple[Citation, ...], words: LineFormatter = plain_line) -> Rows:
    """One per citation, as recall ordered them."""
    return tuple([_citation_row(citation, words) for citation in found])


def _citation_row(citation: Citation, words: LineFormatter) -> Row:
    return (
        words(citation.id, 12),
        f"{words(citation.path, 90)}:{citation.start_line}-{citation.end_line}",
        decimal_text(citation.score_e4, 10_000, 2),
        words(citation.source, 20),
        words(citation.snippet, CITATION_CHARS),
    )


def citation_text(rows: Rows) -> str:
    """A line per citation."""
    lines = [f'- [{name}] "{place}" ({source}, {score}): "{snippet}"' for name, place, score, source, snippet in rows]
    return "\n".join(lines)


CITATIONS_SECTION: SectionLayout[Situation, tuple[Citation, ...]] = SectionLayout(
    name="citations",
    cap=400,
    title="Citations",
    columns=CITATION_COLUMNS,
    look=attrgetter("citations"),
    rows=citation_rows,
    text=citation_text,
    memory=True,
)
