"""Last decision: what was proposed at the tick before this one, and what the guard said.

Only what was written at the decision itself is shown: a run's later status would differ between
the first rendering and a replay.
"""

from tapebook.context.quote import plain
from tapebook.context.sections import Layout, fact_line
from tapebook.context.situation import Situation
from tapebook.domain.instants import minute_text
from tapebook.domain.packet import Section
from tapebook.domain.run import Action, Verdict

MOST_WORDS = 120


def build(situation: Situation) -> Section | None:
    """One row per action of the newest run on this symbol."""
    run = situation.last_run
    if run is None:
        return None
    watched = situation.deployment.agent.watchlist
    rows = [("at", minute_text(run.as_of))]
    rows += [_row(action, verdict, watched) for action, verdict in zip(run.actions, run.verdicts, strict=True)]
    if run.error:
        rows.append(("not understood", f'"{plain(run.error, MOST_WORDS)}"'))
    return Section("last_decision", "Last decision", ("name", "value"), tuple(rows))


def _row(action: Action, verdict: Verdict, watched: tuple[str, ...]) -> tuple[str, str]:
    # A model can name any symbol it likes; only those it was given are repeated outside quotes.
    symbol = action.symbol if action.symbol in watched else "another symbol"
    what = f"{action.action} {symbol}" + (f" {action.side}" if action.side else "")
    outcome = "allowed" if verdict.allowed else f'refused by {verdict.rule}: "{plain(verdict.detail, MOST_WORDS)}"'
    return what, f'{outcome}; reason: "{plain(action.reason, MOST_WORDS)}"'


LAYOUT = Layout(name="last_decision", cap=100, build=build, line=fact_line, memory=True)
