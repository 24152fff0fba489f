"""Figures as text: signs, thousands, n and interval, and tables whose columns stand under each other."""

import pytest

from tapebook.backtest.formats import (
    day_text,
    interval_text,
    percent_text,
    plain_text,
    share_interval_text,
    share_text,
    sharpe_text,
    signed_text,
    text_record,
    text_table,
    trend_text,
    usd_text,
)
from tapebook.backtest.result import ChunkTrend, round_estimate, round_fixed, round_to_cents_e6
from tapebook.domain.estimate import Estimate

HALF = Estimate(0.5, 0.25, 0.75, 12)


@pytest.mark.parametrize(
    ("value", "plainly", "with_sign"),
    [
        (0, "0.00", "0.00"),
        (4_999, "0.00", "0.00"),
        (-4_999, "0.00", "0.00"),
        (1_234_567_891_234, "1,234,567.89", "+1,234,567.89"),
        (-5_010_000, "-5.01", "-5.01"),
    ],
)
def test_money(value: int, plainly: str, with_sign: str) -> None:
    assert (usd_text(value), usd_text(value, signed=True)) == (plainly, with_sign)


def test_estimates_carry_n_and_interval() -> None:
    assert share_text(HALF) == "50% (n=12, 95% 25% to 75%)" and share_interval_text(HALF) == "50% (25 to 75)"
    assert share_text(None) == share_text(Estimate(0.0, 0.0, 1.0, 0)) == "n=0"
    assert sharpe_text(Estimate(1.234, -0.5, 2.9, 1_000)) == "1.23 (n=1,000 days, 95% -0.50 to 2.90)"
    assert sharpe_text(None) == "too few days, or no change" and interval_text(None) == "-"
    assert interval_text(Estimate(1.234, -0.55, 2.9, 3)) == "1.23 (-0.6 to 2.9)"
    assert trend_text(ChunkTrend("up", Estimate(41.04, 3.2, 78.9, 9), 30, 0.01)) == "up +41.0 (3 to 79)"
    assert (signed_text(-0.04), signed_text(0.05, 2), percent_text(23_456)) == ("+0.0", "+0.05", "2.35%")


def test_moments_say_their_time_only_when_there_is_one() -> None:
    assert (day_text(1_767_571_200_000), day_text(1_767_571_500_000)) == ("2026-01-05", "2026-01-05 00:05")


def test_tables_and_records_line_up() -> None:
    assert text_table(("name", "n"), [["a", "1"], ["long one", "1,000"]], indent=1) == [
        " name          n",
        " a             1",
        " long one  1,000",
    ]
    assert text_table(("name", "n"), []) == []
    assert text_record([("a", "1"), ("none", ""), ("long", "x\ny")], indent=0) == ["a     1", "long  x y"]
    assert plain_text("\x1b[2Jx\u2028") == "[2Jx"


def test_floats_are_kept_with_declared_digits() -> None:
    assert str(round_fixed(-0.00004, 4)) == "0.0" and round_fixed(1.23456, 4) == 1.2346
    assert round_estimate(Estimate(-1e-9, -0.55555, 1 / 3, 7), 3) == Estimate(0.0, -0.556, 0.333, 7)
    assert [round_to_cents_e6(value) for value in (1.234, -0.004, 10**9 + 0.01)] == [1_230_000, 0, 10**15 + 10_000]
