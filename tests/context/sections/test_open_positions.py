"""Open positions: the row of the memory layer's specification, byte for byte."""

from collections.abc import Callable

from tapebook.context.panel import Panel
from tapebook.context.sections import open_positions
from tapebook.domain.instants import MINUTE
from tapebook.domain.money import E6, E8
from tests.context.situations import NOW, situation, trade

SPECIFIED = '- ETH long $200 @ 3,410 mark=3,438 MFE=+$22 / MAE=-$8 held 30m "BB lower-band bounce"'
ETH = trade(
    "ETH",
    entry_tick_at=NOW - 30 * MINUTE,
    entry_reason="BB lower-band bounce",
    entered_e8=5_865_103,
    entered_usd_e6=200_000_012,
    mfe_usd_e6=22 * E6,
    mae_usd_e6=-8 * E6,
)


def test_row_of_the_specification() -> None:
    section = open_positions.LAYOUT.section(situation(open_trades={"ETH": ETH}, marks={"ETH": 3_438 * E8}))
    assert section is not None
    assert open_positions.LAYOUT.text(section.rows).split("\n") == [SPECIFIED]


def test_section_as_a_file(golden: Callable[[str, str], None]) -> None:
    trades = {"ETH": ETH, "BTC": trade(side="short", mfe_usd_e6=1_500_000, mae_usd_e6=-250_000)}
    marks = {"ETH": 3_438 * E8, "BTC": 65_900 * E8}
    drawn = Panel(open_positions.LAYOUT).drawn(situation(open_trades=trades, marks=marks))
    assert drawn is not None and SPECIFIED in drawn.text
    golden("section-open-positions.txt", drawn.text + "\n")


def test_the_packets_symbol_comes_first_then_by_name() -> None:
    trades = {symbol: trade(symbol) for symbol in ("SOL", "BTC", "ETH", "AAVE")}
    section = open_positions.LAYOUT.section(situation(open_trades=trades, marks=dict.fromkeys(trades, E8)))
    assert section is not None
    assert section.cells("what") == ["BTC long", "AAVE long", "ETH long", "SOL long"]


def test_reason_is_capped_and_time_is_whole_minutes() -> None:
    held = trade(entry_reason="w" * 240, entry_tick_at=NOW - 2 * MINUTE + 1)
    section = open_positions.LAYOUT.section(situation(open_trades={"BTC": held}))
    assert section is not None
    assert (section.cells("reason"), section.cells("held")) == (["w" * 120], ["1m"])


def test_nothing_open_is_no_section() -> None:
    assert open_positions.LAYOUT.section(situation(open_trades={})) is None
