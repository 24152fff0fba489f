"""Asks a model until it answers or the budget is used up: so many attempts, seconds and dollars.

1. Before each attempt its dearest outcome is weighed (`_over_cap`): the prompt, and every token it may write.
   What would break the cap is not sent.
2. A failure that may pass by itself is waited for (`_retry_pause`): as long as the server asks for, else 1, 2, 4 …
   seconds.
3. A text that the caller cannot read (`problem_in`) is asked for again, with what is wrong with it
   (`_question_with_problem`).
4. What was used is added up over all attempts (`_UsageTally`). A request that timed out, or whose answer was none,
   counts as if its prompt was billed.

A backtest has a `SpendLedger`: a question that it knows is not asked, and one that it cannot afford stops it.

List prices are in millionths of a dollar for a million tokens, so that they are integers; a cost is rounded up.
Long prompts, caches and batches have prices of their own, which a packet never reaches.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from tapebook.domain.canonical import canonical_json, sha256_hex
from tapebook.domain.run import Usage
from tapebook.domain.text import plural
from tapebook.domain.units import E6, decimal_text
from tapebook.llm.port import TRANSIENT_FAULTS, Completion, Failure, Model, estimate_tokens

# Prices are quoted for a million tokens.
MILLION = 10**6
# A dated name (`…-2026-08-07`) is a pinned version of the model without it, at the same price.
_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}\Z")


class Price(msgspec.Struct, frozen=True):
    """Millionths of a dollar for a million tokens."""

    input_e6: int
    output_e6: int

    def cost_usd_e6(self, *, input_tokens: int, output_tokens: int) -> int:
        """What so many tokens cost, rounded up."""
        # Up, so that no number of small calls passes a cap unseen.
        return -(-(input_tokens * self.input_e6 + output_tokens * self.output_e6) // MILLION)


def usd_per_million(input_usd: float, output_usd: float) -> Price:
    """A price given in dollars for a million tokens, as price lists write it."""
    return Price(round(input_usd * MILLION), round(output_usd * MILLION))


# The providers' lists of October 2026, in dollars.
MODEL_PRICES = {
    "claude-fable-5-1": usd_per_million(10, 50),
    "claude-haiku-4-5": usd_per_million(1, 5),
    "claude-haiku-5-5": usd_per_million(0.10, 0.50),
    "claude-opus-4-6": usd_per_million(5, 25),
    "claude-opus-4-7": usd_per_million(5, 25),
    "claude-opus-4-8": usd_per_million(5, 25),
    "claude-opus-5": usd_per_million(5, 25),
    "claude-opus-5-5": usd_per_million(4, 20),
    "claude-sonnet-4-6": usd_per_million(3, 15),
    "claude-sonnet-5": usd_per_million(2, 10),
    "claude-sonnet-5-5": usd_per_million(2, 10),
    "gpt-5.4": usd_per_million(2.50, 15),
    "gpt-5.4-mini": usd_per_million(0.75, 4.50),
    "gpt-5.5": usd_per_million(5, 30),
    "gpt-5.6-luna": usd_per_million(0.20, 1.20),
    "gpt-5.6-sol": usd_per_million(4, 20),
    "gpt-5.6-terra": usd_per_million(2, 12),
    "gpt-6-astra": usd_per_million(10, 50),
    "gpt-6-luna": usd_per_million(0.10, 0.50),
    "gpt-6-sol": usd_per_million(2, 10),
}


def price_of(model: str, *, unknown: Price) -> Price:
    """The price of a model."""
    # A date at the end of its name and a vendor before it make no difference.
    return MODEL_PRICES.get(_DATE.sub("", model.rpartition("/")[2]), unknown)


SPEND_RULE = "R11_MODEL_SPEND"
MAX_ANSWER_CHARS = 100_000
"""Characters of a text that are kept; no answer that can be read is as long."""

_THOUGHT_ENDS = "</think>"
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)


class Budget(msgspec.Struct, frozen=True):
    """How often and how long a model is asked, and how much it may write."""

    attempts: int = 3
    # A decision of a five-minute agent must come within its slot, retries included.
    timeout_seconds: float = 60.0
    total_seconds: float = 150.0
    max_tokens: int = 8_000


class WaitClock(msgspec.Struct, frozen=True):
    """Monotonic seconds and sleep, as arguments, so that tests wait for nothing."""

    elapsed_seconds: Callable[[], float]
    sleep: Callable[[float], None]


class ModelResponse(msgspec.Struct, frozen=True):
    """The answer of a model and its usage; with a problem, as much of the text as there was."""

    text: str
    usage: Usage
    problem: str | None = None
    reasoning: str = ""


class SpendLedger(Protocol):
    """Questions that were asked before, what they cost, and what may still be spent."""

    def find_response(self, question: str) -> ModelResponse | None:
        """The answer that a question, named by its hash, got before; None when it has to be asked."""
        ...

    def reserve_usd(self, usd_e6: int) -> None:
        """Makes sure that a question may cost so much; SpendLimit when it may not."""
        ...

    def record_response(self, question: str, asked: ModelResponse) -> None:
        """Writes down what came of a question before anything is made of it."""
        ...


class NoSpendLedger:
    """Remembers nothing and limits nothing: live, the book does both."""

    def find_response(self, question: str) -> None:
        """No answer."""

    def reserve_usd(self, usd_e6: int) -> None:
        """Any amount."""

    def record_response(self, question: str, asked: ModelResponse) -> None:
        """Nothing."""


FindProblem = Callable[[str], str | None]
"""What is wrong with a text, in one line; None when it can be read."""


def _no_problem(_text: str) -> None:
    return None


class Asker:
    """Asks one model within a budget, and knows its price."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        place: str,
        price: Price,
        budget: Budget,
        waiting: WaitClock,
        ledger: SpendLedger | None = None,
    ) -> None:
        self._model = model
        self._ledger: SpendLedger = ledger or NoSpendLedger()
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
        self,
        system: str,
        user: str,
        *,
        schema: Mapping[str, Any],
        max_usd_e6: int,
        problem_in: FindProblem = _no_problem,
    ) -> ModelResponse:
        """One answer to one prompt, within the budget; of answers that cannot be read, the last."""
        question = sha256_hex(canonical_json([self.identity, system, user, msgspec.json.encode(schema).decode()]))
        # The key holds the model, its limits, the prompt and the schema: whatever can change an answer.
        known = self._ledger.find_response(question)
        if known is not None:
            return known
        self._ledger.reserve_usd(self.most_usd_e6(_prompt_tokens(system, user, schema), cap_usd_e6=max_usd_e6))
        asked = self._ask(system, user, schema=schema, max_usd_e6=max_usd_e6, problem_in=problem_in)
        # On record before anything is made of it: a killed backtest does not pay twice.
        self._ledger.record_response(question, asked)
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
        self, system: str, user: str, *, schema: Mapping[str, Any], max_usd_e6: int, problem_in: FindProblem
    ) -> ModelResponse:
        tab = _UsageTally(self._name, self._price)
        ends = self._waiting.elapsed_seconds() + self._budget.total_seconds
        question, unread = user, ""
        while True:
            prompt_tokens = _prompt_tokens(system, question, schema)
            if problem := self._over_cap(tab, prompt_tokens, max_usd_e6):
                # What was read but not understood is refused by whoever asked, with a better reason.
                return ModelResponse(unread, tab.usage(), None if unread else problem)
            outcome = self._model.complete(
                system,
                question,
                schema=schema,
                max_tokens=self._budget.max_tokens,
                timeout_seconds=self._seconds_left(ends),
            )
            tab.add(outcome, prompt_tokens)
            if isinstance(outcome, Completion):
                text, complaint = extract_json(outcome.text)[:MAX_ANSWER_CHARS], self._stop_problem(outcome)
                wrong = None if complaint else problem_in(text)
                if wrong is None or not self._may_ask_again(tab.attempts, ends):
                    return ModelResponse(text, tab.usage(), complaint, _reasoning(outcome, text))
                # The last text is kept: should the next attempt fail, the caller says better than we what is wrong
                # with it.
                question, unread = _question_with_problem(user, wrong), text
                continue
            pause = self._retry_pause(outcome, tab.attempts, ends)
            if pause is None:
                failed = f"{outcome.fault} after {_attempts_text(tab.attempts)}: {outcome.detail}"
                return ModelResponse(unread, tab.usage(), None if unread else failed)
            self._waiting.sleep(pause)

    def _seconds_left(self, ends: float) -> float:
        # Sleeping may have taken longer than it was told to; an attempt that is made gets a moment at least.
        return min(self._budget.timeout_seconds, max(0.1, ends - self._waiting.elapsed_seconds()))

    def _over_cap(self, tab: "_UsageTally", prompt_tokens: int, max_usd_e6: int) -> str | None:
        most = self.attempt_usd_e6(prompt_tokens)
        if tab.cost_usd_e6 + most <= max_usd_e6:
            return None
        spent = f", {_usd(tab.cost_usd_e6)} is spent" if tab.attempts else ""
        return f"{SPEND_RULE}: asking {self._name} could cost {_usd(most)}{spent}, the run's cap is {_usd(max_usd_e6)}"

    def _stop_problem(self, completion: Completion) -> str | None:
        if completion.stop == "refused":
            return f"refused: {self._name} would not answer"
        if completion.stop == "truncated":
            return f"truncated: the answer of {self._name} was cut off at {self._budget.max_tokens} tokens"
        return None

    def _may_ask_again(self, attempts: int, ends: float) -> bool:
        return attempts < self._budget.attempts and self._waiting.elapsed_seconds() < ends

    def _retry_pause(self, failure: Failure, attempts: int, ends: float) -> float | None:
        """Seconds to the next attempt; None when there is to be none."""
        if failure.fault not in TRANSIENT_FAULTS or attempts >= self._budget.attempts:
            return None
        asked_for = failure.retry_after_seconds
        # The server knows best when it can be asked again; else every attempt waits twice as long as the one before.
        pause = float(2 ** (attempts - 1)) if asked_for is None else max(0.0, asked_for)
        return pause if self._waiting.elapsed_seconds() + pause < ends else None


def _prompt_tokens(system: str, user: str, schema: Mapping[str, Any]) -> int:
    return estimate_tokens(system, user, msgspec.json.encode(schema).decode())


def extract_json(text: str) -> str:
    """The JSON in what a model wrote: without what it thought before, and without a fence around it.

    A text with anything else around its JSON stays as it is, and whoever reads it says so.
    """
    # Open models print their thoughts in front of the answer; what they draft there is no answer.
    answer = text.rpartition(_THOUGHT_ENDS)[2].strip()
    fenced = _FENCED.findall(answer) if "```" in answer else []
    return fenced[0].strip() if len(fenced) == 1 else answer


def _reasoning(completion: Completion, text: str) -> str:
    """The reasoning beside an answer: the server's own field, or the whole text when it holds more than the answer."""
    reasoning = completion.reasoning or ("" if completion.text.strip() == text else completion.text)
    return reasoning[:MAX_ANSWER_CHARS]


def _question_with_problem(user: str, problem: str) -> str:
    """The question once more, with what was wrong with the last answer."""
    return f"{user}\n\nYour last answer could not be read: {problem}\nAnswer again, with the JSON object alone."


class _UsageTally:
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
        # Nobody says what a lost answer cost; its prompt at least was read.
        elif outcome.is_billed:
            self._input_tokens += prompt_tokens

    def usage(self) -> Usage:
        return Usage(self._name, self._input_tokens, self._output_tokens, self.cost_usd_e6, self.attempts)


def _attempts_text(attempts: int) -> str:
    return plural(attempts, "attempt")


def _usd(amount_e6: int) -> str:
    return f"${decimal_text(amount_e6, E6, 4)}"
