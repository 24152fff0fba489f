"""Experience: the weights of providers, their record by regime, and how situations like this one ended.

Columns are (kind, name, value); an ensemble reads a member's weight off ("provider", NAME, "1.20").
"""

from tapebook.context.quote import plain
from tapebook.context.sections import Layout
from tapebook.context.situation import Situation
from tapebook.domain.packet import Section

COLUMNS = ("kind", "name", "value")


def build(situation: Situation) -> Section | None:
    """One row per thing learned, as the room of experience ordered them."""
    rows = tuple((plain(row.kind, 20), plain(row.name, 60), plain(row.value, 120)) for row in situation.experience)
    title = "Experience (providers, record, similar situations)"
    return Section("experience", title, COLUMNS, rows) if rows else None


def line(row: tuple[str, ...]) -> str:
    """A thing learned as one line."""
    kind, name, value = row
    return f"- {kind} {name}: {value}"


LAYOUT = Layout(name="experience", cap=250, build=build, line=line, memory=True)
