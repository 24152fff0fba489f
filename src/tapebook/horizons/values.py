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
sector_focus         sectors by what was entered
volatility_regime, market_phase   see `regimes`
best_strategy        the engine with the highest net result
worst_mistake        the trade that lost most
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from tapebook.domain.estimate import Estimate, rate, student_quantile
from tapebook.domain.instants import DAY, iso
from tapebook.domain.money import E6, decimal_text, divide
from tapebook.horizons.aggregate import Aggregate, Notable, Sums
from tapebook.horizons.layers import LAYER_OF, ContextLayer, value_text
from tapebook.horizons.period import Period
from tapebook.horizons.regimes import Word, market_phase, volatility_regime

Values = dict[str, str]
"""Values by key, each as JSON."""

_MOST_NAMED = 5
_MOST_SECTORS = 3
_DAYS_PER_YEAR = 365
_FEWEST_DAYS = 3
_Z = 1.959963984540054
_MEAN_E4 = 10_000
# Beyond it Student's quantile, which is slow to find, is the normal one within a hundredth.
_LARGE = 200


class Terms(msgspec.Struct, frozen=True):
    """What a roll-up is told from outside: the sector of a symbol."""

    sector_of: Callable[[str], str] = str


def values_of(period: Period, whole: Aggregate, terms: Terms) -> Values:
    """Every value of a period's layer that is known."""
    layer = LAYER_OF[period.kind]
    return _KEYS[layer](whole, terms) | {"trade_count": str(whole.trades), "win_count": str(whole.wins)}


def usd(amount_e6: int) -> str:
    """Money as a JSON number: all of its decimals, and no idle zeros."""
    return _trimmed(decimal_text(amount_e6, E6, 6))


def sharpe(daily: Sums, *, days: int) -> Estimate | None:
    """The yearly Sharpe ratio of `days` daily results, of which those not summed are 0."""
    spread = days * daily.square - daily.total**2
    if days < _FEWEST_DAYS or spread <= 0:
        return None
    ratio = daily.total / days / math.sqrt(spread / (days * (days - 1)))
    half = _Z * math.sqrt((1 + ratio * ratio / 2) / days)
    year = math.sqrt(_DAYS_PER_YEAR)
    return Estimate(ratio * year, (ratio - half) * year, (ratio + half) * year, days)


def correlation(whole: Aggregate) -> float | None:
    """Twice the covariances are what the variance of the sum has above the sum of the variances."""
    days = whole.span_days
    if days < _FEWEST_DAYS or len(whole.symbols) < 2:
        return None
    parts = [days * one.square_e12 - one.net_usd_e6**2 for one in whole.symbols.values()]
    alone = sum(parts)
    # Summed without rounding in between, so that the order of symbols does not matter.
    together = math.fsum(math.sqrt(part) for part in parts) ** 2
    room = together - alone
    if room <= 1e-9 * together:
        return None
    shared = days * whole.daily.square - whole.daily.total**2 - alone
    return max(-1.0, min(1.0, shared / room))


def mean_confidence(said: Sums) -> Estimate | None:
    """The mean of stated confidences; without a second one nothing is known of its spread."""
    if not said.n:
        return None
    middle = said.total / said.n / _MEAN_E4
    # Others state confidence in percent.
    most = max(1.0, middle)
    if said.n == 1:
        return Estimate(middle, 0.0, most, 1)
    deviation = math.sqrt((said.n * said.square - said.total**2) / (said.n * (said.n - 1))) / _MEAN_E4
    quantile = student_quantile(0.975, said.n - 1) if said.n <= _LARGE else _Z
    half = quantile * deviation / math.sqrt(said.n)
    return Estimate(middle, max(0.0, middle - half), min(most, middle + half), said.n)


def _daily(whole: Aggregate, terms: Terms) -> Values:
    known = {} if whole.ledger_usd_e6 is None else {"ledger_pnl": usd(whole.ledger_usd_e6)}
    costs = {"total_fees": usd(whole.fees_usd_e6), "total_funding": usd(whole.funding_usd_e6)}
    return {"total_pnl": usd(whole.net_usd_e6)} | known | costs | _wins(whole) | _confidence(whole)


def _weekly(whole: Aggregate, terms: Terms) -> Values:
    won = [(-one.net_usd_e6, symbol) for symbol, one in whole.symbols.items() if one.net_usd_e6 > 0]
    sectors: dict[str, int] = {}
    for symbol, one in whole.symbols.items():
        sector = terms.sector_of(symbol)
        sectors[sector] = sectors.get(sector, 0) + one.entered_usd_e6
    focus = sorted(sectors, key=lambda sector: (-sectors[sector], sector))[:_MOST_SECTORS]
    chosen = {
        "top_performers": value_text([symbol for _, symbol in sorted(won)[:_MOST_NAMED]]),
        "sector_focus": value_text(focus),
    }
    regime = _word("volatility_regime", volatility_regime(whole.regimes))
    return {"weekly_pnl": usd(whole.net_usd_e6)} | chosen | regime | _wins(whole) | _confidence(whole)


def _monthly(whole: Aggregate, terms: Terms) -> Values:
    values = {"monthly_pnl": usd(whole.net_usd_e6)} | _drawdown(whole) | _sharpe(whole) | _wins(whole)
    if whole.span_days:
        values["exposure"] = usd(divide(whole.notional_ms, whole.span_days * DAY))
    together = correlation(whole)
    if together is not None:
        values |= {"correlation": _number(together), "correlation_n": str(whole.span_days)}
    return values


def _quarterly(whole: Aggregate, terms: Terms) -> Values:
    return {"quarterly_pnl": usd(whole.net_usd_e6)} | _word("market_phase", market_phase(whole.regimes)) | _wins(whole)


def _annual(whole: Aggregate, terms: Terms) -> Values:
    values = {"annual_pnl": usd(whole.net_usd_e6)} | _sharpe(whole) | _drawdown(whole) | _wins(whole)
    if whole.strategies:
        name, best = min(whole.strategies.items(), key=lambda each: (-each[1].net_usd_e6, each[0]))
        values |= {"best_strategy": value_text(name), "best_strategy_pnl": usd(best.net_usd_e6)}
        values |= {"best_strategy_n": str(best.trades)}
    if whole.worst:
        values["worst_mistake"] = _encoded(_told(whole.worst[0]))
    return values


def _legacy(whole: Aggregate, terms: Terms) -> Values:
    years = len(whole.years)
    values = {"total_pnl": usd(whole.net_usd_e6), "years_traded": str(years)} | _wins(whole)
    if years:
        values["avg_annual_pnl"] = usd(divide(whole.net_usd_e6, years))
    return values | {"greatest_trades": _encoded([_told(trade) for trade in whole.best])}


_KEYS: dict[ContextLayer, Callable[[Aggregate, Terms], Values]] = {
    ContextLayer.L6_DAILY: _daily,
    ContextLayer.L5_WEEKLY: _weekly,
    ContextLayer.L4_MONTHLY: _monthly,
    ContextLayer.L3_QUARTERLY: _quarterly,
    ContextLayer.L2_ANNUAL: _annual,
    ContextLayer.L1_LEGACY: _legacy,
}


def _wins(whole: Aggregate) -> Values:
    if not whole.trades:
        return {}
    share = rate(whole.wins, whole.trades)
    percent = decimal_text(100 * whole.wins, whole.trades, 4)
    interval = f"[{_number(100 * share.low)},{_number(100 * share.high)}]"
    return {"win_rate": _trimmed(percent), "win_rate_n": str(whole.trades), "win_rate_interval": interval}


def _confidence(whole: Aggregate) -> Values:
    return _estimate("avg_confidence", mean_confidence(whole.confidence_e4))


def _sharpe(whole: Aggregate) -> Values:
    return _estimate("sharpe_ratio", sharpe(whole.daily, days=whole.span_days))


def _drawdown(whole: Aggregate) -> Values:
    path = whole.path
    values = {"max_drawdown": usd(path.drawdown)}
    if path.drawdown:
        values["recovery"] = _trimmed(decimal_text(min(path.regained, path.drawdown), path.drawdown, 4))
    return values


def _estimate(key: str, found: Estimate | None) -> Values:
    if found is None:
        return {}
    interval = f"[{_number(found.low)},{_number(found.high)}]"
    return {key: _number(found.value), f"{key}_n": str(found.n), f"{key}_interval": interval}


def _word(key: str, found: Word | None) -> Values:
    return {key: value_text(found.word), f"{key}_n": str(found.n)} if found else {}


def _told(trade: Notable) -> dict[str, Any]:
    return {
        "trade": trade.trade_id,
        "symbol": trade.symbol,
        "side": trade.side,
        "day": iso(trade.exited_at)[:10],
        # Raw, so that no float comes between the integer and its decimals.
        "pnl": msgspec.Raw(usd(trade.net_usd_e6).encode()),
        "reason": trade.reason,
    }


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _number(value: float) -> str:
    text = _trimmed(f"{value:.4f}")
    return "0.0" if text == "-0.0" else text


def _trimmed(text: str) -> str:
    """Without idle zeros, but with the one that makes it a decimal."""
    short = text.rstrip("0")
    return f"{short}0" if short.endswith(".") else short
