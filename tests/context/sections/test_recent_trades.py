"""Recent trades: the rows of the memory layer's specification, with the arithmetic of what was really traded."""

import re
from collections.abc import Callable

import pytest

from tapebook.book.materializer import Account, TradeCause, settle_fill
from tapebook.context import memory_sections
from tapebook.context.assemble import SectionCache
from tapebook.domain.order import Fill
from tapebook.domain.position import ClosedTrade, Portfolio
from tapebook.domain.units import E6, E8, HOUR, parse_instant, to_units
from tests.context.situations import NOW, closed, situation, trade

SPECIFIED = """\
- 2026-06-04T10:00 → 12:30 BTC long $250 65,200 → 65,940 +$28.40 (+1.1%) 120m "breakout above prior swing high"
- 2026-06-04T08:15 → 09:00 ETH short $180 3,420 → 3,455 -$9.70 (-0.5%) 45m "funding extreme, mean-revert"
"""
ROW = re.compile(
    r"- (?P<span>\S+ → \S+) (?P<what>\S+ (?:long|short)) (?P<size>\$\S+) (?P<prices>\S+ → \S+) "
    r'[+-]\$\d+\.\d\d \([+-]\d+\.\d%\) \d+m (?:\w+ [+-]?\$\d+/[+-]?\$\d+ )?"(?P<reason>[^"]*)"(?: exit .*)?'
)


def at(clock: str) -> int:
    """A time of the day of the specification's rows."""
    return parse_instant(f"2026-06-04T{clock}:00Z")


def round_trip(symbol: str, size: str, entry: tuple[str, str], leave: tuple[str, str], reason: str) -> ClosedTrade:
    """A trade as two fills make it; entry and exit are (time, price)."""
    cause = TradeCause("btc-5m", 3, "r1", reason, 2, "trend_up_lowvol")
    account = Account(0, Portfolio({}, 1_000 * E6), {})
    for number, (signed, (clock, price)) in enumerate([(to_units(size, E8), entry), (-to_units(size, E8), leave)]):
        fill = Fill(f"f{number}", symbol, at(clock), signed, to_units(price, E8), 0, False, "c")
        account, bodies = settle_fill(account, fill, cause, mark_e8=None)
    found = [body.trade for body in bodies if hasattr(body, "trade") and isinstance(body.trade, ClosedTrade)]
    return found[0]


BTC = round_trip("BTC", "0.00383436", ("10:00", "65200"), ("12:30", "65940"), reason="breakout above prior swing high")
ETH = round_trip("ETH", "-0.05263158", ("08:15", "3420"), ("09:00", "3455"), reason="funding extreme, mean-revert")


def lines(*trades: ClosedTrade) -> list[str]:
    """The section's rows as the packet shows them."""
    section = memory_sections.RECENT_TRADES_SECTION.section(situation(closed_trades=trades))
    assert section is not None
    return memory_sections.RECENT_TRADES_SECTION.text(section.rows).split("\n")


def test_rows_of_two_real_trades() -> None:
    assert lines(BTC, ETH) == [
        "- 2026-06-04T10:00 → 12:30 BTC long $250 65,200 → 65,940 +$2.84 (+1.1%) 150m trend_up_lowvol "
        '+$3/$0 "breakout above prior swing high" exit "breakout above prior swing high"',
        "- 2026-06-04T08:15 → 09:00 ETH short $180 3,420 → 3,455 -$1.84 (-1.0%) 45m trend_up_lowvol "
        '$0/-$2 "funding extreme, mean-revert" exit "funding extreme, mean-revert"',
    ]


def test_format_is_the_specified_one() -> None:
    for ours, theirs in zip(lines(BTC, ETH), SPECIFIED.splitlines(), strict=True):
        found, specified = ROW.fullmatch(ours), ROW.fullmatch(theirs)
        assert found and specified
        assert found.groupdict() == specified.groupdict()


def test_section_as_a_file(golden: Callable[[str, str], None]) -> None:
    sure = trade(trade_id="x", side="short", exited_e8=1, entry_regime_tag=None, entry_reason='a "sure" thing')
    drawn = SectionCache(memory_sections.RECENT_TRADES_SECTION).render(
        situation(closed_trades=(ETH, BTC, closed(sure)))
    )
    assert drawn is not None
    golden("section-recent-trades.txt", drawn.text + "\n")


def test_latest_entry_comes_first_whatever_the_order_of_exits() -> None:
    early, late = closed(trade(trade_id="a", entry_tick_at=at("09:00"), exited_e8=1)), BTC
    assert lines(early, late) == lines(late, early)
    assert [line.split()[1] for line in lines(early, late)] == ["2026-06-04T10:00", "2026-06-04T09:00"]


def test_result_is_net_of_fees_and_funding() -> None:
    state = trade(exited_e8=1, realised_usd_e6=5 * E6, fees_usd_e6=2 * E6, funding_usd_e6=-10 * E6)
    assert " -$7.00 (-2.8%) " in lines(closed(state))[0]


def test_trade_that_was_not_classified_is_unknown() -> None:
    assert " unknown " in lines(closed(trade(exited_e8=1, entry_regime_tag=None)))[0]


def test_reason_is_capped() -> None:
    assert f' "{"z" * 119}…" exit ' in lines(closed(trade(exited_e8=1, entry_reason="z" * 240)))[0]


def test_no_trades_are_no_section() -> None:
    assert memory_sections.RECENT_TRADES_SECTION.section(situation(closed_trades=())) is None


@pytest.mark.parametrize(("minutes", "shown"), [("10:00", "0m"), ("10:01", "1m"), ("23:59", "839m")])
def test_holding_time_in_whole_minutes(minutes: str, shown: str) -> None:
    assert f" {shown} trend_up_lowvol" in lines(closed(trade(exited_e8=1), at=at(minutes)))[0]


def test_extremes_and_the_exit_are_shown() -> None:
    state = trade(exited_e8=1, mfe_usd_e6=41 * E6, mae_usd_e6=-9 * E6)
    assert lines(closed(state))[0].endswith('+$41/-$9 "breakout above prior swing high" exit "target reached"')


@pytest.mark.parametrize("label", ["liquidated", "delisted", "external_flatten", "unknown"])
def test_exit_that_no_decision_made_is_a_label_and_no_decision_can_claim_it(label: str) -> None:
    state = trade(exited_e8=1)
    assert lines(ClosedTrade(state, NOW, label, None))[0].endswith(f" exit {label}")
    assert lines(ClosedTrade(state, NOW, label, "r2"))[0].endswith(f' exit "{label}"')


def test_ten_trades_fit_at_the_default() -> None:
    why = "average of 8 bars is +15.6 bps from the average of 32 and the book leans to the bid side by a third"
    ended = "no reason left: average of 8 bars is -3.4 bps from the average of 32"
    shown = [
        ClosedTrade(
            trade(
                "ETH",
                trade_id=f"t{number}",
                entry_tick_at=NOW - number * HOUR,
                entered_e8=73_099_000,
                entered_usd_e6=2_500 * E6,
                exited_e8=73_099_000,
                exited_usd_e6=2_526 * E6,
                realised_usd_e6=126_400_000,
                entry_reason=why,
                mfe_usd_e6=140 * E6,
                mae_usd_e6=-59 * E6,
            ),
            NOW,
            *((ended, "r2") if number else ("liquidated", None)),
        )
        for number in range(10)
    ]
    drawn = SectionCache(memory_sections.RECENT_TRADES_SECTION).render(situation(closed_trades=tuple(shown)))
    assert drawn is not None
    assert (len(drawn.section.rows), drawn.section.dropped) == (10, 0)
    assert drawn.tokens <= memory_sections.RECENT_TRADES_SECTION.cap
    assert all("+$140/-$59" in line for line in drawn.text.split("\n")[1:])
    assert "exit liquidated" in drawn.text
