"""Troubles: times in which decisions or reflections did not work, from the first that failed to the first that did.

A trouble can be longer than what was read of the log at once, so it is a value that is carried on: each
run makes a new one (`after_run`), and when nothing is troubled any more it has ended.
"""

import msgspec

from tapebook.domain.run import DecisionRun

MOST_SAID = 12
"""How many of its failures a trouble tells; the rest are counted."""


class Trouble(msgspec.Struct, frozen=True):
    """What went wrong since when: what is still troubled, what ever was, how often, and what was said.

    `ended_at` is 0 while something is troubled.
    """

    began_at: int
    troubled: tuple[str, ...]
    touched: tuple[str, ...]
    counts: dict[str, int]
    said: tuple[str, ...]
    missing: tuple[str, ...] = ()
    ended_at: int = 0


def state_of(run: DecisionRun) -> str:
    """What is wrong with a run, in a word; empty when nothing is."""
    if run.status in ("failed", "expired"):
        return run.status
    return "degraded" if run.degraded else ""


def after_run(trouble: Trouble | None, run: DecisionRun, words: str) -> Trouble | None:
    """The trouble of a deployment after one more run; `words` say what is wrong with it, if anything is."""
    state = state_of(run)
    if state:
        return grown(trouble, run.symbol, at=run.as_of, state=state, words=words, missing=run.degraded)
    return None if trouble is None else _eased(trouble, run.symbol, at=run.as_of)


def grown(
    trouble: Trouble | None, subject: str, *, at: int, state: str, words: str, missing: tuple[str, ...] = ()
) -> Trouble:
    """The trouble with one more failure."""
    before = trouble or Trouble(at, (), (), {}, ())
    return msgspec.structs.replace(
        before,
        troubled=_with(before.troubled, subject),
        touched=_with(before.touched, subject),
        counts=before.counts | {state: before.counts.get(state, 0) + 1},
        said=(*before.said, words)[:MOST_SAID],
        missing=tuple(sorted({*before.missing, *missing})),
    )


def _eased(trouble: Trouble, subject: str, *, at: int) -> Trouble:
    left = tuple(name for name in trouble.troubled if name != subject)
    return msgspec.structs.replace(trouble, troubled=left, ended_at=0 if left else at)


def ended(trouble: Trouble, *, at: int) -> Trouble:
    """The trouble, over."""
    return msgspec.structs.replace(trouble, troubled=(), ended_at=at)


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)
