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

MIN_BARS = 12


def classify_regime(closes: Sequence[float], *, trend_threshold: float = 0.005, vol_threshold: float = 0.004) -> str:
    """One of trend_up_lowvol, trend_up_hivol, trend_down_lowvol, trend_down_hivol, chop_lowvol, chop_hivol, unknown."""
    if len(closes) < MIN_BARS or not all(map(math.isfinite, closes)) or min(closes) <= 0:
        return "unknown"
    # Not last / first - 1: there 199 / 200 rounds to just beyond -0.5 %, and a half percent down would be a trend.
    change = (closes[-1] - closes[0]) / closes[0]
    trend = "trend_up" if change > trend_threshold else "trend_down" if change < -trend_threshold else "chop"
    return f"{trend}_{'hivol' if _log_return_deviation(closes) >= vol_threshold else 'lowvol'}"


def _log_return_deviation(closes: Sequence[float]) -> float:
    """Sample standard deviation (n − 1) of the log returns."""
    returns = list(map(math.log, map(truediv, closes[1:], closes)))
    mean = math.fsum(returns) / len(returns)
    return math.sqrt(math.fsum([(each - mean) ** 2 for each in returns]) / (len(returns) - 1))
