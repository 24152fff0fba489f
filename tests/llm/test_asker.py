"""The budget of a question: attempts, seconds and dollars; what was used is counted whatever came of it."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.run import Usage
from tapebook.llm import Asker, Budget, Completion, Failure, ModelResponse, Price, WaitClock
from tapebook.llm.asker import MAX_ANSWER_CHARS, SPEND_RULE
from tapebook.llm.port import TRANSIENT_FAULTS, Fault, estimate_tokens

SCHEMA: dict[str, Any] = {}
PROMPT = estimate_tokens("system", "user", "{}")
# A dollar per token, so that tokens can be read as dollars.
DOLLAR = Price(10**12, 10**12)
RICH = 10**15


class Scripted:
    """A model that gives one outcome after the other, each after some seconds of a time of its own."""

    def __init__(self, *outcomes: Completion | Failure, seconds: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.now = 0.0
        self.slept: list[float] = []
        self.timeouts: list[float] = []
        self.questions: list[str] = []

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """The next outcome."""
        assert (system, user.partition("\n")[0], schema) == ("system", "user", SCHEMA)
        self.questions.append(user)
        self.timeouts.append(timeout_seconds)
        self.now += self.seconds
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def sleep(self, seconds: float) -> None:
        """Lets time pass."""
        self.slept.append(seconds)
        self.now += seconds


def number_in(text: str) -> str | None:
    """What is wrong with a text that is to be a number."""
    return None if text.isdigit() else f"{text} is no number"


def ask(
    model: Scripted, budget: Budget | None = None, *, price: Price = DOLLAR, cap: int = RICH, reads: Any = None
) -> ModelResponse:
    """Asks a scripted model."""
    asker = Asker(
        model,
        name="m",
        place="here",
        price=price,
        budget=budget or Budget(max_tokens=100),
        waiting=WaitClock(lambda: model.now, model.sleep),
    )
    return asker.ask("system", "user", schema=SCHEMA, max_usd_e6=cap, **({"problem_in": reads} if reads else {}))


def fails(fault: Fault = "server_error", after: float | None = None) -> Failure:
    """A failure."""
    return Failure(fault, "it broke", after, is_billed=fault == "timeout")


ANSWER = Completion("{}", 30, 7)


def test_an_answer_is_an_answer() -> None:
    assert ask(Scripted(ANSWER)) == ModelResponse("{}", Usage("m", 30, 7, 37 * 10**6, 1))


def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    model = Scripted(fails(), fails("unreachable"), ANSWER)
    assert ask(model).usage.attempts == 3
    assert model.slept == [1.0, 2.0]


def test_the_server_says_how_long_to_wait() -> None:
    model = Scripted(fails("rate_limited", 7.5), ANSWER)
    assert ask(model).problem is None
    assert model.slept == [7.5]


def test_attempts_end() -> None:
    asked = ask(Scripted(fails()))
    assert asked == ModelResponse("", Usage("m", 0, 0, 0, 3), "server_error after 3 attempts: it broke")


@pytest.mark.parametrize("fault", ["unauthorised", "rejected"])
def test_what_will_not_pass_is_not_tried_again(fault: Fault) -> None:
    model = Scripted(fails(fault), ANSWER)
    assert ask(model).problem == f"{fault} after 1 attempt: it broke"
    assert not model.slept


@pytest.mark.parametrize("stop", ["refused", "truncated"])
def test_a_text_that_is_none_is_paid_for_and_not_tried_again(stop: Any) -> None:
    asked = ask(Scripted(Completion("half", 30, 7, stop), ANSWER))
    assert (asked.text, asked.usage) == ("half", Usage("m", 30, 7, 37 * 10**6, 1))
    assert asked.problem is not None and asked.problem.startswith(stop)


def test_seconds_end() -> None:
    model = Scripted(fails(), seconds=60.0)
    asked = ask(model, Budget(attempts=9, timeout_seconds=60, total_seconds=150, max_tokens=100))
    # 60 s, 1 s, 60 s, 2 s, and 27 s are left for the third; after it there is no time for a pause.
    assert asked.usage.attempts == 3
    assert model.timeouts == [60.0, 60.0, 27.0]


def test_a_pause_that_does_not_fit_is_not_waited_for() -> None:
    model = Scripted(fails("rate_limited", 3600.0), ANSWER)
    assert ask(model).problem == "rate_limited after 1 attempt: it broke"
    assert not model.slept


def test_a_request_that_timed_out_counts_as_if_its_prompt_was_billed() -> None:
    asked = ask(Scripted(fails("timeout"), ANSWER))
    assert asked.usage == Usage("m", PROMPT + 30, 7, (PROMPT + 37) * 10**6, 2)


def test_what_could_break_the_cap_is_not_sent() -> None:
    most = (PROMPT + 100) * 10**6
    assert ask(Scripted(ANSWER), cap=most).problem is None
    model = Scripted(ANSWER)
    asked = ask(model, cap=most - 1)
    assert asked.usage == Usage("m", 0, 0, 0, 0) and not model.timeouts
    assert asked.problem is not None and asked.problem.startswith(f"{SPEND_RULE}: asking m could cost $")


def test_the_cap_counts_what_is_spent_already() -> None:
    asked = ask(Scripted(fails("timeout"), ANSWER), cap=(PROMPT + 100) * 10**6)
    assert asked.usage.attempts == 1
    assert asked.problem is not None and "is spent" in asked.problem


def test_a_model_without_a_price_needs_no_cap() -> None:
    assert ask(Scripted(ANSWER), price=Price(0, 0), cap=0) == ModelResponse("{}", Usage("m", 30, 7, 0, 1))


def test_what_cannot_be_read_is_asked_for_again_with_what_is_wrong() -> None:
    model = Scripted(Completion("one", 30, 7), fails(), Completion("2", 30, 7))
    assert ask(model, reads=number_in) == ModelResponse("2", Usage("m", 60, 14, 74 * 10**6, 3))
    first, *later = model.questions
    assert first == "user" and all(again.startswith("user\n") and "one is no number" in again for again in later)


def test_the_last_text_that_cannot_be_read_is_given_when_the_budget_ends() -> None:
    assert ask(Scripted(Completion("one", 30, 7)), reads=number_in) == ModelResponse(
        "one", Usage("m", 90, 21, 111 * 10**6, 3)
    )
    assert ask(Scripted(Completion("one", 30, 7), fails("rejected")), reads=number_in).text == "one"
    poor = ask(Scripted(Completion("one", 30, 7)), reads=number_in, cap=(PROMPT + 100) * 10**6)
    assert poor == ModelResponse("one", Usage("m", 30, 7, 37 * 10**6, 1))


def test_an_answer_that_was_none_counts_as_if_its_prompt_was_billed() -> None:
    asked = ask(Scripted(Failure("server_error", "no answer", is_billed=True), ANSWER))
    assert asked.usage == Usage("m", PROMPT + 30, 7, (PROMPT + 37) * 10**6, 2)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}',
        ' {"a":1}\n',
        '```json\n{"a":1}\n```',
        'Here it is:\n```\n{"a":1}\n```\nGood luck.',
        '<think>long or short? {"a":2}</think>\n\n{"a":1}',
        '<think>```json\n{"a":2}\n```</think>```JSON\n{"a":1}```',
    ],
)
def test_the_json_is_found_behind_thoughts_and_in_a_fence(text: str) -> None:
    assert ask(Scripted(Completion(text, 1, 1))).text == '{"a":1}'


@pytest.mark.parametrize("text", ["```\n1\n```\n```\n2\n```", "Sure! 1", "<think>1"])
def test_a_text_with_no_one_json_stays_as_it_is(text: str) -> None:
    assert ask(Scripted(Completion(text, 1, 1))).text == text


def test_a_text_that_is_too_long_is_not_kept_whole() -> None:
    assert len(ask(Scripted(Completion("x" * 10**6, 1, 1))).text) == MAX_ANSWER_CHARS


OUTCOMES = st.one_of(
    st.builds(Completion, st.sampled_from("x1"), st.integers(0, PROMPT), st.integers(0, 100), st.just("end")),
    st.builds(Failure, st.sampled_from(sorted(TRANSIENT_FAULTS)), st.just("d"), st.none() | st.floats(0, 200)),
)


@given(st.lists(OUTCOMES, min_size=1, max_size=6), st.integers(1, 5), st.floats(0, 80), st.integers(0, 10**9))
def test_no_script_breaks_the_budget(
    script: list[Completion | Failure], attempts: int, seconds: float, cap: int
) -> None:
    model = Scripted(*script, seconds=seconds)
    budget = Budget(attempts=attempts, timeout_seconds=80, total_seconds=150, max_tokens=100)
    asked = ask(model, budget, cap=cap, reads=number_in)
    assert len(model.timeouts) == asked.usage.attempts <= attempts
    # A completion never says more tokens than were allowed here, so the cap holds to the cent.
    assert asked.usage.cost_usd_e6 <= cap
    assert sum(model.slept) < 150 and all(timeout >= 0.1 for timeout in model.timeouts)
    assert (asked.problem is None) == (asked.text != "")
