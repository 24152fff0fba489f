"""The contract of the engine port, kept by every engine in its folder."""

import pytest
from hypothesis import given

from tapebook import plug
from tapebook.context import Situation, assemble
from tapebook.decision import Engine, Reply, parse
from tapebook.domain.packet import Packet
from tests.context.situations import LONGEST, bar, empty_situation, patient, situation, situations

FOLDER = "tapebook.decision.engines"
ENGINES = plug.names(FOLDER)

every_engine = pytest.mark.parametrize("name", ENGINES)


def create(name: str) -> Engine:
    """A new engine, as the composition root makes it."""
    engine: Engine = plug.load(FOLDER, name).create()
    return engine


def check_reply(packet: Packet, text: str) -> None:
    """Every reply is one the parser understands, about the packet's symbol alone."""
    parsed = parse(text)
    assert isinstance(parsed, Reply), parsed
    assert {action.symbol for action in parsed.actions} <= {packet.symbol}
    assert all(action.reason for action in parsed.actions)


def test_folder_has_the_engines_it_should() -> None:
    assert {"hold", "trend"} <= set(ENGINES)


@every_engine
def test_answers_a_full_packet(name: str) -> None:
    packet = assemble(situation())
    check_reply(packet, create(name).decide(packet))


@every_engine
@pytest.mark.parametrize("symbol", ["BTC", "ETH", "xyz:GOLD"])
def test_answers_an_empty_packet(name: str, symbol: str) -> None:
    packet = assemble(empty_situation(symbol))
    check_reply(packet, create(name).decide(packet))


@every_engine
def test_answers_a_packet_without_any_section(name: str) -> None:
    packet = Packet("a", "BTC", 0, 1, "", "", (), 0, {}, "", "")
    check_reply(packet, create(name).decide(packet))


@every_engine
@pytest.mark.parametrize("close_e8", [0, 1, LONGEST])
def test_answers_bars_of_absurd_prices(name: str, close_e8: int) -> None:
    packet = assemble(situation(bars=tuple(bar(5 * back, close_e8) for back in range(100, 0, -1))))
    check_reply(packet, create(name).decide(packet))


@every_engine
def test_answers_any_packet_and_the_same_one_alike(name: str) -> None:
    used = create(name)

    @patient(25)
    @given(situations())
    def check(drawn: Situation) -> None:
        packet = assemble(drawn)
        text = used.decide(packet)
        check_reply(packet, text)
        # Neither asking again nor what was asked before makes a difference.
        assert used.decide(packet) == text
        assert create(name).decide(packet) == text

    check()
