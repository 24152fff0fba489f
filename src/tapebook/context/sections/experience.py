"""Experience: the weights of providers, their record by regime, and how situations like this one ended.

Columns are (kind, name, value); an ensemble reads a member's weight off ("provider", NAME, "1.20").
"""

from operator import attrgetter

from tapebook.context.quote import Words, plain
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.situation import Situation
from tapebook.domain.memory import ExperienceRow

COLUMNS = ("kind", "name", "value")


def rows(learned: tuple[ExperienceRow, ...]) -> Rows:
    """One per thing learned, as the room of experience ordered them."""
    return tuple(map(row, learned))


def row(learned: ExperienceRow, words: Words = plain) -> Row:
    """A thing learned."""
    return words(learned.kind, 20), words(learned.name, 60), words(learned.value, 120)


def text(rows: Rows) -> str:
    """A line per thing learned."""
    return "\n".join([f"- {kind} {name}: {value}" for kind, name, value in rows])


LAYOUT: Layout[Situation, tuple[ExperienceRow, ...]] = Layout(
    name="experience",
    cap=250,
    title="Experience (providers, record, similar situations)",
    columns=COLUMNS,
    look=attrgetter("experience"),
    rows=rows,
    text=text,
    row=row,
    memory=True,
)
