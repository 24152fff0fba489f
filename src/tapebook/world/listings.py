"""One listed asset: its price path, bars, order book, funding and open interest, minute by minute.

`Listing.advance` walks the minute path and is all that fast-forwarding costs. `open_minute` then draws the details of
that minute from a stream of its own. What is said at the first instant of a minute is only what was known then: the
state and the heat of the minute before.

    price       the minute path first; the twelve mids of a minute hang between its ends like a bridge and draw from
                their own stream, so they can be left out
    bar         trades happen between the mids too, so the wicks reach a little beyond them; volume follows the heat
                of the market and the size of the move
    book        makers step back when the market is hot: the spread widens and the depth thins
    funding     the premium follows recent momentum and drifts back; funding follows the hour's average premium by
                Hyperliquid's formula; open interest grows while a trend runs and is cut by jumps
"""

import math
from itertools import accumulate
from random import Random

import msgspec

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Observation
from tapebook.domain.units import E8, E12, HOUR, MINUTE, SECOND
from tapebook.world.assets import Asset, quote_e8, quotes_e8, tick_bps
from tapebook.world.cadence import MINUTES_PER_DAY, REPORT_EVERY, STEPS_PER_MINUTE
from tapebook.world.drivers import Driver, DriverMove
from tapebook.world.random_streams import random_stream, stream_seed

_START_SD = 0.04

# A swing up and down takes half a day and reaches so far in log price: followed on bars of five minutes it pays.
_SWING_MINUTES, _SWING_REACH = 12 * 60, 0.08

_STEPS_PER_DAY = MINUTES_PER_DAY * STEPS_PER_MINUTE


class PriceMinute(msgspec.Struct, frozen=True):
    """Where the log price stands before and after one minute, and how it got there.

    `heat` is the volatility as a multiple of what is typical of the asset; `jumps` are (step, size).
    """

    opened: float
    closed: float
    heat: float
    jumps: tuple[tuple[int, float], ...]
    quiet: bool

    @property
    def change(self) -> float:
        """The log return of the minute."""
        return self.closed - self.opened


class AssetPricePath:
    """One asset's price, minute after minute: its share of the common move and its own."""

    def __init__(self, asset: Asset, seed: int) -> None:
        self._asset = asset
        self._common_vol, self._own_vol = asset.common_vol, asset.own_vol
        self._own = Driver(random_stream(seed, "own", asset.symbol))
        self._chance = random_stream(seed, "path", asset.symbol)
        self._home = math.log(asset.start_price_usd)
        self._home_pull = math.log(2) / (asset.home_days * MINUTES_PER_DAY)
        self._swings_from = asset.swings_after_days * MINUTES_PER_DAY
        self._minute = 0
        self._value = self._home + self._chance.gauss(0.0, _START_SD)
        self._quoted = self._value

    def next_minute(self, market: DriverMove, pace: float) -> PriceMinute:
        """The next minute. In a quiet one the quote stands still, and catches up when trading resumes."""
        own = self._own.next_minute(pace)
        common_vol, own_vol = self._common_vol, self._own_vol
        jumps = self._jumps(market, own) if market.jump or own.jump else ()
        self._value += (market.calm + market.jump) * common_vol + (own.calm + own.jump) * own_vol
        self._value -= (self._value - self._usual_value()) * self._home_pull
        heat = math.hypot(market.vol * common_vol, own.vol * own_vol) / self._asset.daily_vol
        quiet = self._is_quiet(heat) and not jumps
        opened = self._quoted
        self._quoted = opened if quiet else self._value
        return PriceMinute(opened, self._quoted, heat, jumps, quiet)

    def _usual_value(self) -> float:
        """The log price it comes back to: where it began, and once a range has ended a wave around that."""
        if not self._swings_from:
            return self._home
        self._minute += 1
        since = max(0, self._minute - self._swings_from)
        return self._home + _SWING_REACH * math.sin(2 * math.pi * since / _SWING_MINUTES)

    def _jumps(self, market: DriverMove, own: DriverMove) -> tuple[tuple[int, float], ...]:
        sizes = ((market.jump_step, market.jump * self._common_vol), (own.jump_step, own.jump * self._own_vol))
        return tuple((step, size) for step, size in sizes if size)

    def _is_quiet(self, heat: float) -> bool:
        share = self._asset.quiet_share
        return share > 0 and self._chance.random() * heat < share


def step_sd(asset: Asset, minute: PriceMinute) -> float:
    """How far the log price strays in one step of this minute."""
    return minute.heat * asset.daily_vol / math.sqrt(_STEPS_PER_DAY)


def minute_mids_e8(asset: Asset, minute: PriceMinute, chance: Random) -> list[int]:
    """The quoted mids of a minute, one per step; the last one is where the minute closes."""
    if minute.quiet:
        return [quote_e8(math.exp(minute.opened), asset.price_decimals)] * STEPS_PER_MINUTE
    return quotes_e8([math.exp(value) for value in _bridge_prices(asset, minute, chance)], asset.price_decimals)


def _bridge_prices(asset: Asset, minute: PriceMinute, chance: Random) -> list[float]:
    """Twelve log prices that wander like the minute's volatility and end exactly where it closes."""
    noise, gauss = step_sd(asset, minute), chance.gauss
    walk = list(accumulate([gauss(0.0, noise) for _ in range(STEPS_PER_MINUTE)]))
    jumped = sum(size for _, size in minute.jumps)
    slope = (minute.change - jumped - walk[-1]) / STEPS_PER_MINUTE
    opened = minute.opened
    path = [opened + strayed + slope * step for step, strayed in enumerate(walk, start=1)]
    for jump_step, size in minute.jumps:
        path[jump_step:] = [value + size for value in path[jump_step:]]
    return path


# Set so that a day's bars add up to about the asset's daily volume (measured).
_VOLUME_SCALE = 0.94
_VOLUME_SD = 0.7


def candle_of(asset: Asset, minute: PriceMinute, chance: Random, *, at: int, mids_e8: list[int]) -> Candle:
    """The final bar of the minute that began at `at`; flat, empty and without trades when it was quiet."""
    low = high = mids_e8[0]
    base, quote, trades = 0.0, 0.0, 0
    if not minute.quiet:
        low, high = _wicks(asset, minute, chance, mids_e8=mids_e8)
        base, quote, trades = _trading(asset, minute, chance, price=(low + high) / 2 / E8)
    return Candle(
        symbol=asset.symbol,
        granularity_sec=MINUTE // SECOND,
        bucket_ts=at,
        open_e8=mids_e8[0],
        high_e8=high,
        low_e8=low,
        close_e8=mids_e8[-1],
        volume_base=base,
        volume_quote_usd=quote,
        sample_count=trades,
    )


def _wicks(asset: Asset, minute: PriceMinute, chance: Random, *, mids_e8: list[int]) -> tuple[int, int]:
    """Low and high, each about half a step's move beyond the outermost mid."""
    reach = 0.5 * step_sd(asset, minute)
    below, above = abs(chance.gauss(0.0, reach)), abs(chance.gauss(0.0, reach))
    low = quote_e8(min(mids_e8) / E8 * (1 - below), asset.price_decimals)
    high = quote_e8(max(mids_e8) / E8 * (1 + above), asset.price_decimals)
    return low, high


def _trading(asset: Asset, minute: PriceMinute, chance: Random, *, price: float) -> tuple[float, float, int]:
    """Base volume in whole lots, its value at about the middle of the bar, and the number of trades."""
    typical = asset.daily_volume_usd / MINUTES_PER_DAY * _VOLUME_SCALE
    surprise = abs(minute.change) / (minute.heat * asset.daily_vol) * math.sqrt(MINUTES_PER_DAY)
    wanted = typical * minute.heat * (0.6 + 0.5 * surprise) * math.exp(chance.gauss(0.0, _VOLUME_SD))
    base = max(round(wanted / price, asset.size_decimals), 10.0**-asset.size_decimals)
    quote = base * price
    trades = max(1, round(quote / asset.trade_usd * math.exp(chance.gauss(0.0, 0.2))))
    return base, round(quote, 2), trades


_SPREAD_BY_HEAT = 0.7
_DEPTH_BY_HEAT = -0.8

# How much more lies within 0.5 % than within 0.1 %, and within 1 % than within 0.5 %.
_DEEPER_50BPS, _DEEPER_100BPS = 3.2, 1.6

_LEAN_BY_MOMENTUM, _LEAN_SD = 0.15, 0.3


def liquidity_of(asset: Asset, chance: Random, *, at: int, mid_e8: int, heat: float, momentum: float) -> Liquidity:
    """The book at an instant, given how hot the market is and where it has been going."""
    gauss = chance.gauss
    spread = asset.spread_bps * heat**_SPREAD_BY_HEAT * math.exp(gauss(0.0, 0.25))
    near = asset.depth_usd_10bps * heat**_DEPTH_BY_HEAT * math.exp(gauss(0.0, 0.25))
    middle = near * (1 + (_DEEPER_50BPS - 1) * math.exp(gauss(0.0, 0.15)))
    far = middle * (1 + (_DEEPER_100BPS - 1) * math.exp(gauss(0.0, 0.15)))
    lean = math.tanh(_LEAN_BY_MOMENTUM * momentum + gauss(0.0, _LEAN_SD))
    return Liquidity(
        symbol=asset.symbol,
        bucket_ts=at,
        mid_e8=mid_e8,
        spread_bps=round(max(spread, tick_bps(mid_e8 / E8, asset.price_decimals)), 4),
        depth_usd_10bps=round(near, 2),
        depth_usd_50bps=round(middle, 2),
        depth_usd_100bps=round(far, 2),
        imbalance=round(lean, 4),
    )


# Hyperliquid's numbers: interest of 0.01 % per 8 hours, clamp of 0.05 %, paid hourly as an eighth, 4 % an hour at most.
INTEREST = 0.0001
CLAMP = 0.0005
HOURLY_CAP = 0.04
_SAMPLES_PER_HOUR = 60

# Momentum with a half-life of two hours, in typical moves of that span (so mostly between -2 and 2).
_MOMENTUM_KEEP = 0.5 ** (1 / 120)
_MOMENTUM_SCALE = math.sqrt((1 - _MOMENTUM_KEEP**2) * MINUTES_PER_DAY)

# A premium forgets half of itself in forty minutes; what trends is bought above its index.
_PREMIUM_KEEP = 0.5 ** (1 / 40)
_PREMIUM_SHOCK = math.sqrt(1 - _PREMIUM_KEEP**2)
_PREMIUM_FROM_MOMENTUM = 0.75
_PREMIUM_BIAS = 0.00005

# Open interest returns to its usual size within a week; it grows with trends and falls with jumps.
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


class PerpState(msgspec.Struct, frozen=True):
    """What is known of the perp at the end of a minute; `average_premium` is of the hour so far."""

    premium: float
    average_premium: float
    momentum: float
    open_interest_base: float


class Carry:
    """The state behind the standings of one asset."""

    def __init__(self, asset: Asset, seed: int) -> None:
        self._asset = asset
        self._chance = random_stream(seed, "carry", asset.symbol)
        self._premium_sd = asset.premium_vol_bps / 10_000
        self._momentum = 0.0
        self._premium = self._chance.gauss(_PREMIUM_BIAS, self._premium_sd / 2)
        self._log_interest = self._chance.gauss(0.0, 0.05)
        self._hour_sum, self._hour_samples = 0.0, 0
        self.standing = self._perp_state(self._premium)

    def add_minute(self, change: float, jumped: float) -> None:
        """One minute on, in which the price moved by `change`, `jumped` of it at once."""
        gauss, daily_vol = self._chance.gauss, self._asset.daily_vol
        self._momentum = self._momentum * _MOMENTUM_KEEP + change / daily_vol
        lean = self._momentum * _MOMENTUM_SCALE
        target = _PREMIUM_BIAS + _PREMIUM_FROM_MOMENTUM * self._premium_sd * lean
        shock = self._premium_sd * _PREMIUM_SHOCK * gauss(0.0, 0.8)
        self._premium = target + (self._premium - target) * _PREMIUM_KEEP + shock
        growth = _INTEREST_PER_MOMENTUM * (abs(lean) - _CALM_MOMENTUM) - _INTEREST_PER_JUMP * abs(jumped) / daily_vol
        self._log_interest = self._log_interest * _INTEREST_KEEP + growth + gauss(0.0, _INTEREST_SHOCK)
        self.standing = self._perp_state(self._average_premium())

    def _average_premium(self) -> float:
        """The hour's average with this minute in it; a full hour is kept until the next minute starts a new one."""
        if self._hour_samples == _SAMPLES_PER_HOUR:
            self._hour_sum, self._hour_samples = 0.0, 0
        self._hour_sum += self._premium
        self._hour_samples += 1
        return self._hour_sum / self._hour_samples

    def _perp_state(self, average: float) -> PerpState:
        base = self._asset.open_interest_base * math.exp(self._log_interest)
        return PerpState(self._premium, average, self._momentum * _MOMENTUM_SCALE, base)


def context_of(asset: Asset, perp: PerpState, *, at: int, mid_e8: int) -> AssetContext:
    """The exchange's view at an instant. The mark is the mid, so the premium is all that parts it from the oracle."""
    return AssetContext(
        symbol=asset.symbol,
        bucket_ts=at,
        funding_e12=round(hourly_rate(perp.average_premium) * E12),
        premium_e12=round(perp.premium * E12),
        open_interest_base=round(perp.open_interest_base, asset.size_decimals),
        mark_e8=mid_e8,
        oracle_e8=quote_e8(mid_e8 / E8 / (1 + perp.premium), asset.price_decimals),
    )


def funding_of(asset: Asset, perp: PerpState, *, at: int) -> FundingRate:
    """The rate settled at a full hour, given the standing at the end of the hour."""
    return FundingRate(
        symbol=asset.symbol,
        bucket_ts=at,
        rate_e12=round(hourly_rate(perp.average_premium) * E12),
        premium_e12=round(perp.average_premium * E12),
    )


class ListingMinute(msgspec.Struct, frozen=True):
    """A minute of one asset, and what was known of the asset when it began."""

    minute: PriceMinute
    known: PerpState
    known_heat: float


class MinuteOpening(msgspec.Struct, frozen=True):
    """A minute as it opens: its mids, and the reports due at its first instant.

    Reports are in a fixed order of kinds (candle, liquidity, context, funding), None where none is due.
    """

    mids_e8: list[int]
    reports: tuple[Observation | None, ...]


class MinuteDetails(msgspec.Struct, frozen=True):
    """A minute with all its details, told before it is over: `candle` is its final bar, the rest is of its start."""

    mids_e8: list[int]
    candle: Candle
    book: Liquidity
    context: AssetContext


class Listing:
    """The running state of one asset."""

    def __init__(self, asset: Asset, seed: int) -> None:
        self.asset = asset
        self._seed = seed
        self._path = AssetPricePath(asset, seed)
        self._carry = Carry(asset, seed)
        self._chance = Random(0)
        self._heat = 1.0
        self._last_candle: Candle | None = None

    def advance(self, market: DriverMove, pace: float) -> ListingMinute:
        """One minute on, without its details."""
        known, known_heat = self._carry.standing, self._heat
        minute = self._path.next_minute(market, pace)
        self._heat = minute.heat
        self._carry.add_minute(minute.change, sum(size for _, size in minute.jumps))
        return ListingMinute(minute, known, known_heat)

    def open_minute(self, turn: ListingMinute, *, number: int, at: int) -> MinuteOpening:
        """The details of the minute just advanced to, which has this number and begins at `at`."""
        ended = self._last_candle
        mids, self._last_candle = self.minute_bar(turn, number=number, at=at)
        reports = self._reports(turn, at=at, mid_e8=mids[0]) if at % REPORT_EVERY == 0 else (None, None)
        settled = self.settled_funding(turn, at=at) if number and at % HOUR == 0 else None
        return MinuteOpening(mids, (ended, *reports, settled))

    def minute_details(self, turn: ListingMinute, *, number: int, at: int) -> MinuteDetails:
        """The minute just advanced to as whoever plays it out needs it; its book and context are of every minute."""
        mids, candle = self.minute_bar(turn, number=number, at=at)
        return MinuteDetails(mids, candle, *self._reports(turn, at=at, mid_e8=mids[0]))

    def minute_bar(self, turn: ListingMinute, *, number: int, at: int) -> tuple[list[int], Candle]:
        """The mids of the minute just advanced to, and its final bar."""
        # A fresh stream per minute: details that fast-forward leaves out cannot shift those that follow.
        self._chance.seed(stream_seed(self._seed, "detail", self.asset.symbol, minute=number))
        mids = minute_mids_e8(self.asset, turn.minute, self._chance)
        return mids, candle_of(self.asset, turn.minute, self._chance, at=at, mids_e8=mids)

    def settled_funding(self, turn: ListingMinute, *, at: int) -> FundingRate:
        """The rate settled at the full hour at which the minute begins."""
        return funding_of(self.asset, turn.known, at=at)

    def _reports(self, turn: ListingMinute, *, at: int, mid_e8: int) -> tuple[Liquidity, AssetContext]:
        heat, momentum = turn.known_heat, turn.known.momentum
        book = liquidity_of(self.asset, self._chance, at=at, mid_e8=mid_e8, heat=heat, momentum=momentum)
        return book, context_of(self.asset, turn.known, at=at, mid_e8=mid_e8)
