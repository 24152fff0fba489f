"""The table of horizons: how far back each looks, and that all of it fits the packet."""

import pytest

from tapebook.context import market_sections
from tapebook.domain.agent import HORIZONS, ContextProfile, Horizon, context_for_horizon
from tapebook.domain.text import line_tokens
from tapebook.domain.units import DAY, HOUR, MINUTE

LOOKBACKS = {"scalp": HOUR, "intraday": DAY, "swing": 7 * DAY, "position": 30 * DAY}
# Eight decimals of a price below a ten-thousandth, and a volume with an exponent.
DEAREST = ("12:30", "0.00001234", "0.00001234", "0.00001234", "1.23e+08")


@pytest.mark.parametrize("horizon", list(HORIZONS))
def test_a_horizon_looks_back_as_far_as_its_name_says(horizon: Horizon) -> None:
    minutes, count = HORIZONS[horizon]
    assert minutes * count * MINUTE == LOOKBACKS[horizon]
    assert context_for_horizon(horizon) == ContextProfile(horizon=horizon, bar_minutes=minutes, bar_count=count)


@pytest.mark.parametrize("horizon", list(HORIZONS))
def test_every_bar_of_a_horizon_fits_the_section(horizon: Horizon) -> None:
    minutes, count = HORIZONS[horizon]
    head = line_tokens(
        f"## Time and bars: now 2026-01-05T00:30 UTC, xyz:GOLD {minutes}m bars, time high low close volume"
    )
    assert head + count * line_tokens(market_sections.BARS_SECTION.text((DEAREST,))) <= market_sections.BARS_SECTION.cap
    assert 1440 % minutes == 0
