"""Citations: places in rules, notes and past runs that speak to this situation; an action names them in `cites`."""

from operator import attrgetter

from tapebook.context.quote import Words, plain
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.situation import Situation
from tapebook.domain.citation import Citation
from tapebook.domain.money import decimal_text

COLUMNS = ("id", "place", "score", "source", "snippet")
MOST_WORDS = 240


def rows(found: tuple[Citation, ...], words: Words = plain) -> Rows:
    """One per citation, as recall ordered them."""
    return tuple([_row(citation, words) for citation in found])


def _row(citation: Citation, words: Words) -> Row:
    return (
        words(citation.id, 12),
        f"{words(citation.path, 90)}:{citation.start_line}-{citation.end_line}",
        decimal_text(citation.score_e4, 10_000, 2),
        words(citation.source, 20),
        words(citation.snippet, MOST_WORDS),
    )


def text(rows: Rows) -> str:
    """A line per citation."""
    lines = [f'- [{name}] "{place}" ({source}, {score}): "{snippet}"' for name, place, score, source, snippet in rows]
    return "\n".join(lines)


LAYOUT: Layout[Situation, tuple[Citation, ...]] = Layout(
    name="citations",
    cap=400,
    title="Citations",
    columns=COLUMNS,
    look=attrgetter("citations"),
    rows=rows,
    text=text,
    memory=True,
)
