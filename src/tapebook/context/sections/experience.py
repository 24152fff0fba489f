"""Experience: the weights of providers, their record by regime, and how situations like this one ended.

Columns are (kind, name, value); an ensemble reads a member's weight off ("provider", NAME, "1.20").
"""

from functools import lru_cache

from tapebook.context.quote import plain
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.situation import Situation
from tapebook.domain.memory import ExperienceRow

COLUMNS = ("kind", "name", "value")


def look(situation: Situation) -> tuple[ExperienceRow, ...]:
    """What experience tells."""
    return situation.experience


def rows(learned: tuple[ExperienceRow, ...]) -> Rows:
    """One per thing learned, as the room of experience ordered them."""
    return tuple([_row(each) for each in learned])


@lru_cache(maxsize=4_096)
def _row(row: ExperienceRow) -> Row:
    """Cached, since most of it changes only when a trade has ended."""
    return plain(row.kind, 20), plain(row.name, 60), plain(row.value, 120)


def line(row: Row) -> str:
    """A thing learned as one line."""
    kind, name, value = row
    return f"- {kind} {name}: {value}"


LAYOUT = Layout(
    name="experience",
    cap=250,
    title="Experience (providers, record, similar situations)",
    columns=COLUMNS,
    look=look,
    rows=rows,
    line=line,
    memory=True,
)
