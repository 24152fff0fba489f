"""The four settings of experience."""

import msgspec


class ExperienceSettings(msgspec.Struct, frozen=True):
    """How a deployment uses what it learned.

    enabled          off: nothing is offered to decisions; outcomes are learned all the same
    max_memory_size  of the newest outcomes, by time, how many make up the recent record
    learning_rate    how quickly to believe: weights behave as if 1 / learning_rate trades without result came first
    context_window   how many days the recent record reaches back

    Records and situations are not cut by either bound: sums cost the same at any age, and a situation that
    returns after years is found.
    """

    enabled: bool = True
    max_memory_size: int = 1_000
    learning_rate: float = 0.1
    context_window: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate <= 1:
            raise ValueError(f"learning_rate is {self.learning_rate}: it must be above 0 and at most 1")
        if self.max_memory_size < 1 or self.context_window < 1:
            raise ValueError("max_memory_size and context_window must be at least 1")

    @property
    def prior_trades(self) -> float:
        """How many trades without result stand before the first real one."""
        return 1 / self.learning_rate
