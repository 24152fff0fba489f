"""One call at a time in a thread of its own, for what may take long and nobody must wait for.

A loop that listens or trades asks an archive elsewhere in this way: a server that does not answer holds up the thread,
and the loop hears of it when the call has ended.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class BackgroundCall(Generic[Result]):
    """A call that runs, or has ended and waits for its result to be taken."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._result: Result | None = None
        self._error: Exception | None = None

    def start(self, call: Callable[[], Result]) -> None:
        """Begins a call; the result of the one before must have been taken."""
        assert self._thread is None, "one call at a time"
        self._result, self._error = None, None
        # A daemon: a process that is to end does not wait for a server that does not answer.
        self._thread = threading.Thread(target=self._run, args=(call,), name=self._name, daemon=True)
        self._thread.start()

    @property
    def is_pending(self) -> bool:
        """Whether a call was begun whose result was not taken yet."""
        return self._thread is not None

    @property
    def has_ended(self) -> bool:
        """Whether the result of a call can be taken."""
        return self._thread is not None and not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Waits for the call to end; whether it has."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self.has_ended

    def take_result(self) -> Result:
        """What the call returned; raises what it raised."""
        assert self.has_ended, "the call is still under way"
        self._thread = None
        if self._error is not None:
            raise self._error
        # Set by the call, which ended without an error.
        return self._result  # type: ignore[return-value]

    def _run(self, call: Callable[[], Result]) -> None:
        try:
            self._result = call()
        except Exception as error:
            # Raised again by `take_result`, in the thread of whoever began the call.
            self._error = error
