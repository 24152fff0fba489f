"""Time and bars: one row per bar, oldest first, without the open."""

from tapebook.context import market_sections
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E8, HOUR, MINUTE
from tests.context.situations import NOW, bar, market


def test_rows_and_heading() -> None:
    section = market_sections.BARS_SECTION.section(
        market(bars=(bar(10, 65_000 * E8), bar(5, 3_420 * E8, volume=0.000123456)))
    )
    assert section is not None
    assert section.title == "Time and bars: now 2026-06-04T12:30 UTC, BTC 5m bars, time high low close volume"
    assert section.columns == ("time", "high", "low", "close", "volume")
    assert section.rows == (
        ("12:20", "65001", "64999", "65000", "12.5"),
        ("12:25", "3421.0", "3419.0", "3420.0", "0.000123"),
    )
    assert market_sections.BARS_SECTION.text(section.rows[:1]) == "12:20 65001 64999 65000 12.5"


def test_time_and_bar_size_are_said_even_without_a_bar() -> None:
    section = market_sections.BARS_SECTION.section(market(bars=(), symbol="ETH", bar_minutes=15, as_of=NOW + 59_999))
    assert section is not None
    assert section.rows == ()
    assert section.title.startswith("Time and bars: now 2026-06-04T12:30 UTC, ETH 15m bars")


def test_bars_of_hours_name_their_day() -> None:
    hours = tuple(Candle("BTC", 3_600, NOW - back - 30 * 60_000, E8, E8, E8, E8, 1.0, 0.0, 1) for back in (DAY, HOUR))
    section = market_sections.BARS_SECTION.section(market(bars=hours, bar_minutes=60))
    assert section is not None
    assert section.cells("time") == ["06-03T12:00", "06-04T11:00"]


def test_minutes_that_are_not_final_are_named_with_the_bar_that_is_left_out() -> None:
    def title(*minutes_ago: int, bar_minutes: int = 5) -> str:
        section = market_sections.BARS_SECTION.section(
            market(unfinished=tuple(NOW - ago * MINUTE for ago in minutes_ago), bar_minutes=bar_minutes)
        )
        assert section is not None
        return section.title

    assert "BTC 5m bars (12:29 not final yet, bar 12:25 left out), time high low" in title(1)
    assert "BTC 5m bars (12:27 to 12:29 not final yet, bar 12:25 left out), time" in title(3, 2, 1)
    assert "(06-04T11:59 not final yet, bar 06-04T11:00 left out)" in title(31, bar_minutes=60)
