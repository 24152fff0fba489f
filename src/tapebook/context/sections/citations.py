"""Citations: places in rules, notes and past runs that speak to this situation; an action names them in `cites`."""

from tapebook.context.quote import plain
from tapebook.context.sections import Layout
from tapebook.context.situation import Situation
from tapebook.domain.citation import Citation
from tapebook.domain.money import decimal_text
from tapebook.domain.packet import Section

COLUMNS = ("id", "place", "score", "source", "snippet")
MOST_WORDS = 240


def build(situation: Situation) -> Section | None:
    """One row per citation, as recall ordered them."""
    rows = tuple(_row(citation) for citation in situation.citations)
    return Section("citations", "Citations", COLUMNS, rows) if rows else None


def _row(citation: Citation) -> tuple[str, ...]:
    return (
        plain(citation.id, 12),
        f"{plain(citation.path, 90)}:{citation.start_line}-{citation.end_line}",
        decimal_text(citation.score_e4, 10_000, 2),
        plain(citation.source, 20),
        plain(citation.snippet, MOST_WORDS),
    )


def line(row: tuple[str, ...]) -> str:
    """A citation as one line."""
    name, place, score, source, snippet = row
    return f'- [{name}] "{place}" ({source}, {score}): "{snippet}"'


LAYOUT = Layout(name="citations", cap=400, build=build, line=line, memory=True)
