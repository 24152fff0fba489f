"""The keys of each layer, computed from an aggregate. Money is exact; an estimate has its n and interval beside it.

win_rate             percent of trades with a net result above zero   (n, Wilson's interval)
avg_confidence       mean confidence the entries were made with       (n, Student's interval)
sharpe_ratio         mean / deviation of daily results × √365; quiet days between the first and the last count
                     as 0                                             (n days, interval by Lo 2002)
max_drawdown         the deepest fall of the running net result within the period, in USD
recovery             the share of that fall regained by the end, at most 1
exposure             what was held on average, in USD: notional × holding time of the trades / the span in days
correlation          of the daily results of the symbols, on average, each weighted by its deviation (n days)
top_performers       symbols by net result, winners only
sector_focus         sectors by what was entered; `sectors` says which symbol is in which
best_strategy        the engine with the highest net result
worst_mistake        the trade that lost most

market_phase, volatility_regime and market_correlation are of the market itself (`markets.py`). Where its prices are
not in the layers, as in a database of layers alone, the first two come from the regime tags that trades carry from
their entry:

    tag at entry     market_phase     volatility_regime
    trend_up_*       Bull             -
    trend_down_*     Bear             -
    chop_*           Sideways         -
    *_hivol          -                high
    *_lowvol         -                low

The word of a period is that of most of its trades. A tie between phases is Sideways, one between volatilities is
high; trades without a tag do not count, and without any there is no word.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tapebook.domain.estimate import Estimate, rate_estimate, student_quantile
from tapebook.domain.units import DAY, E6, decimal_text, divide_half_even, iso_text
from tapebook.horizons.aggregate import Aggregate, Notable, Sums
from tapebook.horizons.layers import LAYER_OF, ContextLayer, Period, value_text
from tapebook.horizons.markets import (
    PriceSpan,
    correlations,
    phase_of,
    sector_of,
    volatility_of,
    word_of_most,
    yearly_volatility,
)

PHASES = {"trend_up": "Bull", "trend_down": "Bear", "chop": "Sideways"}
VOLATILITIES = {"hivol": "high", "lowvol": "low"}


class RegimeWord(msgspec.Struct, frozen=True):
    """A word and how many of `n` trades are behind it."""

    word: str
    count: int
    n: int


def market_phase(regimes: Mapping[str, int]) -> RegimeWord | None:
    """Bull, Bear or Sideways."""
    return _majority_word(regimes, PHASES, part=0, tie="Sideways")


def volatility_regime(regimes: Mapping[str, int]) -> RegimeWord | None:
    """high or low."""
    return _majority_word(regimes, VOLATILITIES, part=2, tie="high")


def _majority_word(regimes: Mapping[str, int], words: Mapping[str, str], *, part: int, tie: str) -> RegimeWord | None:
    counts = dict.fromkeys(words.values(), 0)
    for tag, count in regimes.items():
        word = words.get(tag.rpartition("_")[part])
        if word:
            counts[word] += count
    n, most = sum(counts.values()), max(counts.values())
    if not n:
        return None
    first = [word for word, count in counts.items() if count == most]
    # Decided by the table above, not by the order of a dictionary.
    word = first[0] if len(first) == 1 else tie
    return RegimeWord(word, counts[word], n)


Values = dict[str, str]
"""Values by key, each as JSON."""

_MOST_NAMED = 5
_MOST_SECTORS = 3
# These markets never close.
_DAYS_PER_YEAR = 365
# Two days always have a perfect ratio and a perfect correlation.
_FEWEST_DAYS = 3
# The normal quantile of a 95 % interval.
_Z = 1.959963984540054
_MEAN_E4 = 10_000
# Beyond it Student's quantile, which is slow to find, is the normal one within a hundredth.
_LARGE = 200


class RollupTerms(msgspec.Struct, frozen=True):
    """What a roll-up needs from outside: the sector of a symbol."""

    sector_of: Callable[[str], str] = sector_of


def values_of(period: Period, whole: Aggregate, terms: RollupTerms) -> Values:
    """Every value of a period's layer that is known."""
    layer = LAYER_OF[period.kind]
    return _VALUES_OF_LAYER[layer](whole, terms) | {"trade_count": str(whole.trades), "win_count": str(whole.wins)}


def usd_json(amount_e6: int) -> str:
    """Money as a JSON number: all of its decimals, and no idle zeros."""
    return _trim_zeros(decimal_text(amount_e6, E6, 6))


def sharpe_ratio(daily: Sums, *, days: int) -> Estimate | None:
    """The yearly Sharpe ratio of `days` daily results, of which those not summed are 0."""
    spread = days * daily.square - daily.total**2
    if days < _FEWEST_DAYS or spread <= 0:
        return None
    ratio = daily.total / days / math.sqrt(spread / (days * (days - 1)))
    # Lo (2002): the error of a Sharpe ratio of independent results.
    half = _Z * math.sqrt((1 + ratio * ratio / 2) / days)
    year = math.sqrt(_DAYS_PER_YEAR)
    return Estimate(ratio * year, (ratio - half) * year, (ratio + half) * year, days)


def correlation(whole: Aggregate) -> float | None:
    """The mean correlation of the symbols' daily results, weighted by their deviations; None when unknown."""
    # Twice the covariances are what the variance of the sum has above the sum of the variances.
    days = whole.span_days
    if days < _FEWEST_DAYS or len(whole.symbols) < 2:
        return None
    parts = [days * one.square_e12 - one.net_usd_e6**2 for one in whole.symbols.values()]
    alone = sum(parts)
    # Summed without rounding in between, so that the order of symbols does not matter.
    together = math.fsum(math.sqrt(part) for part in parts) ** 2
    room = together - alone
    # One symbol moved and the others stood still: a quotient of rounding errors.
    if room <= 1e-9 * together:
        return None
    shared = days * whole.daily.square - whole.daily.total**2 - alone
    # Rounding alone can carry it past one.
    return max(-1.0, min(1.0, shared / room))


def mean_confidence(sums: Sums) -> Estimate | None:
    """The mean of stated confidences; without a second one nothing is known of its spread."""
    if not sums.n:
        return None
    middle = sums.total / sums.n / _MEAN_E4
    # Others state confidence in percent.
    most = max(1.0, middle)
    if sums.n == 1:
        return Estimate(middle, 0.0, most, 1)
    deviation = math.sqrt((sums.n * sums.square - sums.total**2) / (sums.n * (sums.n - 1))) / _MEAN_E4
    quantile = student_quantile(0.975, sums.n - 1) if sums.n <= _LARGE else _Z
    half = quantile * deviation / math.sqrt(sums.n)
    return Estimate(middle, max(0.0, middle - half), min(most, middle + half), sums.n)


def _daily(whole: Aggregate, terms: RollupTerms) -> Values:
    known = {} if whole.ledger_usd_e6 is None else {"ledger_pnl": usd_json(whole.ledger_usd_e6)}
    costs = {"total_fees": usd_json(whole.fees_usd_e6), "total_funding": usd_json(whole.funding_usd_e6)}
    market = {"market_summary": value_text(_market_summary(whole.prices))} if whole.prices else {}
    results = {"total_pnl": usd_json(whole.net_usd_e6)} | known | costs
    return results | market | _win_values(whole) | _confidence_values(whole)


def _market_summary(prices: Mapping[str, PriceSpan]) -> dict[str, dict[str, float]]:
    found = {}
    for symbol, span in prices.items():
        spread = yearly_volatility(span)
        found[symbol] = {"return": round(span.change, 4)} | ({} if spread is None else {"volatility": round(spread, 4)})
    return found


def _weekly(whole: Aggregate, terms: RollupTerms) -> Values:
    won = [(-one.net_usd_e6, symbol) for symbol, one in whole.symbols.items() if one.net_usd_e6 > 0]
    sectors: dict[str, int] = {}
    for symbol, one in whole.symbols.items():
        sector = terms.sector_of(symbol)
        sectors[sector] = sectors.get(sector, 0) + one.entered_usd_e6
    focus = sorted(sectors, key=lambda sector: (-sectors[sector], sector))[:_MOST_SECTORS]
    named = {symbol: terms.sector_of(symbol) for symbol in {**whole.symbols, **whole.prices}}
    chosen = {
        "top_performers": value_text([symbol for _, symbol in sorted(won)[:_MOST_NAMED]]),
        "sector_focus": value_text(focus),
        # Kept with the week: a packet is told what a symbol counted as then, whatever the settings say later.
        "sectors": value_text(named),
    }
    regime = _regime_values("volatility_regime", volatility_regime(whole.regimes))
    if whole.prices:
        word = word_of_most(map(volatility_of, whole.prices.values()), tie="high")
        spreads = {symbol: yearly_volatility(span) for symbol, span in whole.prices.items()}
        known = {symbol: round(spread, 4) for symbol, spread in spreads.items() if spread is not None}
        regime = _market_values("volatility_regime", word, whole) | {"market_volatility": value_text(known)}
    return {"weekly_pnl": usd_json(whole.net_usd_e6)} | chosen | regime | _win_values(whole) | _confidence_values(whole)


def _monthly(whole: Aggregate, terms: RollupTerms) -> Values:
    values = (
        {"monthly_pnl": usd_json(whole.net_usd_e6)}
        | _drawdown_values(whole)
        | _sharpe_values(whole)
        | _win_values(whole)
    )
    if whole.span_days:
        values["exposure"] = usd_json(divide_half_even(whole.notional_ms, whole.span_days * DAY))
    together = correlation(whole)
    if together is not None:
        values |= {"correlation": _number(together), "correlation_n": str(whole.span_days)}
    if pairs := correlations(whole.prices, whole.together):
        found = {pair: round(value, 4) for pair, value in pairs.items()}
        values |= {"market_correlation": value_text(found), "market_correlation_days": str(_market_days(whole))}
    return values


def _quarterly(whole: Aggregate, terms: RollupTerms) -> Values:
    phase = _regime_values("market_phase", market_phase(whole.regimes))
    if whole.prices:
        word = word_of_most(map(phase_of, whole.prices.values()), tie="Sideways")
        changes = {symbol: round(span.change, 4) for symbol, span in whole.prices.items()}
        phase = _market_values("market_phase", word, whole) | {"market_return": value_text(changes)}
    return {"quarterly_pnl": usd_json(whole.net_usd_e6)} | phase | _win_values(whole)


def _market_values(key: str, word: str | None, whole: Aggregate) -> Values:
    return {key: value_text(word), f"{key}_days": str(_market_days(whole))} if word else {}


def _market_days(whole: Aggregate) -> int:
    return max(span.days for span in whole.prices.values())


def _annual(whole: Aggregate, terms: RollupTerms) -> Values:
    values = (
        {"annual_pnl": usd_json(whole.net_usd_e6)}
        | _sharpe_values(whole)
        | _drawdown_values(whole)
        | _win_values(whole)
    )
    if whole.strategies:
        name, best = min(whole.strategies.items(), key=lambda each: (-each[1].net_usd_e6, each[0]))
        values |= {"best_strategy": value_text(name), "best_strategy_pnl": usd_json(best.net_usd_e6)}
        values |= {"best_strategy_n": str(best.trades)}
    if whole.worst:
        values["worst_mistake"] = _encode(_trade_json(whole.worst[0]))
    return values


def _legacy(whole: Aggregate, terms: RollupTerms) -> Values:
    years = len(whole.years)
    values = {"total_pnl": usd_json(whole.net_usd_e6), "years_traded": str(years)} | _win_values(whole)
    if years:
        values["avg_annual_pnl"] = usd_json(divide_half_even(whole.net_usd_e6, years))
    return values | {"greatest_trades": _encode([_trade_json(trade) for trade in whole.best])}


_VALUES_OF_LAYER: dict[ContextLayer, Callable[[Aggregate, RollupTerms], Values]] = {
    ContextLayer.L6_DAILY: _daily,
    ContextLayer.L5_WEEKLY: _weekly,
    ContextLayer.L4_MONTHLY: _monthly,
    ContextLayer.L3_QUARTERLY: _quarterly,
    ContextLayer.L2_ANNUAL: _annual,
    ContextLayer.L1_LEGACY: _legacy,
}


def _win_values(whole: Aggregate) -> Values:
    if not whole.trades:
        return {}
    share = rate_estimate(whole.wins, whole.trades)
    # From integers: a float would show another last digit on some counts.
    percent = decimal_text(100 * whole.wins, whole.trades, 4)
    interval = f"[{_number(100 * share.low)},{_number(100 * share.high)}]"
    return {"win_rate": _trim_zeros(percent), "win_rate_n": str(whole.trades), "win_rate_interval": interval}


def _confidence_values(whole: Aggregate) -> Values:
    return _estimate_values("avg_confidence", mean_confidence(whole.confidence_e4))


def _sharpe_values(whole: Aggregate) -> Values:
    return _estimate_values("sharpe_ratio", sharpe_ratio(whole.daily, days=whole.span_days))


def _drawdown_values(whole: Aggregate) -> Values:
    path = whole.path
    values = {"max_drawdown": usd_json(path.drawdown)}
    if path.drawdown:
        values["recovery"] = _trim_zeros(decimal_text(min(path.regained, path.drawdown), path.drawdown, 4))
    return values


def _estimate_values(key: str, found: Estimate | None) -> Values:
    if found is None:
        return {}
    interval = f"[{_number(found.low)},{_number(found.high)}]"
    return {key: _number(found.value), f"{key}_n": str(found.n), f"{key}_interval": interval}


def _regime_values(key: str, found: RegimeWord | None) -> Values:
    return {key: value_text(found.word), f"{key}_n": str(found.n)} if found else {}


def _trade_json(trade: Notable) -> dict[str, Any]:
    return {
        "trade": trade.trade_id,
        "symbol": trade.symbol,
        "side": trade.side,
        "day": iso_text(trade.exited_at)[:10],
        # Raw, so that no float comes between the integer and its decimals.
        "pnl": msgspec.Raw(usd_json(trade.net_usd_e6).encode()),
        "reason": trade.reason,
    }


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _number(value: float) -> str:
    text = _trim_zeros(f"{value:.4f}")
    # Equal values have equal texts, or a roll-up would write a change that is none.
    return "0.0" if text == "-0.0" else text


def _trim_zeros(text: str) -> str:
    """Without idle zeros, but with the one that makes it a decimal."""
    short = text.rstrip("0")
    return f"{short}0" if short.endswith(".") else short
