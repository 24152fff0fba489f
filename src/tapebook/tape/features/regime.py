"""The regime tag of a window of closes: trend and volatility, six buckets and `unknown`.

    trend_up / trend_down   last / first − 1 beyond ±0.5 %
    chop                    otherwise
    hivol / lowvol          standard deviation of log returns at or above / below 0.4 %

Fewer than 12 closes, or a price that is not positive and finite, give `unknown`: `classify_regime`,
the function of seed 002, whose defaults suit 100 five-minute bars and nothing else.

For bars of any size (`regime_of`, `Regimes`) these defaults scale with the square root of time, as the
moves of a price without drift do:

    volatility   0.4 % × sqrt(a bar's minutes / 5)
    trend        0.5 % × sqrt(minutes from the start of the first bar to the end of the last / 500)

There a window that has fewer than 12 bars is `unknown`, and one with a price that is not positive could
not be classified: it is None, the null of a trade's tag.
"""

import math
from collections.abc import Sequence
from operator import truediv

from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Candle

MIN_BARS = 12
_TREND, _VOLATILE = 0.005, 0.004
# What these thresholds belong to: a hundred bars of five minutes.
_BAR_SEC, _WINDOW_MS = 300, 500 * MINUTE


def classify_regime(
    closes: Sequence[float], *, trend_threshold: float = _TREND, vol_threshold: float = _VOLATILE
) -> str:
    """One of trend_up_lowvol, trend_up_hivol, trend_down_lowvol, trend_down_hivol, chop_lowvol, chop_hivol, unknown."""
    if len(closes) < MIN_BARS or not all(map(math.isfinite, closes)) or min(closes) <= 0:
        return "unknown"
    return _tag(closes, _log_returns(closes), trend=trend_threshold, volatile=vol_threshold)


def regime_of(bars: Sequence[Candle]) -> str | None:
    """The tag of a window of bars of one size, by thresholds of that size; None when it cannot be classified."""
    return Regimes()(tuple(bars))


class Regimes:
    """The tags of windows of bars that move on: the returns of all but the newest bar are known from before.

    A cache of the last window: another one is compared with it bar by bar. `scaled` is False for packets of
    renderer 2, whose thresholds are those of five minutes whatever the bars are, and to whom a bad price is unknown.
    """

    def __init__(self, *, scaled: bool = True) -> None:
        self._scaled = scaled
        self._kept: tuple[tuple[Candle, ...], tuple[float, ...], tuple[float, ...]] = ((), (), ())

    def __call__(self, bars: tuple[Candle, ...]) -> str | None:
        """The tag of a window."""
        before, closes, returns = self._kept
        if returns and bars and bars[-1].close_e8 > 0 and before[1:] == bars[:-1]:
            close = bars[-1].close_e8 / 1e8
            returns = (*returns[1:], math.log(close / closes[-1]))
            closes = (*closes[1:], close)
        else:
            closes = tuple([bar.close_e8 / 1e8 for bar in bars])
            returns = tuple(_log_returns(closes)) if min(closes, default=0) > 0 else ()
        self._kept = bars, closes, returns
        if len(closes) < MIN_BARS:
            return "unknown"
        if not returns:
            return None if self._scaled else "unknown"
        if not self._scaled:
            return _tag(closes, returns, trend=_TREND, volatile=_VOLATILE)
        trend = _TREND * math.sqrt((bars[-1].end - bars[0].bucket_ts) / _WINDOW_MS)
        volatile = _VOLATILE * math.sqrt(bars[-1].granularity_sec / _BAR_SEC)
        return _tag(closes, returns, trend=trend, volatile=volatile)


def _tag(closes: Sequence[float], returns: Sequence[float], *, trend: float, volatile: float) -> str:
    # Not last / first - 1: there 199 / 200 rounds to just beyond -0.5 %, and a half percent down would be a trend.
    change = (closes[-1] - closes[0]) / closes[0]
    way = "trend_up" if change > trend else "trend_down" if change < -trend else "chop"
    return f"{way}_{'hivol' if _deviation(returns) >= volatile else 'lowvol'}"


def _log_returns(closes: Sequence[float]) -> list[float]:
    return list(map(math.log, map(truediv, closes[1:], closes)))


def _deviation(returns: Sequence[float]) -> float:
    """Sample standard deviation (n − 1)."""
    mean = math.fsum(returns) / len(returns)
    return math.sqrt(math.fsum([(each - mean) ** 2 for each in returns]) / (len(returns) - 1))
