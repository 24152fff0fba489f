"""Numbers of a reason: those of the packet and simple arithmetic on them pass, made-up ones are flagged."""

import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tapebook.decision.guard import _NUMBER, _SCALES, numbers_in, unexplained_numbers
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action
from tapebook.domain.units import E6, E8

TEXT = """as of 2026-01-05T06:00
mid 65,200.5  funding 0.0012 %  open interest 1.25B
entry 64,000  stop 63,000  RSI 41.7
"""


def flags(reason: str, text: str = TEXT) -> tuple[str, ...]:
    packet = Packet("a", "BTC", 0, 1, "max position 2000", text, (), 0, {}, "", "")
    action = Action("open", "BTC", "long", 250 * E6, 3, "limit", 65_100 * E8, 6_400, reason)
    return unexplained_numbers(action, lambda: packet)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "no numbers at all",
        "mid at 65,200.5",
        "mid at $65200.5, RSI 41.7",
        "mid near 65,201",
        "about 65.2k",
        "open interest is 1,250,000,000",
        "OI 1.25B",
        "down 1,200.5 from the mid",
        "1.88 % above the entry",
        "-1.84% below the mid",
        "188 bps above entry",
        "3 of the last 5 bars, 2x",
        "EMA20 over EMA50 on the 5m chart at 06:00",
        "cap of 2000 allows my 250 at 3x with 64 % confidence and a limit of 65,100",
        "the stop is 1.5625 % away from the entry",
    ],
)
def test_explained(reason: str) -> None:
    assert flags(reason) == ()


@pytest.mark.parametrize(
    ("reason", "made_up"),
    [
        ("RSI is 83.7", ("83.7",)),
        ("target 71,350", ("71,350",)),
        ("up 77.31 % today", ("77.31 %",)),
        ("mid 65,200.5 but fair value 99,999.25 and -4321.5 below", ("99,999.25", "-4321.5")),
        ("OI 9.87B", ("9.87B",)),
        ("RSI 41.9", ("41.9",)),
    ],
)
def test_made_up_numbers_are_flagged_as_they_are_written(reason: str, made_up: tuple[str, ...]) -> None:
    assert flags(reason) == made_up


def test_nothing_known_explains_nothing() -> None:
    assert flags("price 123.45", text="") == ("123.45",)


@given(st.integers(21, 10**12), st.integers(0, 8))
def test_every_number_of_the_packet_is_explained(number: int, digits: int) -> None:
    written = f"{number / 10**digits:.{digits}f}"
    assert flags(f"because of {written}", text=f"a table with {written} in it") == ()


PIECES = st.sampled_from(["1.5", "65,200", "\n", "\n", " ", "%", "k", "bps", "B", "M x", "-", ".5", "7" * 40, "a", ":"])


TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=20).map("".join)


@given(TEXTS)
@example("1.5\n% of it")
@example("1.5\nk and 2.5\nkg")
def test_numbers_of_a_packet_are_those_of_a_reason(text: str) -> None:
    exact = []
    for match in _NUMBER.finditer(text):
        exact.append(float(Decimal(match[1].replace(",", "")).scaleb(_SCALES.get(match[2] or "", 0))))
    assert sorted(numbers_in(text)) == sorted(exact)
    assert flags(text, text) == ()


@given(TEXTS, TEXTS)
@example("1500 and 1.5", "1.5\n% of it")
@example("1500 and 25 and 2500", "1.5\nk and 2.5\nkg")
def test_numbers_line_by_line_are_those_of_the_whole(reason: str, text: str) -> None:
    assert flags(reason, text) == flags(reason, text.replace("\n", " "))


@given(st.text(max_size=240))
def test_any_reason_is_read(reason: str) -> None:
    assert all(flag in reason for flag in flags(reason))


@given(st.text().filter(lambda reason: not re.search(r"\d", reason)))
def test_a_reason_without_a_digit_has_no_number(reason: str) -> None:
    assert list(flags(reason)) == []
