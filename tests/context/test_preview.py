"""The preview counts what is sent, and says what to change."""

import pytest

from tapebook.context import Preview, PreviewPart, assemble_packet, preview_packet
from tapebook.domain.agent import Lessons
from tests.context.situations import bar, closed, empty_situation, market, situation, trade


def part(found: Preview, name: str) -> PreviewPart:
    """A part by name."""
    return next(each for each in found.parts if each.name == name)


def test_parts_add_up_to_the_packet() -> None:
    packet = assemble_packet(situation())
    found = preview_packet(packet)
    system = [each for each in found.parts if each.place == "system"]
    user = [each for each in found.parts if each.place == "user"]
    assert [each.name for each in system] == ["header", "leash", "strategy", "lessons", "footer"]
    assert [each.name for each in user] == [section.name for section in packet.sections]
    # The empty line between two parts is one more.
    assert sum(each.tokens for each in found.parts) + len(found.parts) - 2 == found.tokens == packet.tokens
    shared = [part(found, name).tokens for name in ("lessons", "recent_activity", "recent_trades", "open_positions")]
    assert (found.memory_tokens, found.memory_cap) == (sum(shared), 1_100)
    assert found.warnings == ()


def test_what_is_dropped_is_counted_and_has_a_remedy() -> None:
    found = preview_packet(
        assemble_packet(situation(market=market(bars=tuple(bar(back) for back in range(300, 0, -1)))))
    )
    bars = part(found, "bars")
    assert (bars.shown + bars.dropped, bars.cap) == (300, 1_600)
    assert found.warnings == (f"bars: 99 % of 1,600 tokens used; {bars.dropped} of 300 rows dropped; lower bar_count",)


def test_trades_that_give_way_to_the_rest_of_the_memory_say_so() -> None:
    trades = tuple(closed(trade(trade_id=f"t{n}", entry_tick_at=n, exited_e8=1)) for n in range(12))
    lessons = Lessons(("a lesson of several words that takes some room, as lessons do",) * 30, "x")
    found = preview_packet(assemble_packet(situation(closed_trades=trades, lessons=lessons)))
    assert found.memory_tokens <= 1_100
    (warning,) = [each for each in found.warnings if each.startswith("recent_trades")]
    assert f"the memory together uses {found.memory_tokens:,} of 1,100; lower recent_trades_k" in warning


@pytest.mark.parametrize("nearly", [False, True])
def test_a_part_that_is_nearly_full_is_named(nearly: bool) -> None:
    bars = tuple(bar(back) for back in range(115 if nearly else 60, 0, -1))
    found = preview_packet(assemble_packet(situation(market=market(bars=bars))))
    assert bool(found.warnings) == nearly
    assert all("dropped" not in warning for warning in found.warnings)


def test_empty_packet() -> None:
    assert preview_packet(assemble_packet(empty_situation())).warnings == ()
