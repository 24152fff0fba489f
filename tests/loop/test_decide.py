"""What an answer comes to: a failure, a refusal, or actions with verdicts and flags."""

from pathlib import Path

import msgspec

from tapebook.decision import Answer
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import Usage
from tapebook.loop.decide import judged
from tests.decision.accounts import limits
from tests.loop.desks import desk, reply

CITATIONS = Section("citations", "Citations", ("id", "text"), (("c1", "a rule"),))
PACKET = Packet("a", "BTC", 0, 1, "", "mid 100.5", (CITATIONS,), 0, {}, "", "")
USAGE = Usage("m", 1, 2, 3, 1)


def test_problem_of_the_engine_is_a_failure_in_one_clean_line() -> None:
    found = judged(Answer("", usage=USAGE, problem="it\nbroke\x00\ud800" + "x" * 500), PACKET, limits())
    assert found.failed and found.error is not None and found.error.startswith("it broke x")
    assert len(found.error) <= 300 and (found.actions, found.usage) == ((), USAGE)
    assert judged(Answer("", problem="\x00"), PACKET, limits()).error == "the engine gave no reason"


def test_reply_that_is_not_understood_is_refused() -> None:
    found = judged(Answer("Buy!", usage=USAGE), PACKET, limits())
    assert not found.failed and found.error is not None and (found.actions, found.verdicts) == ((), ())
    assert found.usage == USAGE


def test_citations_are_those_of_the_packet() -> None:
    asked = [judged(Answer(reply("hold", cites=cites)), PACKET, limits()).verdicts[0] for cites in (["c1"], ["c2"])]
    assert [verdict.rule for verdict in asked] == [None, "R15_UNKNOWN_CITATION"]
    bare = msgspec.structs.replace(PACKET, sections=())
    assert judged(Answer(reply("hold", cites=["c1"])), bare, limits()).verdicts[0].rule == "R15_UNKNOWN_CITATION"


def test_numbers_nobody_can_find_are_flagged_and_refuse_nothing() -> None:
    found = judged(Answer(reply("open", "long", 100, reason="mid 100.5, target 812.75")), PACKET, limits())
    assert found.verdicts[0].allowed and found.verdicts[0].flags == ("812.75",)
    refused = judged(Answer(reply("open", "long", 1, reason="target 812.75")), PACKET, limits())
    assert not refused.verdicts[0].allowed and refused.verdicts[0].flags == ("812.75",)


def test_flags_are_stored_with_the_verdict(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        run = floor.say(agent, reply("open", "long", 100, reason="target 812.75"))
        assert run.verdicts[0].flags == ("812.75",)
        stored = floor.rooms.book.run(run.run_id)
        assert stored is not None and stored.verdicts == run.verdicts
        assert floor.is_whole()
