"""The regime tag of a window of closes: trend and volatility, six buckets and `unknown`.

    trend_up / trend_down   last / first − 1 beyond ±0.5 %
    chop                    otherwise
    hivol / lowvol          standard deviation of log returns at or above / below 0.4 %

Fewer than 12 closes, or a price that is not positive and finite, give `unknown`. The defaults
suit 100 five-minute bars.
"""

import math
from collections.abc import Sequence
from operator import truediv

from tapebook.domain.market import Candle

MIN_BARS = 12
_TREND, _VOLATILE = 0.005, 0.004


def classify_regime(
    closes: Sequence[float], *, trend_threshold: float = _TREND, vol_threshold: float = _VOLATILE
) -> str:
    """One of trend_up_lowvol, trend_up_hivol, trend_down_lowvol, trend_down_hivol, chop_lowvol, chop_hivol, unknown."""
    if len(closes) < MIN_BARS or not all(map(math.isfinite, closes)) or min(closes) <= 0:
        return "unknown"
    return _tag(closes, _log_returns(closes), trend=trend_threshold, volatile=vol_threshold)


class Regimes:
    """The same of windows of bars that move on: the returns of all but the newest bar are known from before."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Candle, ...], tuple[float, ...], tuple[float, ...]] = ((), (), ())

    def __call__(self, bars: tuple[Candle, ...]) -> str:
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
        return _tag(closes, returns) if returns and len(closes) >= MIN_BARS else "unknown"


def _tag(
    closes: Sequence[float], returns: Sequence[float], *, trend: float = _TREND, volatile: float = _VOLATILE
) -> str:
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
