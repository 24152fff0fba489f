"""What an answer comes to: a failure, a refusal, or actions with verdicts and flags."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook import plug
from tapebook.context import Situation, assemble_packet
from tapebook.decision import Engine, EngineAnswer, EngineTerms
from tapebook.domain.canonical import canonical_json
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import Usage
from tapebook.tick.decide import evaluate_reply
from tests.caches import forget
from tests.context.situations import patient, situations
from tests.decision.accounts import limits
from tests.desk.desks import desk, reply

CITATIONS = Section("citations", "Citations", ("id", "text"), (("c1", "a rule"),))
PACKET = Packet("a", "BTC", 0, 1, "", "mid 100.5", (CITATIONS,), 0, {}, "", "")
USAGE = Usage("m", 1, 2, 3, 1)


def packet() -> Packet:
    return PACKET


def test_problem_of_the_engine_is_a_failure_in_one_clean_line() -> None:
    found = evaluate_reply(EngineAnswer("", usage=USAGE, problem="it\nbroke\x00\ud800" + "x" * 500), packet, limits())
    assert found.failed and found.error is not None and found.error.startswith("it broke x")
    assert len(found.error) <= 300 and (found.actions, found.usage) == ((), USAGE)
    assert evaluate_reply(EngineAnswer("", problem="\x00"), packet, limits()).error == "the engine gave no reason"


def test_reply_that_is_not_understood_is_refused() -> None:
    found = evaluate_reply(EngineAnswer("Buy!", usage=USAGE), packet, limits())
    assert not found.failed and found.error is not None and (found.actions, found.verdicts) == ((), ())
    assert found.usage == USAGE


def test_citations_are_those_of_the_packet() -> None:
    asked = [
        evaluate_reply(EngineAnswer(reply("hold", cites=cites)), packet, limits()).verdicts[0]
        for cites in (["c1"], ["c2"])
    ]
    assert [verdict.rule for verdict in asked] == [None, "R15_UNKNOWN_CITATION"]
    bare = msgspec.structs.replace(PACKET, sections=())
    assert (
        evaluate_reply(EngineAnswer(reply("hold", cites=["c1"])), lambda: bare, limits()).verdicts[0].rule
        == "R15_UNKNOWN_CITATION"
    )


def test_numbers_nobody_can_find_are_flagged_and_refuse_nothing() -> None:
    found = evaluate_reply(
        EngineAnswer(reply("open", "long", 100, reason="mid 100.5, target 812.75")), packet, limits()
    )
    assert found.verdicts[0].allowed and found.verdicts[0].flags == ("812.75",)
    refused = evaluate_reply(EngineAnswer(reply("open", "long", 1, reason="target 812.75")), packet, limits())
    assert not refused.verdicts[0].allowed and refused.verdicts[0].flags == ("812.75",)


def test_a_packet_is_asked_for_only_where_the_answer_refers_to_it() -> None:
    def nobody_asks() -> Packet:
        raise AssertionError("nobody needs the packet")

    for reason in ("hold: trend, carry", "3 of 5 bars are up"):
        assert evaluate_reply(EngineAnswer(reply("hold", reason=reason)), nobody_asks, limits()).verdicts[0].allowed
    for answer in (reply("hold", cites=["c1"]), reply("hold", reason="target 812.75")):
        with pytest.raises(AssertionError, match="nobody needs"):
            evaluate_reply(EngineAnswer(answer), nobody_asks, limits())


def decided(here: Situation) -> tuple[Packet, EngineAnswer, bytes]:
    """The pure part of a tick: the packet, the answer of an ensemble, and the bytes of what it comes to."""

    def member(name: str, _cap: int) -> Engine:
        made: Engine = plug.load("tapebook.decision.engines", name).create(EngineTerms())
        return made

    packet = assemble_packet(here)
    answer = plug.load("tapebook.decision.engines", "ensemble").create(EngineTerms(member=member)).decide(packet)
    return packet, answer, canonical_json(evaluate_reply(answer, lambda: packet, limits()))


@patient(25)
@given(st.lists(situations(), max_size=3), st.lists(st.integers(0, 2), max_size=6))
def test_what_was_decided_before_leaves_no_trace(drawn: list[Situation], order: list[int]) -> None:
    asked = [drawn[at] for at in order if at < len(drawn)]
    found = [decided(here) for here in asked]
    for here, together in zip(asked, found, strict=True):
        forget()
        assert decided(here) == together


def test_flags_are_stored_with_the_verdict(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        run = floor.say(agent, reply("open", "long", 100, reason="target 812.75"))
        assert run.verdicts[0].flags == ("812.75",)
        stored = floor.rooms.book.run(run.run_id)
        assert stored is not None and stored.verdicts == run.verdicts
        assert floor.is_whole()
