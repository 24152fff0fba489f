"""Open positions: the row of the memory layer's specification, byte for byte."""

from collections.abc import Callable

from tapebook.context import market_sections
from tapebook.context.assemble import SectionCache
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.units import E6, E8, MINUTE
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
# Bought at 3,410 and worth 200 USD at the mark.
ETH_HELD = Position("ETH", 5_817_336, 198_371_158, 2)
BTC_HELD = Position("BTC", -383_436, -250_000_272, 2)


def held(*positions: Position) -> Portfolio:
    """What is held."""
    return Portfolio({position.symbol: position for position in positions}, 0)


def test_row_of_the_specification() -> None:
    section = market_sections.OPEN_POSITIONS_SECTION.section(
        situation(open_trades={"ETH": ETH}, portfolio=held(ETH_HELD), marks={"ETH": 3_438 * E8})
    )
    assert section is not None
    assert market_sections.OPEN_POSITIONS_SECTION.text(section.rows).split("\n") == [SPECIFIED]


def test_section_as_a_file(golden: Callable[[str, str], None]) -> None:
    trades = {"ETH": ETH, "BTC": trade(side="short", mfe_usd_e6=1_500_000, mae_usd_e6=-250_000)}
    marks = {"ETH": 3_438 * E8, "BTC": 65_900 * E8}
    known = situation(open_trades=trades, portfolio=held(ETH_HELD, BTC_HELD), marks=marks)
    drawn = SectionCache(market_sections.OPEN_POSITIONS_SECTION).render(known)
    assert drawn is not None and SPECIFIED in drawn.text
    golden("section-open-positions.txt", drawn.text + "\n")


def test_the_packets_symbol_comes_first_then_by_name() -> None:
    trades = {symbol: trade(symbol) for symbol in ("SOL", "BTC", "ETH", "AAVE")}
    positions = held(*[Position(symbol, E8, 100 * E6, 2) for symbol in trades])
    known = situation(open_trades=trades, portfolio=positions, marks=dict.fromkeys(trades, E8))
    section = market_sections.OPEN_POSITIONS_SECTION.section(known)
    assert section is not None
    assert section.cells("what") == ["BTC long", "AAVE long", "ETH long", "SOL long"]


def test_reason_is_capped_and_time_is_whole_minutes() -> None:
    long_ago = trade(entry_reason="w" * 240, entry_tick_at=NOW - 2 * MINUTE + 1)
    section = market_sections.OPEN_POSITIONS_SECTION.section(situation(open_trades={"BTC": long_ago}))
    assert section is not None
    assert (section.cells("reason"), section.cells("held")) == (["w" * 119 + "…"], ["1m"])


def test_size_is_what_is_held_not_what_was_ever_bought() -> None:
    # Adjusted up and down all day: 2,500 USD were bought in all, and 200 are left.
    busy = trade(entered_e8=3_834_360, entered_usd_e6=2_500 * E6, exited_e8=3_527_611)
    known = situation(
        open_trades={"BTC": busy},
        portfolio=held(Position("BTC", 306_749, 200_000_348, 2)),
        marks={"BTC": 65_200 * E8},
    )
    section = market_sections.OPEN_POSITIONS_SECTION.section(known)
    assert section is not None
    assert (section.cells("size"), section.cells("entry")) == (["$200"], ["65,200"])


def test_nothing_open_is_no_section() -> None:
    assert market_sections.OPEN_POSITIONS_SECTION.section(situation(open_trades={})) is None
