"""The regime tag: two axes, exact bounds, and `unknown` where nothing can be said."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.domain.market import Candle
from tapebook.domain.units import MINUTE
from tapebook.tape.bars import MIN_BARS, RegimeClassifier, classify_regime, regime_of

TAGS = {f"{trend}_{vol}" for trend in ("trend_up", "trend_down", "chop") for vol in ("hivol", "lowvol")}


def straight(first: float, last: float, count: int = MIN_BARS) -> list[float]:
    """Closes that go from one price to another in even steps."""
    return [first, *(first + (last - first) * step / (count - 1) for step in range(1, count - 1)), last]


def shaken(deviation: float, count: int = 101) -> list[float]:
    """Closes that end where they began and whose log returns have that sample deviation: up and down by turns."""
    turns = [1 if step % 2 else -1 for step in range(1, count)]
    size = deviation * math.sqrt((len(turns) - 1) / len(turns))
    logs = [0.0]
    for turn in turns:
        logs.append(logs[-1] + turn * size)
    return [100 * math.exp(each) for each in logs]


@pytest.mark.parametrize(
    ("first", "last", "trend"),
    [
        (1_000, 1_000, "chop"),
        (1_000, 1_005, "chop"),
        (1_000, 1_005.001, "trend_up"),
        (1_000, 995, "chop"),
        (1_000, 994.999, "trend_down"),
        (200, 201, "chop"),
        (200, 199, "chop"),
        (65_000, 65_325, "chop"),
        (65_000, 64_675, "chop"),
        (65_000, 65_325.5, "trend_up"),
        (65_000, 64_674.5, "trend_down"),
        (0.02, 0.0201, "chop"),
        (100, 200, "trend_up"),
        (100, 50, "trend_down"),
    ],
)
def test_trend_must_exceed_half_a_percent(first: float, last: float, trend: str) -> None:
    assert classify_regime(straight(first, last, count=100)).rpartition("_")[0] == trend


@pytest.mark.parametrize(
    ("deviation", "vol"),
    [(0, "lowvol"), (0.00399, "lowvol"), (0.004 - 1e-9, "lowvol"), (0.004 + 1e-9, "hivol"), (0.05, "hivol")],
)
def test_volatility_reaches_four_tenths_of_a_percent(deviation: float, vol: str) -> None:
    assert classify_regime(shaken(deviation)) == f"chop_{vol}"


def test_exactly_the_threshold_is_high() -> None:
    # Returns of +x and −x by turns, in powers of two, so that their deviation is exact: x of an even count
    # with mean 0 is x · sqrt(n / (n − 1)).
    closes = [1.0, 2.0] * 10 + [1.0]
    exact = math.log(2) * math.sqrt(20 / 19)
    below, above = math.nextafter(exact, 0), math.nextafter(exact, 1)
    assert classify_regime(closes, vol_threshold=below - 1e-12) == "chop_hivol"
    assert classify_regime(closes, vol_threshold=above + 1e-12) == "chop_lowvol"
    flat = [5.0] * MIN_BARS
    assert classify_regime(flat, vol_threshold=0.0) == "chop_hivol"


def test_all_six_tags() -> None:
    calm, wild = straight(100, 100, 100), shaken(0.05, 99)
    found = {
        classify_regime(calm),
        classify_regime(wild),
        classify_regime(straight(100, 110, 100)),
        classify_regime(straight(110, 100, 100)),
        classify_regime([*wild, 150.0]),
        classify_regime([*wild, 50.0]),
    }
    assert found == TAGS


@pytest.mark.parametrize(
    "closes",
    [
        pytest.param([], id="nothing"),
        pytest.param([100.0] * 11, id="eleven closes"),
        pytest.param([*[100.0] * 11, math.nan], id="NaN at the end"),
        pytest.param([math.nan, *[100.0] * 11], id="NaN at the start"),
        pytest.param([*[100.0] * 6, math.nan, *[100.0] * 6], id="NaN between"),
        pytest.param([*[100.0] * 11, math.inf], id="infinity"),
        pytest.param([*[100.0] * 11, -math.inf], id="minus infinity"),
        pytest.param([*[100.0] * 11, 0.0], id="a price of zero"),
        pytest.param([0.0, *[100.0] * 11], id="zero at the start"),
        pytest.param([*[100.0] * 11, -1.0], id="a negative price"),
    ],
)
def test_unknown(closes: list[float]) -> None:
    assert classify_regime(closes) == "unknown"


def test_twelve_closes_are_enough() -> None:
    assert classify_regime([100.0] * 12) == "chop_lowvol"


# Every price that fits the store: from one hundred-millionth to 2⁶³ of them.
STORED = st.integers(1, 2**63 - 1).map(lambda price_e8: price_e8 / 1e8)


@given(st.lists(STORED, max_size=30))
def test_any_prices_have_a_tag(closes: list[float]) -> None:
    tag = classify_regime(closes)
    assert tag in TAGS if len(closes) >= MIN_BARS else tag == "unknown"
    assert classify_regime(tuple(closes)) == tag


@given(st.lists(STORED, min_size=MIN_BARS, max_size=30))
def test_trend_turns_with_time(closes: list[float]) -> None:
    trend, _, vol = classify_regime(closes, trend_threshold=0.0).rpartition("_")
    back, _, vol_back = classify_regime(closes[::-1], trend_threshold=0.0).rpartition("_")
    assert {trend, back} in ({"trend_up", "trend_down"}, {"chop"})
    assert vol == vol_back


def by_definition(closes: list[float], trend_threshold: float, vol_threshold: float) -> str:
    """The tag, step by step."""
    if len(closes) < MIN_BARS or any(not math.isfinite(close) or close <= 0 for close in closes):
        return "unknown"
    change = (closes[-1] - closes[0]) / closes[0]
    returns = [math.log(closes[step] / closes[step - 1]) for step in range(1, len(closes))]
    mean = math.fsum(returns) / len(returns)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in returns) / (len(returns) - 1))
    trend = "chop" if abs(change) <= trend_threshold else "trend_up" if change > 0 else "trend_down"
    return f"{trend}_hivol" if deviation >= vol_threshold else f"{trend}_lowvol"


ODD = st.sampled_from([0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 1e-300, 1e300])
NEAR = st.floats(99, 101)


@given(st.lists(NEAR, max_size=40) | st.lists(STORED | ODD, max_size=20), st.floats(0, 0.02), st.floats(0, 0.02))
def test_tag_is_that_of_the_definition(closes: list[float], trend: float, vol: float) -> None:
    expected = by_definition(closes, trend, vol)
    assert classify_regime(closes, trend_threshold=trend, vol_threshold=vol) == expected


PRICES = st.lists(st.integers(95, 105) | st.sampled_from((0, -3, 101)), min_size=1, max_size=60)


@given(PRICES, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=4))
def test_tags_of_windows_that_move_are_those_of_each(prices: list[int], jumps: list[tuple[int, int]]) -> None:
    bars = [Candle("BTC", 60, at, c * 10**8, 0, 0, c * 10**8, 1.0, 1.0, 1) for at, c in enumerate(prices)]
    tags = RegimeClassifier(scaled=False)
    for start, size in [(start, size) for size in (MIN_BARS, 3) for start in range(len(bars))] + jumps:
        window = tuple(bars[start : start + size])
        assert tags(window) == classify_regime([bar.close_e8 / 1e8 for bar in window])


def bars_of(closes: list[float], *, minutes: int) -> list[Candle]:
    """Bars without gaps that close at these prices."""
    e8 = [round(close * 1e8) for close in closes]
    return [Candle("BTC", minutes * 60, n * minutes * MINUTE, c, c, c, c, 1.0, 1.0, 1) for n, c in enumerate(e8)]


@given(st.lists(st.floats(95, 105), min_size=100, max_size=100))
def test_a_hundred_bars_of_five_minutes_have_the_thresholds_of_the_seed(closes: list[float]) -> None:
    bars = bars_of(closes, minutes=5)
    assert regime_of(bars) == classify_regime([bar.close_e8 / 1e8 for bar in bars])


@pytest.mark.parametrize(
    ("minutes", "limit"), [(1, 0.0017888), (5, 0.004), (15, 0.0069282), (60, 0.013856), (240, 0.027713)]
)
def test_volatility_scales_with_the_root_of_a_bars_time(minutes: int, limit: float) -> None:
    assert regime_of(bars_of(shaken(limit * 1.001), minutes=minutes)) == "chop_hivol"
    assert regime_of(bars_of(shaken(limit * 0.999), minutes=minutes)) == "chop_lowvol"


@pytest.mark.parametrize(
    ("minutes", "count", "limit"),
    [
        (5, 100, 0.005),
        (5, 25, 0.0025),
        (1, 100, 0.002236),
        (60, 100, 0.017320),
        (240, 100, 0.034641),
        (30, 48, 0.0084852),
    ],
)
def test_trend_scales_with_the_root_of_the_windows_time(minutes: int, count: int, limit: float) -> None:
    tags = [
        regime_of(bars_of(straight(100, 100 * (1 + way * limit), count), minutes=minutes)) for way in (1.001, 0.999)
    ]
    assert [tag and tag.rpartition("_")[0] for tag in tags] == ["trend_up", "chop"]
    down = regime_of(bars_of(straight(100, 100 * (1 - 1.001 * limit), count), minutes=minutes))
    assert down is not None and down.startswith("trend_down")


def test_a_window_with_a_gap_counts_for_the_time_it_covers() -> None:
    whole = bars_of(straight(100, 100.55, 100), minutes=5)
    later = [replace(bar, bucket_ts=bar.bucket_ts + 500 * MINUTE) for bar in whole[50:]]
    assert regime_of(whole) == "trend_up_lowvol"
    assert regime_of([*whole[:50], *later]) == "chop_lowvol"


def test_bars_that_cannot_be_classified_have_no_tag_and_few_bars_are_unknown() -> None:
    assert regime_of(()) == regime_of(bars_of([100.0] * 11, minutes=5)) == "unknown"
    assert regime_of(bars_of([*[100.0] * 11, 0.0], minutes=5)) is None
    assert regime_of(bars_of([*[100.0] * 11, -1.0], minutes=5)) is None
    assert regime_of(bars_of([100.0] * 12, minutes=5)) == "chop_lowvol"


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), st.sampled_from((1, 5, 60, 1_440)))
def test_no_bars_raise(closes: list[int], minutes: int) -> None:
    bars = [Candle("BTC", minutes * 60, n * minutes * MINUTE, c, c, c, c, 1.0, 1.0, 1) for n, c in enumerate(closes)]
    found = regime_of(bars)
    if len(bars) < MIN_BARS:
        assert found == "unknown"
    else:
        assert found in TAGS if min(closes) > 0 else found is None


@given(PRICES, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=4))
def test_scaled_tags_of_windows_that_move_are_those_of_each(prices: list[int], jumps: list[tuple[int, int]]) -> None:
    bars = bars_of([float(price) for price in prices], minutes=60)
    tags = RegimeClassifier()
    for start, size in [(start, size) for size in (MIN_BARS, 3) for start in range(len(bars))] + jumps:
        assert tags(tuple(bars[start : start + size])) == regime_of(bars[start : start + size])
