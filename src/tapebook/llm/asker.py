"""Asks a model until it answers or the budget is used up: so many attempts, seconds and dollars.

1. Before each attempt its dearest outcome is weighed (`_too_dear`): the prompt, and every token it may write.
   What would break the cap is not sent.
2. A failure that may pass by itself is waited for (`_pause`): as long as the server asks for, else 1, 2, 4 … seconds.
3. What was used is added up over all attempts (`_Tab`). A request that timed out counts as if its prompt was billed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tapebook.domain.money import E6, decimal_text
from tapebook.domain.run import Usage
from tapebook.llm.port import PASSING, Completion, Failure, Model, estimated_tokens
from tapebook.llm.prices import Price

SPEND_RULE = "R11_MODEL_SPEND"


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


class Asker:
    """A model, its price, and the patience to ask it again."""

    def __init__(self, model: Model, *, name: str, place: str, price: Price, budget: Budget, waiting: Waiting) -> None:
        self._model = model
        self._name = name
        self._place = place
        self._price = price
        self._budget = budget
        self._waiting = waiting

    @property
    def identity(self) -> str:
        """What a kept answer depends on, apart from the prompt and its schema."""
        return f"{self._name} at {self._place} max_tokens={self._budget.max_tokens}"

    def ask(self, system: str, user: str, *, schema: Mapping[str, Any], max_usd_e6: int) -> Asked:
        """One answer to one prompt, within the budget."""
        tab = _Tab(self._name, self._price)
        prompt_tokens = estimated_tokens(system, user, msgspec.json.encode(schema).decode())
        ends = self._waiting.elapsed_seconds() + self._budget.total_seconds
        while True:
            if problem := self._too_dear(tab, prompt_tokens, max_usd_e6):
                return Asked("", tab.usage(), problem)
            outcome = self._model.complete(
                system,
                user,
                schema=schema,
                max_tokens=self._budget.max_tokens,
                timeout_seconds=self._seconds_left(ends),
            )
            tab.add(outcome, prompt_tokens)
            if isinstance(outcome, Completion):
                return Asked(outcome.text, tab.usage(), self._complaint(outcome), outcome.reasoning)
            pause = self._pause(outcome, tab.attempts, ends)
            if pause is None:
                return Asked("", tab.usage(), f"{outcome.fault} after {_times(tab.attempts)}: {outcome.detail}")
            self._waiting.sleep(pause)

    def close(self) -> None:
        """Ends the model's connections."""
        self._model.close()

    def _seconds_left(self, ends: float) -> float:
        # Sleeping may have taken longer than it was told to; an attempt that is made gets a moment at least.
        return min(self._budget.timeout_seconds, max(0.1, ends - self._waiting.elapsed_seconds()))

    def _too_dear(self, tab: "_Tab", prompt_tokens: int, max_usd_e6: int) -> str | None:
        most = self._price.cost_usd_e6(input_tokens=prompt_tokens, output_tokens=self._budget.max_tokens)
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

    def _pause(self, failure: Failure, attempts: int, ends: float) -> float | None:
        """Seconds to the next attempt; None when there is to be none."""
        if failure.fault not in PASSING or attempts >= self._budget.attempts:
            return None
        asked_for = failure.retry_after_seconds
        pause = float(2 ** (attempts - 1)) if asked_for is None else max(0.0, asked_for)
        return pause if self._waiting.elapsed_seconds() + pause < ends else None


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
        elif outcome.fault == "timeout":
            self._input_tokens += prompt_tokens

    def usage(self) -> Usage:
        return Usage(self._name, self._input_tokens, self._output_tokens, self.cost_usd_e6, self.attempts)


def _times(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


def _usd(amount_e6: int) -> str:
    return f"${decimal_text(amount_e6, E6, 4)}"
