"""Which observed prices are believed: an impossible price, or a jump without confirmation, is refused.

A price is near another when neither is more than `factor` times the other. An observation of a symbol (a midpoint, a
bar's close, the middle of a book, a mark) is judged in the order of arrival (`judge_price`):

1. the first one is believed, and so is one near the price believed last, or one after a day without any;
2. any other is refused and, unless it is older than that price, held as a claim. The claim falls with the next
   believed observation that is not older. It is believed when an observation near it comes from another channel
   `agree_ms` after it began, or from any channel `alone_ms` after it began: a crash is seen by all channels and
   lasts, a bad tick is not and does not.

A refused row stays refused, whatever comes of its claim. A bar is judged by its close, and its extremes must be near
a price that is believed: its close, the price believed before it, or a midpoint of its minute. Bars that come late,
when newer prices are known, are compared with the bars on either side of them instead.

All of it is a function of the rows in their order: what a restart needs is on the tape (`Tape.price_state`).
"""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

import msgspec

from tapebook.domain.market import (
    AssetContext,
    Candle,
    FundingRate,
    Liquidity,
    Mid,
    MidFrame,
    Observation,
    PredictedFunding,
)
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, SECOND

NEIGHBOURHOOD_MS = HOUR
"""How far from a late bar its neighbours may lie."""

# A bar this much older than the newest price is history, and says nothing of the price now.
_LATE_MS = 2 * MINUTE

_E12 = 10**12
# The exchange itself caps an hour's rate at 4 %; other venues settle every 8 hours.
_MOST_HOURLY_E12 = _E12 * 5 // 100
_MOST_PREDICTED_E12 = _E12 * 40 // 100


class PriceRules(msgspec.Struct, frozen=True):
    """How far a price may jump without confirmation, and how long a claim must stand."""

    factor_percent: int = 150
    agree_ms: int = 15 * SECOND
    alone_ms: int = 90 * SECOND

    def is_near(self, price_e8: int, other_e8: int) -> bool:
        """Whether neither price is more than the factor times the other."""
        return price_e8 * 100 <= other_e8 * self.factor_percent and other_e8 * 100 <= price_e8 * self.factor_percent


class ObservedPrice(msgspec.Struct, frozen=True):
    """A price of a symbol, when it was observed and by which channel."""

    at: int
    channel: str
    price_e8: int


class PriceClaim(msgspec.Struct, frozen=True):
    """A price that is not believed yet: since when it is claimed, by which channel first, and when last."""

    since: int
    channel: str
    price_e8: int
    at: int


class PriceState(msgspec.Struct, frozen=True):
    """The price of a symbol that is believed, and the claim against it, if there is one."""

    believed: ObservedPrice | None = None
    claim: PriceClaim | None = None


class RefusedObservation(msgspec.Struct, frozen=True):
    """An observation that is not stored as a fact: its channel and subject, its time and price, its claim, and why."""

    channel: str
    symbol: str
    at: int
    price_e8: int
    claimed_since: int
    why: str


class PriceJudgement(msgspec.Struct, frozen=True):
    """What is believed after an observation, whether it is itself, and since when its claim stands if it joined one."""

    state: PriceState
    is_believed: bool = False
    claimed_since: int = 0


def judge_price(state: PriceState, seen: ObservedPrice, rules: PriceRules) -> PriceJudgement:
    """What follows from an observation."""
    believed, claim = state.believed, state.claim
    if believed is None or seen.at - believed.at > DAY or rules.is_near(seen.price_e8, believed.price_e8):
        newest = seen if believed is None or (seen.at, seen.channel) >= (believed.at, believed.channel) else believed
        return PriceJudgement(PriceState(newest, None if claim is None or seen.at >= claim.at else claim), True)
    if claim is not None and seen.at >= claim.since and rules.is_near(seen.price_e8, claim.price_e8):
        waits = rules.agree_ms if seen.channel != claim.channel else rules.alone_ms
        if seen.at - claim.since >= waits and seen.at >= claim.at:
            return PriceJudgement(PriceState(seen, None), True)
        longer = msgspec.structs.replace(claim, at=max(claim.at, seen.at))
        return PriceJudgement(PriceState(believed, longer), claimed_since=claim.since)
    if seen.at <= (believed.at if claim is None else claim.at):
        # Older than what is known already, it says nothing of the price now.
        return PriceJudgement(state)
    return PriceJudgement(
        PriceState(believed, PriceClaim(seen.at, seen.channel, seen.price_e8, seen.at)), claimed_since=seen.at
    )


def observed_price(fact: Observation) -> ObservedPrice | None:
    """What an observation says of the price; None when it says nothing of it."""
    if isinstance(fact, Mid):
        return ObservedPrice(fact.bucket_ts, "mids", fact.price_e8)
    if isinstance(fact, Candle):
        return ObservedPrice(fact.end, "candles", fact.close_e8)
    if isinstance(fact, Liquidity):
        return ObservedPrice(fact.bucket_ts, "books", fact.mid_e8)
    return ObservedPrice(fact.bucket_ts, "contexts", fact.mark_e8) if isinstance(fact, AssetContext) else None


def impossible_reason(fact: Observation) -> str | None:
    """Why an observation can be no fact, whatever was observed before; None when it can."""
    if isinstance(fact, Candle):
        ordered = 0 < fact.low_e8 <= min(fact.open_e8, fact.close_e8) <= max(fact.open_e8, fact.close_e8)
        if not ordered or max(fact.open_e8, fact.close_e8) > fact.high_e8:
            return "open and close do not lie between a positive low and the high"
        return None if _is_amount(fact.volume_base, fact.volume_quote_usd) else "a volume is no amount"
    if isinstance(fact, Liquidity):
        amounts = (fact.spread_bps, fact.depth_usd_10bps, fact.depth_usd_50bps, fact.depth_usd_100bps)
        possible = fact.mid_e8 > 0 and _is_amount(*amounts) and abs(fact.imbalance) <= 1
        return None if possible else "spread or depth of the book are no amounts"
    if isinstance(fact, AssetContext):
        if fact.mark_e8 <= 0 or not _is_amount(fact.open_interest_base):
            return "mark or open interest are no amounts"
        return None if abs(fact.funding_e12) <= _MOST_HOURLY_E12 else "the funding is above what can be charged"
    if isinstance(fact, FundingRate):
        return None if abs(fact.rate_e12) <= _MOST_HOURLY_E12 else "the rate is above what can be charged"
    if isinstance(fact, PredictedFunding):
        return None if abs(fact.rate_e12) <= _MOST_PREDICTED_E12 else "the rate is above what can be charged"
    return "the price is not positive" if isinstance(fact, Mid) and fact.price_e8 <= 0 else None


def _is_amount(*values: float) -> bool:
    return all(isfinite(value) and value >= 0 for value in values)


class StoredPrices(msgspec.Struct, frozen=True):
    """Where to look on the tape: a symbol's state, prices of midpoints between two moments, closes of bars likewise."""

    state: Callable[[str], PriceState]
    mids: Callable[[str, int, int], Sequence[int]]
    closes: Callable[[str, int, int], Sequence[int]]


class Quarantine:
    """The price states of all symbols, and the facts that pass.

    A cache of the tape, which only commits change: call `clear_cache` when one has failed.
    """

    def __init__(self, rules: PriceRules, stored: StoredPrices) -> None:
        self._rules = rules
        self._stored = stored
        self._states: dict[str, PriceState] = {}

    def clear_cache(self) -> None:
        """Reads all states from the tape again."""
        self._states = {}

    def state(self, symbol: str) -> PriceState:
        """What is believed of a symbol by now."""
        found = self._states.get(symbol)
        if found is None:
            found = self._states[symbol] = self._stored.state(symbol)
        return found

    def split_believed(
        self, facts: Iterable[Observation | MidFrame]
    ) -> tuple[list[Observation | MidFrame], list[RefusedObservation]]:
        """The facts that are believed, in their order, and those that are refused."""
        passed: list[Observation | MidFrame] = []
        refused: list[RefusedObservation] = []
        facts = list(facts)
        for place, fact in enumerate(facts):
            if isinstance(fact, MidFrame):
                found = [self._refusal(mid) for mid in fact]
                bad = [each for each in found if each is not None]
                passed.append(_without_refused(fact, found) if bad else fact)
                refused += bad
                continue
            why = self._refusal(fact, later=facts[place + 1 :] if type(fact) is Candle else ())
            if why is None:
                passed.append(fact)
            else:
                refused.append(why)
        return passed, refused

    def _refusal(self, fact: Observation, *, later: Sequence[Observation | MidFrame] = ()) -> RefusedObservation | None:
        """Why an observation is refused; None when it is believed."""
        seen, broken = observed_price(fact), impossible_reason(fact)
        if broken is not None or seen is None:
            return None if broken is None else _refused_observation(fact, seen, broken)
        state = self.state(fact.symbol)
        if isinstance(fact, Candle):
            if state.believed is not None and fact.end < state.believed.at - _LATE_MS:
                return self._late_refusal(fact, state.believed, later)
            if wick := self._wick(fact, [] if state.believed is None else [state.believed.price_e8]):
                return _refused_observation(fact, seen, wick)
        found = judge_price(state, seen, self._rules)
        self._states[fact.symbol] = found.state
        if found.is_believed:
            return None
        assert state.believed is not None
        return _refused_observation(
            fact, seen, _jump_text(seen.price_e8, state.believed.price_e8), since=found.claimed_since
        )

    def _late_refusal(
        self, bar: Candle, believed: ObservedPrice, later: Sequence[Observation | MidFrame]
    ) -> RefusedObservation | None:
        """A bar of the past is believed beside the price of now, a bar near in time, or the next one of its answer."""
        since, until = bar.bucket_ts - NEIGHBOURHOOD_MS, bar.end + NEIGHBOURHOOD_MS
        near, prices = self._rules.is_near, [believed.price_e8]
        if not near(bar.close_e8, believed.price_e8):
            prices += self._stored.closes(bar.symbol, since, until)
            next_bar = next((each for each in later if type(each) is Candle and each.symbol == bar.symbol), None)
            prices += [] if next_bar is None else [next_bar.open_e8]
            if not any(near(bar.close_e8, price) for price in prices):
                return _refused_observation(bar, observed_price(bar), _jump_text(bar.close_e8, believed.price_e8))
        wick = self._wick(bar, prices)
        return None if wick is None else _refused_observation(bar, observed_price(bar), wick)

    def _wick(self, bar: Candle, believed: Sequence[int]) -> str | None:
        """What is wrong with the extremes of a bar; None when prices that are believed lie near them."""
        near, prices = self._rules.is_near, [bar.close_e8, *believed]
        far = [price for price in (bar.high_e8, bar.low_e8) if not any(near(price, each) for each in prices)]
        if far:
            prices += self._stored.mids(bar.symbol, bar.bucket_ts, bar.end)
            far = [price for price in far if not any(near(price, each) for each in prices)]
        return f"an extreme, {_jump_text(far[0], bar.close_e8)}, the close" if far else None


def _without_refused(frame: MidFrame, refusals: Sequence[RefusedObservation | None]) -> MidFrame:
    kept = [place for place, refusal in enumerate(refusals) if refusal is None]
    symbols, prices = frame.symbols, frame.prices_e8
    return MidFrame(frame.bucket_ts, tuple(symbols[at] for at in kept), tuple(prices[at] for at in kept))


def _refused_observation(
    fact: Observation, seen: ObservedPrice | None, why: str, *, since: int = 0
) -> RefusedObservation:
    if seen is None:
        channel = "funding" if isinstance(fact, FundingRate) else "predicted"
        seen = ObservedPrice(fact.bucket_ts, channel, 0)
    return RefusedObservation(seen.channel, fact.symbol, seen.at, seen.price_e8, since, why)


def _jump_text(price_e8: int, believed_e8: int) -> str:
    times = price_e8 / believed_e8 if price_e8 > believed_e8 else believed_e8 / price_e8
    direction = "times" if price_e8 > believed_e8 else "times below"
    return f"{price_e8 / E8:.8g} is {times:.3g} {direction} {believed_e8 / E8:.8g}"


def newest_observed_price(facts: Iterable[Observation | None]) -> ObservedPrice | None:
    """The newest price that some observations tell of."""
    found = [observed_price(fact) for fact in facts if fact is not None]
    return max((each for each in found if each is not None), key=lambda each: (each.at, each.channel), default=None)
