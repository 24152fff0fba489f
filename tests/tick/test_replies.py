"""Answers of models are paid for once, by the key of what was asked, and not at all when the day's money is spent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.book.decision_queue import StoredReplies
from tapebook.decision import EngineAnswer
from tapebook.domain.agent import Deployment, RiskCaps
from tapebook.domain.packet import Packet
from tapebook.domain.run import Usage, Vote
from tapebook.domain.units import DAY, MINUTE
from tapebook.lab.explain import explain_run
from tapebook.tick import decide
from tapebook.tick.decide import PreparedDecision, Slot, store_answer
from tapebook.tick.story import conclude_decision, prepare_decision, tick
from tests.db.places import sql
from tests.desk.desks import BRIEF, Desk, desk, reply

VOTE = Vote("trend", "hold", None, 5_000, 10_000, "why")


class Model:
    """An engine that costs 40 cents a call and counts them."""

    def __init__(self, identity: str = "model-1 temperature=0", text: str = reply("hold")) -> None:
        self.identity = identity
        self.text = text
        self.calls = 0

    def decide(self, packet: Packet) -> EngineAnswer:
        self.calls += 1
        return EngineAnswer(self.text, (VOTE,), Usage("model-1", 900, 80, 400_000, 1))


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def model(floor: Desk, monkeypatch: pytest.MonkeyPatch) -> Model:
    found = Model()
    monkeypatch.setattr(floor.rooms, "engine", lambda agent: found)
    return found


def hire(floor: Desk, **caps: int) -> Deployment:
    agent = floor.hire(msgspec.structs.replace(BRIEF, caps=RiskCaps(**caps)))
    floor.quote(BTC=100)
    return agent


def stored_answer(floor: Desk, asked: PreparedDecision) -> EngineAnswer | None:
    rooms = floor.rooms
    return decide.stored_answer(
        asked, engine_of=rooms.engine, replies=rooms.replies, archive=rooms.archive, now=rooms.clock.now()
    )


def opened(floor: Desk, agent: Deployment, **where: Any) -> PreparedDecision:
    found = prepare_decision(floor.rooms, Slot(agent, "BTC", floor.clock.now(), **where))
    assert isinstance(found, PreparedDecision)
    return found


def test_answer_survives_a_kill_before_it_was_recorded(floor: Desk, model: Model) -> None:
    agent = hire(floor)
    first = opened(floor, agent)
    assert stored_answer(floor, first) is None
    answer = model.decide(first.packet())
    store_answer(floor.rooms, first, answer)
    # Killed here. Whoever comes next asks the same question and gets the same answer, votes and cost included.
    again = opened(floor, agent)
    assert stored_answer(floor, again) == answer
    run = tick(floor.rooms, again.slot)
    assert (model.calls, run.usage, run.votes) == (1, answer.usage, (VOTE,))
    assert floor.is_whole()


def test_same_question_of_another_run_is_not_paid_again(floor: Desk, model: Model) -> None:
    agent = hire(floor)
    run = tick(floor.rooms, Slot(agent, "BTC", floor.clock.now()))
    assert run.usage == Usage("model-1", 900, 80, 400_000, 1)
    first = opened(floor, agent, branch="a")
    answer = model.decide(first.packet())
    store_answer(floor.rooms, first, answer)
    conclude_decision(floor.rooms, first, answer)
    beside = PreparedDecision(Slot(agent, "BTC", floor.clock.now(), branch="b"), "b", first.situation)
    kept = stored_answer(floor, beside)
    assert kept is not None and kept.usage == Usage("model-1", 0, 0, 0, 0) and kept.reply == model.text
    assert floor.rooms.replies.spent_usd_e6(agent.id, since=0) == 800_000


@pytest.mark.parametrize("change", ["engine", "packet", "owner"])
def test_another_question_has_another_answer(floor: Desk, model: Model, change: str) -> None:
    agent = hire(floor)
    first = opened(floor, agent)
    store_answer(floor.rooms, first, model.decide(first.packet()))
    if change == "engine":
        model.identity = "model-1 temperature=1"
    elif change == "packet":
        floor.later(MINUTE, BTC=101)
        first = opened(floor, agent)
    else:
        floor.rooms.replies = StoredReplies(floor.rooms.book_db, owner="somebody else")  # type: ignore[misc]
    assert stored_answer(floor, first) is None


def test_pure_engines_and_problems_are_not_kept(floor: Desk, model: Model) -> None:
    agent = hire(floor)
    first = opened(floor, agent)
    store_answer(floor.rooms, first, EngineAnswer("", problem="timeout"))
    assert stored_answer(floor, first) is None
    model.identity = ""
    store_answer(floor.rooms, first, EngineAnswer(reply("hold")))
    model.identity = "model-1 temperature=0"
    assert stored_answer(floor, first) is None


def test_first_answer_stays(floor: Desk, model: Model) -> None:
    agent = hire(floor)
    first = opened(floor, agent)
    for text in ("one", "two"):
        store_answer(floor.rooms, first, EngineAnswer(text))
    assert stored_answer(floor, first) == EngineAnswer("one")


def test_reply_that_is_no_text_is_kept(floor: Desk, model: Model) -> None:
    agent = hire(floor)
    first = opened(floor, agent)
    store_answer(floor.rooms, first, EngineAnswer("\ud800\x00"))
    assert stored_answer(floor, first) == EngineAnswer("\\ud800\x00")


def test_day_has_a_limit(floor: Desk, model: Model) -> None:
    agent = hire(floor, max_model_usd_e6_per_day=1_000_000)
    statuses = []
    for _ in range(5):
        floor.later(MINUTE, BTC=100)
        statuses.append(tick(floor.rooms, Slot(agent, "BTC", floor.clock.now())).status)
    assert statuses == ["held", "held", "held", "failed", "failed"]
    assert model.calls == 3
    failed = floor.rooms.book.run(floor.rooms.book.run_ids(most=1)[0])
    assert failed is not None and failed.usage is None
    assert failed.error == "R11_MODEL_SPEND: $1.20 spent on models today; $1.00 are allowed"
    floor.later(DAY, BTC=100)
    assert tick(floor.rooms, Slot(agent, "BTC", floor.clock.now())).status == "held"
    assert floor.is_whole()


def test_answers_not_yet_recorded_count(floor: Desk, model: Model) -> None:
    agent = hire(floor, max_model_usd_e6_per_day=400_000)
    first = opened(floor, agent)
    store_answer(floor.rooms, first, model.decide(first.packet()))
    floor.later(MINUTE, BTC=100)
    other = opened(floor, agent)
    said = stored_answer(floor, other)
    assert said is not None and said.problem is not None and said.problem.startswith("R11_MODEL_SPEND")
    # The answer that was paid for is used all the same.
    assert stored_answer(floor, first) is not None
    another = floor.hire(msgspec.structs.replace(BRIEF, name="b", caps=RiskCaps(max_model_usd_e6_per_day=400_000)))
    assert stored_answer(floor, opened(floor, another)) is None


def test_reasoning_is_in_the_archive_with_its_key_on_the_run(
    floor: Desk, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the process that paid for it was killed before it recorded the run; the database has the key alone."""
    thought = "first\x1b[31m\u202e this\nthen that " + "long " * 400
    monkeypatch.setattr(model, "decide", lambda packet: EngineAnswer(model.text, reasoning=thought))
    agent = hire(floor)
    first = opened(floor, agent)
    store_answer(floor.rooms, first, model.decide(first.packet()))
    (kept,) = floor.rooms.book_db.all(sql("SELECT answer_json FROM kept_replies"))
    assert "first" not in kept[0]
    monkeypatch.setattr(model, "decide", lambda packet: pytest.fail("it was asked for again"))
    run = tick(floor.rooms, first.slot)
    assert run.reason_key is not None and floor.rooms.archive.get(run.reason_key) == thought.encode()
    assert floor.rooms.book.run(run.run_id) == run and floor.is_whole()
    shown = explain_run(floor.rooms, run)
    assert shown["reason_key"] == run.reason_key and shown["context_key"] == run.packet_key
    assert (shown["reasoning"] or "").startswith("first [31m  this\nthen that long")


def test_run_without_reasoning_has_no_key(floor: Desk, model: Model) -> None:
    run = tick(floor.rooms, opened(floor, hire(floor)).slot)
    assert run.reason_key is None and explain_run(floor.rooms, run)["reasoning"] is None
