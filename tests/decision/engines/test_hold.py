"""The hold engine never trades."""

from hypothesis import given

from tapebook.context import Situation, assemble_packet
from tapebook.decision import EngineTerms, Reply, parse_reply
from tapebook.decision.engines import hold
from tests.context.situations import patient, situations


@patient(20)
@given(situations())
def test_holds_whatever_the_packet_says(drawn: Situation) -> None:
    packet = assemble_packet(drawn)
    parsed = parse_reply(hold.create(EngineTerms()).decide(packet).reply)
    assert isinstance(parsed, Reply)
    assert [(each.action, each.symbol) for each in parsed.actions] == [("hold", packet.symbol)]
