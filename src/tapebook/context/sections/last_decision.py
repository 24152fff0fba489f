"""Last decision: what was proposed at the tick before this one, and what the guard said.

Only what was written at the decision itself is shown: a run's later status would differ between
the first rendering and a replay.
"""

from tapebook.context.sections import Layout, fact_line
from tapebook.context.situation import Situation
from tapebook.domain.instants import minute_text
from tapebook.domain.packet import Section
from tapebook.domain.run import Action, Verdict


def build(situation: Situation) -> Section | None:
    """One row per action of the newest run on this symbol."""
    run = situation.last_run
    if run is None:
        return None
    rows = [("at", minute_text(run.as_of))]
    rows += [_row(action, verdict) for action, verdict in zip(run.actions, run.verdicts, strict=True)]
    if run.error:
        rows.append(("not understood", run.error[:120]))
    return Section("last_decision", "Last decision", ("name", "value"), tuple(rows))


def _row(action: Action, verdict: Verdict) -> tuple[str, str]:
    what = f"{action.action} {action.symbol}" + (f" {action.side}" if action.side else "")
    outcome = "allowed" if verdict.allowed else f"refused by {verdict.rule}: {verdict.detail}"
    return what, f'{outcome}; "{action.reason[:120]}"'


LAYOUT = Layout(cap=100, build=build, line=fact_line)
