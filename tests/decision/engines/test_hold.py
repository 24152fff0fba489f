"""The hold engine never trades."""

from hypothesis import given

from tapebook.context import Situation, assemble
from tapebook.decision import EngineTerms, Reply, parse
from tapebook.decision.engines import hold
from tests.context.situations import patient, situations


@patient(20)
@given(situations())
def test_holds_whatever_the_packet_says(drawn: Situation) -> None:
    packet = assemble(drawn)
    parsed = parse(hold.create(EngineTerms()).decide(packet).reply)
    assert isinstance(parsed, Reply)
    assert [(each.action, each.symbol) for each in parsed.actions] == [("hold", packet.symbol)]
