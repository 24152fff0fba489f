"""Recent activity: the slot of the memory layer's specification, byte for byte, and within its cap always."""

from collections.abc import Callable

import pytest
from hypothesis import given

from tapebook.context import memory_sections
from tapebook.context.assemble import SectionCache
from tapebook.domain.run import Activity
from tapebook.domain.units import E6
from tests.context.situations import RULES, activities, situation

SPECIFIED = """\
## Recent activity (this session)
- engine rejections (last 1h): R3_POSITION_CAP=4, R6_RATE_LIMIT=1
- recent rejection sequence: R3_POSITION_CAP → R3_POSITION_CAP → R3_POSITION_CAP → R3_POSITION_CAP \
← same code in the last 3+ rejections; do not repeat the same proposal shape
- executed orders today (UTC): 2
- realized PnL today (UTC, vs day-start equity): -1.23%
- consecutive losing closes: 3 (consider whether your read of the regime still holds)"""
DOUBT = "(consider whether your read of the regime still holds)"
CAP, RATE = "R3_POSITION_CAP", "R6_RATE_LIMIT"
BUSY = Activity(
    refusals=(RATE, CAP, CAP, CAP, CAP),
    executed_today=2,
    realised_today_usd_e6=-123 * E6,
    day_start_equity_usd_e6=10_000 * E6,
    losing_streak=3,
)


def text(activity: Activity | None) -> str:
    """The section as the packet shows it; empty when it is absent."""
    drawn = SectionCache(memory_sections.RECENT_ACTIVITY_SECTION).render(situation(activity=activity))
    return drawn.text if drawn else ""


def test_slot_of_the_specification(golden: Callable[[str, str], None]) -> None:
    assert text(BUSY) == SPECIFIED
    golden("section-recent-activity.txt", text(BUSY) + "\n")


@pytest.mark.parametrize("activity", [None, Activity(), Activity(orders_last_hour=3, day_start_equity_usd_e6=E6)])
def test_when_all_is_quiet_there_is_no_section(activity: Activity | None) -> None:
    assert text(activity) == ""


@pytest.mark.parametrize(
    ("activity", "line"),
    [
        (Activity(executed_today=1), "- executed orders today (UTC): 1"),
        (Activity(losing_streak=1), f"- consecutive losing closes: 1 {DOUBT}"),
        (Activity(losing_streak=50), f"- consecutive losing closes: 50+ {DOUBT}"),
        (
            Activity(realised_today_usd_e6=5 * E6, day_start_equity_usd_e6=1_000 * E6),
            "- realized PnL today (UTC, vs day-start equity): +0.50%",
        ),
    ],
)
def test_lines_about_nothing_are_left_out(activity: Activity, line: str) -> None:
    assert text(activity).split("\n")[1:] == [line]


def test_share_of_nothing_is_not_shown() -> None:
    assert text(Activity(realised_today_usd_e6=-1, day_start_equity_usd_e6=10_000 * E6)) == ""
    assert text(Activity(realised_today_usd_e6=-5 * E6, day_start_equity_usd_e6=0)) == ""
    assert text(Activity(realised_today_usd_e6=-5 * E6, day_start_equity_usd_e6=-E6)) == ""


@pytest.mark.parametrize(
    ("codes", "nudged"),
    [
        ((CAP,), False),
        ((CAP, CAP), False),
        ((CAP, CAP, CAP), True),
        ((CAP, CAP, RATE), False),
        ((CAP, CAP, CAP, RATE), False),
        ((RATE, CAP, CAP, CAP), True),
        ((CAP, RATE, CAP, CAP), False),
        ((CAP,) * 9, True),
    ],
)
def test_nudge_at_three_of_the_same_and_never_at_two(codes: tuple[str, ...], nudged: bool) -> None:
    shown = text(Activity(refusals=codes))
    assert ("do not repeat the same proposal shape" in shown) == nudged
    sequence = shown.split("\n")[2]
    assert sequence.startswith(f"- recent rejection sequence: {' → '.join(codes[-4:])}")


def test_counts_have_the_most_frequent_first() -> None:
    shown = text(Activity(refusals=(RATE, CAP, CAP, "R4_LEVERAGE", RATE, CAP)))
    assert shown.split("\n")[1] == f"- engine rejections (last 1h): {CAP}=3, {RATE}=2, R4_LEVERAGE=1"


@given(activities())
def test_any_hour_and_day_fit_whole(activity: Activity) -> None:
    drawn = SectionCache(memory_sections.RECENT_ACTIVITY_SECTION).render(situation(activity=activity))
    if drawn is not None:
        assert drawn.tokens <= 130
        assert drawn.section.dropped == 0


def test_many_rules_are_counted_where_they_do_not_fit() -> None:
    shown = text(Activity((), 999, 0, -E6, E6, losing_streak=9, refusals=(*RULES, *(CAP,) * 4)))
    assert "more rules" in shown.split("\n")[1]
