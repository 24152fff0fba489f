"""Rules: the agent's manual, whole, behind a fence so that its own headings are not those of the packet.

A manual that does not fit is refused when the agent is saved (`oversize`); half of the rules is
worse than none.
"""

from functools import lru_cache

from tapebook.context.quote import visible
from tapebook.context.sections import Layout
from tapebook.context.situation import Situation
from tapebook.domain.packet import Section

TITLE = "Rules (your manual)"


def build(situation: Situation) -> Section | None:
    """One row per line."""
    return section_of(situation.deployment.agent.manual)


@lru_cache(maxsize=4_096)
def section_of(manual: str) -> Section | None:
    """The section of a manual; `splitlines` also cuts at the breaks a reader may not see."""
    rows = tuple((visible(line).rstrip(),) for line in manual.strip().splitlines())
    return Section("rules", TITLE, ("line",), rows) if rows else None


def line(row: tuple[str, ...]) -> str:
    """A line of the manual."""
    return f"| {row[0]}".rstrip()


LAYOUT = Layout(name="rules", cap=600, build=build, line=line, whole=True)
