"""What is missing, broken or absurd in a packet is left out."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision.rule_engine import PacketBars, parse_number, read_packet
from tapebook.domain.packet import Section
from tests.caches import forget
from tests.decision.engines.seen import LONG, SHORT, bars, facts, packet_of, portfolio

COLUMNS = ("time", "high", "low", "close")


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("-0.00", 0.0), ("+2", 2.0), ("", None), (None, None)])
def test_numbers(text: str | None, value: float | None) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "65,200", "$5", "five"])
def test_what_is_no_number(text: str) -> None:
    assert parse_number(text) is None


def test_rows_that_are_not_whole_are_left_out() -> None:
    rows = (("t", "3", "1", "2"), ("t", "3", "x", "2"), ("t", "3"), (), ("t", "6", "4", "5"))
    assert read_packet(packet_of(Section("bars", "", COLUMNS, rows))).bars == PacketBars((3, 6), (1, 4), (2, 5))


def test_columns_are_found_by_name() -> None:
    turned = Section("bars", "", COLUMNS[::-1], (("2", "1", "3", "t"),))
    assert read_packet(packet_of(turned)).bars == PacketBars((3,), (1,), (2,))
    assert read_packet(packet_of(Section("bars", "", COLUMNS[:-1], (("t", "3", "1"),)))).bars == PacketBars()
    assert read_packet(packet_of()).bars == PacketBars()


def test_facts() -> None:
    odd = Section("portfolio", "", ("name",), (("price",), (), ("cash", "1"), ("cash", "2")))
    reading = read_packet(packet_of(facts("market", price="5"), odd))
    assert reading.market == {"price": "5"}
    # A name without a value is none, and of two values the first holds.
    assert reading.portfolio == {"cash": "1"}
    assert read_packet(packet_of()).market == {}


def test_held_side() -> None:
    shown = [portfolio(LONG), portfolio(SHORT), portfolio(), facts("portfolio", position_side="both"), facts("market")]
    assert [read_packet(packet_of(each)).held for each in shown] == ["long", "short", None, None, None]


PRICES = st.lists(st.tuples(*[st.floats(0, 1e9)] * 3), max_size=4)


@given(st.lists(st.tuples(st.sampled_from("ab"), PRICES, st.sampled_from([LONG, SHORT]), st.booleans()), max_size=6))
def test_what_was_read_before_leaves_no_trace(shown: list[tuple[str, list[Any], int, bool]]) -> None:
    packets = [
        msgspec.structs.replace(packet_of(bars(prices), portfolio(held), facts("market", n=str(n))), agent=agent)
        for n, (agent, prices, held, _) in enumerate(shown)
    ]
    again = [packet for packet, (*_, twice) in zip(packets, shown, strict=True) for _ in range(1 + twice)]
    found = [read_packet(packet) for packet in again]
    for packet, reading in zip(again, found, strict=True):
        forget()
        assert read_packet(packet) == reading
