"""What is missing, broken or absurd in a packet is left out."""

import pytest

from tapebook.decision.reading import Bar, bars, fact, figure, held_side, number
from tapebook.domain.packet import Section
from tests.decision.engines.seen import LONG, SHORT, facts, packet_of, portfolio

COLUMNS = ("time", "high", "low", "close")


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("-0.00", 0.0), ("+2", 2.0), ("", None), (None, None)])
def test_numbers(text: str | None, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "65,200", "$5", "five"])
def test_what_is_no_number(text: str) -> None:
    assert number(text) is None


def test_rows_that_are_not_whole_are_left_out() -> None:
    rows = (("t", "3", "1", "2"), ("t", "3", "x", "2"), ("t", "3"), (), ("t", "6", "4", "5"))
    assert bars(packet_of(Section("bars", "", COLUMNS, rows))) == [Bar(3, 1, 2), Bar(6, 4, 5)]


def test_columns_are_found_by_name() -> None:
    turned = Section("bars", "", COLUMNS[::-1], (("2", "1", "3", "t"),))
    assert bars(packet_of(turned)) == [Bar(3, 1, 2)]
    assert bars(packet_of(Section("bars", "", COLUMNS[:-1], (("t", "3", "1"),)))) == []
    assert bars(packet_of()) == []


def test_facts() -> None:
    packet = packet_of(facts("market", price="5"), Section("odd", "", ("name",), (("price",), ())))
    assert fact(packet, "market", "price") == "5"
    assert figure(packet, "market", "price") == 5.0
    assert fact(packet, "market", "spread") is fact(packet, "odd", "price") is fact(packet, "none", "x") is None


def test_held_side() -> None:
    assert held_side(packet_of(portfolio(LONG))) == "long"
    assert held_side(packet_of(portfolio(SHORT))) == "short"
    assert held_side(packet_of(portfolio())) is held_side(packet_of()) is None
    assert held_side(packet_of(facts("portfolio", position_side="both"))) is None
