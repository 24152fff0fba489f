"""Rules: the agent's manual, whole, behind a fence so that its own headings are not those of the packet.

A manual that does not fit is refused when the agent is saved (`oversize`); half of the rules is
worse than none.
"""

from operator import attrgetter

from tapebook.context.sections import Layout, Rows
from tapebook.context.situation import Situation, agent_of
from tapebook.domain.text import sanitise_lines

TITLE = "Rules (your manual)"


def rows(manual: str) -> Rows:
    """One per line; a line also ends at the breaks a reader may not see."""
    return tuple([(line,) for line in sanitise_lines(manual)])


def text(rows: Rows) -> str:
    """The lines of the manual."""
    return "\n".join([f"| {line}".rstrip() for (line,) in rows])


LAYOUT: Layout[Situation, str] = Layout(
    name="rules",
    cap=600,
    title=TITLE,
    columns=("line",),
    look=attrgetter("deployment.agent.manual"),
    rows=rows,
    text=text,
    whole=agent_of,
)
