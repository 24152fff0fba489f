"""Renderer 2, frozen: the sections as packets of that version show them. Never edited; replay depends on every byte.

What it shares with newer renderers (words, portfolio, rules, figures, drawing) is held by the stored home of
`tests/replay/test_old_homes.py`: whoever changes it for new packets copies the old form here first.
"""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from tapebook.context import market_sections
from tapebook.context.render import (
    CHARACTERS_PER_TOKEN,
    FACT_COLUMNS,
    Row,
    Rows,
    SectionLayout,
    fact_text,
    percent_text,
    price_text,
    signed_usd_text,
    whole_usd_text,
)
from tapebook.context.renderer_3 import (
    MARKET_TITLE,
    PORTFOLIO_SECTION,
    QUOTES,
    RULES_SECTION,
    symbol_text,
    visible_text,
)
from tapebook.context.situation import Market, Situation
from tapebook.domain.agent import ExperienceRow, LayerRow
from tapebook.domain.packet import Citation
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.run import LONGEST_STREAK, Action, Activity, DecisionRun, Verdict
from tapebook.domain.text import text_tokens, truncate_to_tokens
from tapebook.domain.units import E12, MINUTE, decimal_text, minute_text, short_price, statistic_text, time_of_day_text

FOOTER = """Answer with this JSON object and nothing else:
{"actions":[{"action":"open|adjust|close|hold","symbol":"BTC","side":"long|short|null",
"notional_usd":250.0,"leverage":2,"order_type":"market|limit","limit_price":null,
"confidence":0.64,"reason":"at most 240 characters","cites":[]}],"note":""}
open adds to a position on that side and turns one on the other side; adjust sets its size; close ends it.
cites names citations of the packet, such as "c1"; without any it stays empty."""

NUDGE = "← same code in the last 3+ rejections; do not repeat the same proposal shape"
DOUBT = "(consider whether your read of the regime still holds)"


def plain_line(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, cut wherever that is."""
    seen = " ".join(visible_text(text[: 8 * most]).translate(QUOTES).split())[:most]
    tokens = most // CHARACTERS_PER_TOKEN
    return (seen if len(seen) <= tokens else truncate_to_tokens(seen, tokens)).rstrip()


def _bars_title(seen: Market) -> str:
    now, symbol = minute_text(seen.as_of), symbol_text(seen.symbol)
    return f"Time and bars: now {now} UTC, {symbol} {seen.bar_minutes}m bars, time high low close volume"


def _age_text(seen: Market, bucket_ts: int) -> str:
    return str((seen.as_of - bucket_ts) // 1000)


def _market_rows(seen: Market) -> Rows:
    rows: list[Row] = []
    if seen.mid is not None:
        rows += (
            ("price", short_price(seen.mid.price_e8)),
            ("price_age_s", _age_text(seen, seen.mid.bucket_ts)),
        )
    if seen.liquidity is not None:
        rows += [
            ("spread_bps", statistic_text(seen.liquidity.spread_bps, 2)),
            ("depth_usd_0.1pct", statistic_text(seen.liquidity.depth_usd_10bps, 0)),
            ("depth_usd_1pct", statistic_text(seen.liquidity.depth_usd_100bps, 0)),
            ("imbalance", statistic_text(seen.liquidity.imbalance, 2)),
            ("book_age_s", _age_text(seen, seen.liquidity.bucket_ts)),
        ]
    if seen.context is not None:
        rows += [
            ("funding_rate_1h_pct", decimal_text(seen.context.funding_e12 * 100, E12, 5)),
            ("premium_pct", decimal_text(seen.context.premium_e12 * 100, E12, 4)),
            ("open_interest", statistic_text(seen.context.open_interest_base, 0)),
            ("funding_age_s", _age_text(seen, seen.context.bucket_ts)),
        ]
    for feature in seen.features:
        known = dict(feature.metrics)
        pairs = [
            f"{name}={plain_line(known[name], 24)}"
            for name in market_sections.SHOWN_FEATURES[feature.name]
            if name in known
        ]
        rows.append((feature.name, " ".join([*pairs, f"age_s={_age_text(seen, feature.bucket_ts)}"])))
    return tuple(rows)


def _last_decision_look(situation: Situation) -> tuple[DecisionRun | None, tuple[str, ...]]:
    return situation.last_run, situation.deployment.agent.watchlist


def _last_decision_rows(seen: tuple[DecisionRun | None, tuple[str, ...]]) -> Rows:
    run, watched = seen
    if run is None:
        return ()
    each = [_decision_row(*pair, watched) for pair in zip(run.actions, run.verdicts, strict=True)]
    error = (("not understood", f'"{plain_line(run.error, 120)}"'),) if run.error else ()
    return ("at", minute_text(run.as_of)), *each, *error


def _decision_row(action: Action, verdict: Verdict, watched: tuple[str, ...]) -> Row:
    symbol = action.symbol if action.symbol in watched else "another symbol"
    what = f"{action.action} {symbol}" + (f" {action.side}" if action.side else "")
    outcome = "allowed" if verdict.allowed else f'refused by {verdict.rule}: "{plain_line(verdict.detail, 120)}"'
    return what, f'{outcome}; reason: "{plain_line(action.reason, 120)}"'


def _activity_rows(activity: Activity | None) -> Rows:
    if activity is None:
        return ()
    found: Rows = ()
    for tail, most in ((4, 99), (3, 3), (3, 2), (3, 1), (1, 1)):
        found = _activity_shape(activity, tail=tail, rules=most)
        if text_tokens(f"## Recent activity (this session)\n{fact_text(found)}") <= 130:
            break
    return found


def _activity_shape(activity: Activity, *, tail: int, rules: int) -> Rows:
    rows = []
    if activity.rejections:
        rows.append(("engine rejections (last 1h)", _counts(activity.rejections, rules)))
        rows.append(("recent rejection sequence", _sequence(activity.rejections, tail)))
    if activity.executed_today:
        rows.append(("executed orders today (UTC)", str(activity.executed_today)))
    start = activity.day_start_equity_usd_e6
    if activity.realised_today_usd_e6 and start > 0:
        share = percent_text(activity.realised_today_usd_e6, start, digits=2)
        rows.append(("realized PnL today (UTC, vs day-start equity)", share))
    if activity.losing_streak:
        more = "+" if activity.losing_streak >= LONGEST_STREAK else ""
        rows.append(("consecutive losing closes", f"{activity.losing_streak}{more} {DOUBT}"))
    return tuple(rows)


def _counts(codes: Sequence[str], rules: int) -> str:
    counted = sorted(Counter(codes).items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{code}={count}" for code, count in counted[:rules]]
    more = len(counted) - len(shown)
    return ", ".join([*shown, f"{more} more rules"] if more else shown)


def _sequence(codes: Sequence[str], tail: int) -> str:
    shown = " → ".join(codes[-tail:])
    return f"{shown} {NUDGE}" if len(codes) >= 3 and len(set(codes[-3:])) == 1 else shown


def _trade_rows(trades: tuple[ClosedTrade, ...]) -> Rows:
    newest = sorted(trades, key=lambda trade: (trade.state.entry_tick_at, trade.state.trade_id), reverse=True)
    return tuple([_trade_row(trade) for trade in newest])


def _trade_row(trade: ClosedTrade) -> Row:
    state = trade.state
    return (
        f"{minute_text(state.entry_tick_at)} → {time_of_day_text(trade.exit_tick_at)}",
        f"{symbol_text(state.symbol)} {state.side}",
        whole_usd_text(state.entered_usd_e6),
        f"{price_text(state.entry_price_e8)} → {price_text(trade.exit_price_e8)}",
        signed_usd_text(state.net_usd_e6),
        percent_text(state.net_usd_e6, state.entered_usd_e6),
        f"{trade.holding_ms // MINUTE}m",
        f"regime={state.entry_regime_tag or 'unknown'}",
        plain_line(state.entry_reason, 120),
    )


def _trade_text(rows: Rows) -> str:
    lines = [
        f'- {span} {what} {size} {prices} {pnl} ({pct}) {minutes} {regime} "{reason}"'
        for span, what, size, prices, pnl, pct, minutes, regime, reason in rows
    ]
    return "\n".join(lines)


_Open = tuple[tuple[TradeState, int, int], ...]


def _position_look(situation: Situation) -> _Open:
    now, marks, symbol = situation.as_of, situation.marks, situation.market.symbol
    trades = sorted(situation.open_trades.values(), key=lambda trade: (trade.symbol != symbol, trade.symbol))
    return tuple([(trade, marks[trade.symbol], (now - trade.entry_tick_at) // MINUTE) for trade in trades])


def _position_rows(seen: _Open) -> Rows:
    return tuple(
        [
            (
                f"{symbol_text(trade.symbol)} {trade.side}",
                whole_usd_text(trade.entered_usd_e6),
                price_text(trade.entry_price_e8),
                price_text(mark_e8),
                signed_usd_text(trade.mfe_usd_e6, 0),
                signed_usd_text(trade.mae_usd_e6, 0),
                f"{minutes}m",
                plain_line(trade.entry_reason, 120),
            )
            for trade, mark_e8, minutes in seen
        ]
    )


def _position_text(rows: Rows) -> str:
    lines = [
        f'- {what} {size} @ {entry} mark={mark} MFE={mfe} / MAE={mae} held {held} "{reason}"'
        for what, size, entry, mark, mfe, mae, held, reason in rows
    ]
    return "\n".join(lines)


def _experience_row(learned: ExperienceRow) -> Row:
    return plain_line(learned.kind, 20), plain_line(learned.name, 60), plain_line(learned.value, 120)


def _layer_row(layer: LayerRow) -> Row:
    return (
        plain_line(layer.layer, 12),
        plain_line(layer.timeframe, 20),
        plain_line(layer.key, 60),
        plain_line(layer.value, 120),
    )


def _citation_row(citation: Citation) -> Row:
    return (
        plain_line(citation.id, 12),
        f"{plain_line(citation.path, 90)}:{citation.start_line}-{citation.end_line}",
        decimal_text(citation.score_e4, 10_000, 2),
        plain_line(citation.source, 20),
        plain_line(citation.snippet, 240),
    )


def _citation_text(rows: Rows) -> str:
    lines = [f'- [{cite}] "{place}" ({source}, {score}): "{words}"' for cite, place, score, source, words in rows]
    return "\n".join(lines)


MARKET_SECTIONS: tuple[SectionLayout[Market, Any], ...] = (
    SectionLayout(
        "bars",
        1_600,
        _bars_title,
        market_sections.BAR_COLUMNS,
        attrgetter("bars"),
        market_sections.bar_rows,
        market_sections.bar_text,
        by_item=True,
        oldest_first=True,
        bare=True,
    ),
    SectionLayout("market", 700, MARKET_TITLE, FACT_COLUMNS, lambda seen: seen, _market_rows, fact_text),
)
OWN_SECTIONS: tuple[SectionLayout[Situation, Any], ...] = (
    PORTFOLIO_SECTION,
    SectionLayout(
        name="last_decision",
        cap=100,
        title="Last decision",
        columns=FACT_COLUMNS,
        look=_last_decision_look,
        rows=_last_decision_rows,
        text=fact_text,
        memory=True,
    ),
    SectionLayout(
        name="recent_activity",
        cap=130,
        title="Recent activity (this session)",
        columns=FACT_COLUMNS,
        look=attrgetter("activity"),
        rows=_activity_rows,
        text=fact_text,
        memory=True,
        shares=True,
    ),
    SectionLayout(
        name="recent_trades",
        cap=600,
        title="Recent trades (closed)",
        columns=("span", "what", "size", "prices", "pnl", "pct", "minutes", "regime", "reason"),
        look=attrgetter("closed_trades"),
        rows=_trade_rows,
        text=_trade_text,
        memory=True,
    ),
    SectionLayout(
        name="open_positions",
        cap=200,
        title="Open positions (memory view)",
        columns=("what", "size", "entry", "mark", "mfe", "mae", "held", "reason"),
        look=_position_look,
        rows=_position_rows,
        text=_position_text,
        memory=True,
        shares=True,
    ),
    SectionLayout(
        name="experience",
        cap=250,
        title="Experience (providers, record, similar situations)",
        columns=("kind", "name", "value"),
        look=attrgetter("experience"),
        rows=lambda learned: tuple(map(_experience_row, learned)),
        text=lambda rows: "\n".join([f"- {kind} {name}: {value}" for kind, name, value in rows]),
        memory=True,
    ),
    SectionLayout(
        name="horizons",
        cap=250,
        title="Horizons",
        columns=("layer", "timeframe", "key", "value"),
        look=attrgetter("horizons"),
        rows=lambda layers: tuple(map(_layer_row, layers)),
        text=lambda rows: "\n".join([f'- {layer} {when} {key}: "{value}"' for layer, when, key, value in rows]),
        memory=True,
    ),
    RULES_SECTION,
    SectionLayout(
        name="citations",
        cap=400,
        title="Citations",
        columns=("id", "place", "score", "source", "snippet"),
        look=attrgetter("citations"),
        rows=lambda found: tuple(map(_citation_row, found)),
        text=_citation_text,
        memory=True,
    ),
)
