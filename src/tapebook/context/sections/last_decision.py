"""Last decision: what was proposed at the tick before this one, and what the guard said.

Only what was written at the decision itself is shown: a run's later status would differ between
the first rendering and a replay.
"""

from tapebook.context.quote import plain
from tapebook.context.sections import FACTS, Layout, Rows, fact_text
from tapebook.context.situation import Situation
from tapebook.domain.instants import minute_text
from tapebook.domain.memo import Memo
from tapebook.domain.run import Action, DecisionRun, Verdict

MOST_WORDS = 120

Seen = tuple[DecisionRun | None, tuple[str, ...]]


def look(situation: Situation) -> Seen:
    """The newest run on this symbol, and the symbols the agent was given."""
    return situation.last_run, situation.deployment.agent.watchlist


def rows(seen: Seen) -> Rows:
    """When it was, and one row per action."""
    run, watched = seen
    if run is None:
        return ()
    at, told = ("at", minute_text(run.as_of)), _told((run.actions, run.verdicts, watched))
    if run.error:
        return at, *told, ("not understood", f'"{plain(run.error, MOST_WORDS)}"')
    return at, *told


def _tell(decided: tuple[tuple[Action, ...], tuple[Verdict, ...], tuple[str, ...]]) -> Rows:
    actions, verdicts, watched = decided
    return tuple([_row(action, verdict, watched) for action, verdict in zip(actions, verdicts, strict=True)])


# Most ticks decide what the tick before decided.
_told = Memo(_tell)


def _row(action: Action, verdict: Verdict, watched: tuple[str, ...]) -> tuple[str, str]:
    # A model can name any symbol it likes; only those it was given are repeated outside quotes.
    symbol = action.symbol if action.symbol in watched else "another symbol"
    what = f"{action.action} {symbol}" + (f" {action.side}" if action.side else "")
    outcome = "allowed" if verdict.allowed else f'refused by {verdict.rule}: "{plain(verdict.detail, MOST_WORDS)}"'
    return what, f'{outcome}; reason: "{plain(action.reason, MOST_WORDS)}"'


LAYOUT = Layout(
    name="last_decision",
    cap=100,
    title="Last decision",
    columns=FACTS,
    look=look,
    rows=rows,
    text=fact_text,
    memory=True,
)
