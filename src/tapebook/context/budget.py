"""Token budgets: one fixed estimator of ours, and an allocator that drops the oldest rows and says so.

The estimator counts pieces as tokenizers tend to cut them: up to six letters, up to three digits,
or one other sign; a line break is one more. It is meant to be a little high, above all to be the
same for ever: a packet's bytes depend on it.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from tapebook.domain.packet import Section

_PIECE = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]")


@lru_cache(maxsize=20_000)
def line_tokens(line: str) -> int:
    """The estimate for one line and its break; cached, since most bars of a packet were in the one before."""
    return len(_PIECE.findall(line)) + 1


def text_tokens(text: str) -> int:
    """The estimate for a text."""
    return sum(line_tokens(line) for line in text.split("\n"))


def fit(
    section: Section, *, cap: int, line: Callable[[tuple[str, ...]], str], head: int, oldest_first: bool
) -> Section:
    """The section with as many of its newest rows as fit into the cap beside `head` tokens of heading."""
    room = cap - head
    rows = section.rows[::-1] if oldest_first else section.rows
    kept = 0
    for row in rows:
        room -= line_tokens(line(row))
        if room < 0:
            break
        kept += 1
    if kept == len(rows):
        return section
    newest = rows[:kept][::-1] if oldest_first else rows[:kept]
    return Section(section.name, section.title, section.columns, newest, dropped=len(rows) - kept)
