"""The perp's standing beside its oracle: premium, hourly funding, open interest.

The premium follows recent momentum and always drifts back; funding follows the hour's average
premium by Hyperliquid's formula; open interest grows while a trend runs and is cut by jumps.
"""

import math

import msgspec

from tapebook.domain.market import AssetContext, FundingRate
from tapebook.domain.money import E8, E12
from tapebook.world.assets import Asset
from tapebook.world.cadence import MINUTES_PER_DAY
from tapebook.world.quotes import quote_e8
from tapebook.world.streams import stream

# Hyperliquid's numbers: interest of 0.01 % per 8 hours, clamp of 0.05 %, paid hourly as an eighth, 4 % an hour at most.
INTEREST = 0.0001
CLAMP = 0.0005
HOURLY_CAP = 0.04
_SAMPLES_PER_HOUR = 60

# Momentum with a half-life of two hours, in typical moves of that span (so mostly between -2 and 2).
_MOMENTUM_KEEP = 0.5 ** (1 / 120)
_MOMENTUM_SCALE = math.sqrt((1 - _MOMENTUM_KEEP**2) * MINUTES_PER_DAY)

_PREMIUM_KEEP = 0.5 ** (1 / 40)
_PREMIUM_SHOCK = math.sqrt(1 - _PREMIUM_KEEP**2)
_PREMIUM_FROM_MOMENTUM = 0.75
_PREMIUM_BIAS = 0.00005

_INTEREST_KEEP = 1 - 1 / (7 * MINUTES_PER_DAY)
_INTEREST_SHOCK = 0.03 / math.sqrt(MINUTES_PER_DAY)
_INTEREST_PER_MOMENTUM = 0.00002
_CALM_MOMENTUM = 0.5
_INTEREST_PER_JUMP = 0.03


def hourly_rate(average_premium: float) -> float:
    """What longs pay shorts for one hour, as a fraction of their notional."""
    towards_interest = max(-CLAMP, min(CLAMP, INTEREST - average_premium))
    rate = (average_premium + towards_interest) / 8
    return max(-HOURLY_CAP, min(HOURLY_CAP, rate))


class Standing(msgspec.Struct, frozen=True):
    """What is known of the perp at the end of a minute; `average_premium` is of the hour so far."""

    premium: float
    average_premium: float
    momentum: float
    open_interest_base: float


class Carry:
    """The state behind the standings of one asset."""

    def __init__(self, asset: Asset, seed: int) -> None:
        self._asset = asset
        self._chance = stream(seed, "carry", asset.symbol)
        self._premium_sd = asset.premium_vol_bps / 10_000
        self._momentum = 0.0
        self._premium = self._chance.gauss(_PREMIUM_BIAS, self._premium_sd / 2)
        self._log_interest = self._chance.gauss(0.0, 0.05)
        self._hour_sum, self._hour_samples = 0.0, 0
        self.standing = self._stand(self._premium)

    def minute(self, change: float, jumped: float) -> None:
        """One minute on, in which the price moved by `change`, `jumped` of it at once."""
        gauss, daily_vol = self._chance.gauss, self._asset.daily_vol
        self._momentum = self._momentum * _MOMENTUM_KEEP + change / daily_vol
        lean = self._momentum * _MOMENTUM_SCALE
        target = _PREMIUM_BIAS + _PREMIUM_FROM_MOMENTUM * self._premium_sd * lean
        shock = self._premium_sd * _PREMIUM_SHOCK * gauss(0.0, 0.8)
        self._premium = target + (self._premium - target) * _PREMIUM_KEEP + shock
        growth = _INTEREST_PER_MOMENTUM * (abs(lean) - _CALM_MOMENTUM) - _INTEREST_PER_JUMP * abs(jumped) / daily_vol
        self._log_interest = self._log_interest * _INTEREST_KEEP + growth + gauss(0.0, _INTEREST_SHOCK)
        self.standing = self._stand(self._sample())

    def _sample(self) -> float:
        """The hour's average with this minute in it; a full hour is kept until the next minute starts a new one."""
        if self._hour_samples == _SAMPLES_PER_HOUR:
            self._hour_sum, self._hour_samples = 0.0, 0
        self._hour_sum += self._premium
        self._hour_samples += 1
        return self._hour_sum / self._hour_samples

    def _stand(self, average: float) -> Standing:
        base = self._asset.open_interest_base * math.exp(self._log_interest)
        return Standing(self._premium, average, self._momentum * _MOMENTUM_SCALE, base)


def context_of(asset: Asset, standing: Standing, *, at: int, mid_e8: int) -> AssetContext:
    """The exchange's view at an instant. The mark is the mid, so the premium is all that parts it from the oracle."""
    return AssetContext(
        symbol=asset.symbol,
        bucket_ts=at,
        funding_e12=round(hourly_rate(standing.average_premium) * E12),
        premium_e12=round(standing.premium * E12),
        open_interest_base=round(standing.open_interest_base, asset.size_decimals),
        mark_e8=mid_e8,
        oracle_e8=quote_e8(mid_e8 / E8 / (1 + standing.premium), asset.price_decimals),
    )


def funding_of(asset: Asset, standing: Standing, *, at: int) -> FundingRate:
    """The rate settled at a full hour, given the standing at the end of the hour."""
    return FundingRate(
        symbol=asset.symbol,
        bucket_ts=at,
        rate_e12=round(hourly_rate(standing.average_premium) * E12),
        premium_e12=round(standing.average_premium * E12),
    )
