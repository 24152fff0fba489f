"""Asks a model until it answers or the budget is used up: so many attempts, seconds and dollars.

1. Before each attempt its dearest outcome is weighed (`_too_dear`): the prompt, and every token it may write.
   What would break the cap is not sent.
2. A failure that may pass by itself is waited for (`_pause`): as long as the server asks for, else 1, 2, 4 … seconds.
3. A text that whoever asks cannot read (`problem_in`) is asked for again, with what is wrong with it (`_corrected`).
4. What was used is added up over all attempts (`_Tab`). A request that timed out, or whose answer was none, counts as
   if its prompt was billed.

A backtest has a `Ledger`: a question that it knows is not asked, and one that it cannot afford stops it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from tapebook.domain.canonical import canonical, sha256_hex
from tapebook.domain.money import E6, decimal_text
from tapebook.domain.run import Usage
from tapebook.domain.text import plural
from tapebook.llm.port import PASSING, Completion, Failure, Model, estimated_tokens
from tapebook.llm.prices import Price

SPEND_RULE = "R11_MODEL_SPEND"
MOST_CHARS = 100_000
"""Characters of a text that are kept; no answer that can be read is as long."""

_THOUGHT_ENDS = "</think>"
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)


class Budget(msgspec.Struct, frozen=True):
    """How often and how long a model is asked, and how much it may write."""

    attempts: int = 3
    timeout_seconds: float = 60.0
    total_seconds: float = 150.0
    max_tokens: int = 8_000


class Waiting(msgspec.Struct, frozen=True):
    """How time passes: what counts seconds, and what lets them go by."""

    elapsed_seconds: Callable[[], float]
    sleep: Callable[[float], None]


class Asked(msgspec.Struct, frozen=True):
    """What came of asking; with a problem, the text is what there was of it."""

    text: str
    usage: Usage
    problem: str | None = None
    reasoning: str = ""


class Ledger(Protocol):
    """Questions that were asked before, what they cost, and what may still be spent."""

    def find(self, question: str) -> Asked | None:
        """The answer that a question, named by its hash, got before; None when it has to be asked."""
        ...

    def reserve(self, usd_e6: int) -> None:
        """Makes sure that a question may cost so much; SpendLimit when it may not."""
        ...

    def add(self, question: str, asked: Asked) -> None:
        """Writes down what came of a question before anything is made of it."""
        ...


class NoLedger:
    """Remembers nothing and limits nothing: live, the book does both."""

    def find(self, question: str) -> None:
        """No answer."""

    def reserve(self, usd_e6: int) -> None:
        """Any amount."""

    def add(self, question: str, asked: Asked) -> None:
        """Nothing."""


ProblemIn = Callable[[str], str | None]
"""What is wrong with a text, in one line; None when it can be read."""


def _no_problem(_text: str) -> None:
    return None


class Asker:
    """A model, its price, and the patience to ask it again."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        place: str,
        price: Price,
        budget: Budget,
        waiting: Waiting,
        ledger: Ledger | None = None,
    ) -> None:
        self._model = model
        self._ledger: Ledger = ledger or NoLedger()
        self._name = name
        self._place = place
        self._price = price
        self._budget = budget
        self._waiting = waiting

    @property
    def identity(self) -> str:
        """What a kept answer depends on, apart from the prompt and its schema."""
        return f"{self._name} at {self._place} max_tokens={self._budget.max_tokens}"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def budget(self) -> Budget:
        """How often it is asked, and how much it may write."""
        return self._budget

    def ask(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_usd_e6: int, problem_in: ProblemIn = _no_problem
    ) -> Asked:
        """One answer to one prompt, within the budget; of answers that cannot be read, the last."""
        question = sha256_hex(canonical([self.identity, system, user, msgspec.json.encode(schema).decode()]))
        known = self._ledger.find(question)
        if known is not None:
            return known
        self._ledger.reserve(self.most_usd_e6(_prompt_tokens(system, user, schema), cap_usd_e6=max_usd_e6))
        asked = self._ask(system, user, schema=schema, max_usd_e6=max_usd_e6, problem_in=problem_in)
        self._ledger.add(question, asked)
        return asked

    @property
    def price(self) -> Price:
        """What its tokens cost."""
        return self._price

    def attempt_usd_e6(self, prompt_tokens: int) -> int:
        """What one attempt costs at most: a prompt of so many tokens, and every token that it may write."""
        return self._price.cost_usd_e6(input_tokens=prompt_tokens, output_tokens=self._budget.max_tokens)

    def most_usd_e6(self, prompt_tokens: int, *, cap_usd_e6: int) -> int:
        """What a question costs at most over all attempts, under a run's cap; nothing when that forbids the first."""
        attempt = self.attempt_usd_e6(prompt_tokens)
        return min(cap_usd_e6, attempt * self._budget.attempts) if attempt <= cap_usd_e6 else 0

    def _ask(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_usd_e6: int, problem_in: ProblemIn
    ) -> Asked:
        tab = _Tab(self._name, self._price)
        ends = self._waiting.elapsed_seconds() + self._budget.total_seconds
        question, unread = user, ""
        while True:
            prompt_tokens = _prompt_tokens(system, question, schema)
            if problem := self._too_dear(tab, prompt_tokens, max_usd_e6):
                # What was read but not understood is refused by whoever asked, with a better reason.
                return Asked(unread, tab.usage(), None if unread else problem)
            outcome = self._model.complete(
                system,
                question,
                schema=schema,
                max_tokens=self._budget.max_tokens,
                timeout_seconds=self._seconds_left(ends),
            )
            tab.add(outcome, prompt_tokens)
            if isinstance(outcome, Completion):
                text, complaint = json_text(outcome.text)[:MOST_CHARS], self._complaint(outcome)
                wrong = None if complaint else problem_in(text)
                if wrong is None or not self._may_ask_again(tab.attempts, ends):
                    return Asked(text, tab.usage(), complaint, _reasoning(outcome, text))
                question, unread = _corrected(user, wrong), text
                continue
            pause = self._pause(outcome, tab.attempts, ends)
            if pause is None:
                failed = f"{outcome.fault} after {_times(tab.attempts)}: {outcome.detail}"
                return Asked(unread, tab.usage(), None if unread else failed)
            self._waiting.sleep(pause)

    def _seconds_left(self, ends: float) -> float:
        # Sleeping may have taken longer than it was told to; an attempt that is made gets a moment at least.
        return min(self._budget.timeout_seconds, max(0.1, ends - self._waiting.elapsed_seconds()))

    def _too_dear(self, tab: "_Tab", prompt_tokens: int, max_usd_e6: int) -> str | None:
        most = self.attempt_usd_e6(prompt_tokens)
        if tab.cost_usd_e6 + most <= max_usd_e6:
            return None
        spent = f", {_usd(tab.cost_usd_e6)} is spent" if tab.attempts else ""
        return f"{SPEND_RULE}: asking {self._name} could cost {_usd(most)}{spent}, the run's cap is {_usd(max_usd_e6)}"

    def _complaint(self, completion: Completion) -> str | None:
        if completion.stop == "refused":
            return f"refused: {self._name} would not answer"
        if completion.stop == "truncated":
            return f"truncated: the answer of {self._name} was cut off at {self._budget.max_tokens} tokens"
        return None

    def _may_ask_again(self, attempts: int, ends: float) -> bool:
        return attempts < self._budget.attempts and self._waiting.elapsed_seconds() < ends

    def _pause(self, failure: Failure, attempts: int, ends: float) -> float | None:
        """Seconds to the next attempt; None when there is to be none."""
        if failure.fault not in PASSING or attempts >= self._budget.attempts:
            return None
        asked_for = failure.retry_after_seconds
        pause = float(2 ** (attempts - 1)) if asked_for is None else max(0.0, asked_for)
        return pause if self._waiting.elapsed_seconds() + pause < ends else None


def _prompt_tokens(system: str, user: str, schema: Mapping[str, Any]) -> int:
    return estimated_tokens(system, user, msgspec.json.encode(schema).decode())


def json_text(text: str) -> str:
    """The JSON in what a model wrote: without what it thought before, and without a fence around it.

    A text with anything else around its JSON stays as it is, and whoever reads it says so.
    """
    said = text.rpartition(_THOUGHT_ENDS)[2].strip()
    fenced = _FENCED.findall(said) if "```" in said else []
    return fenced[0].strip() if len(fenced) == 1 else said


def _reasoning(completion: Completion, text: str) -> str:
    """What a model said beside its answer: what its server tells apart, or the whole of a text that holds more."""
    said = completion.reasoning or ("" if completion.text.strip() == text else completion.text)
    return said[:MOST_CHARS]


def _corrected(user: str, problem: str) -> str:
    """The question once more, with what was wrong with the last answer."""
    return f"{user}\n\nYour last answer could not be read: {problem}\nAnswer again, with the JSON object alone."


class _Tab:
    """What one question has used so far."""

    def __init__(self, name: str, price: Price) -> None:
        self._name = name
        self._price = price
        self._input_tokens = self._output_tokens = 0
        self.attempts = 0

    @property
    def cost_usd_e6(self) -> int:
        return self._price.cost_usd_e6(input_tokens=self._input_tokens, output_tokens=self._output_tokens)

    def add(self, outcome: Completion | Failure, prompt_tokens: int) -> None:
        self.attempts += 1
        if isinstance(outcome, Completion):
            self._input_tokens += outcome.input_tokens
            self._output_tokens += outcome.output_tokens
        elif outcome.is_billed:
            self._input_tokens += prompt_tokens

    def usage(self) -> Usage:
        return Usage(self._name, self._input_tokens, self._output_tokens, self.cost_usd_e6, self.attempts)


def _times(attempts: int) -> str:
    return plural(attempts, "attempt")


def _usd(amount_e6: int) -> str:
    return f"${decimal_text(amount_e6, E6, 4)}"
