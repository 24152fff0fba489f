"""A chunk as passages: about sixty words each, under the chunk's headings; what vectors are made of.

A vector of a whole page is near everything and nothing, so a chunk is as like a question as the most alike of its
passages.
"""

import re

WORDS = 60
MOST = 255
_WORD = re.compile(r"\S+")


def passages(text: str, headings: tuple[str, ...] = ()) -> list[str]:
    """The passages of a chunk as they are embedded; at least one."""
    words = text.split()
    return [" ".join([*headings, *words[low:high]]) for low, high in _cuts(len(words))]


def count(text: str) -> int:
    """How many passages a chunk has."""
    return len(_cuts(len(text.split())))


def begins(text: str, number: int) -> int:
    """Where a passage begins in the text of its chunk."""
    words = [found.start() for found in _WORD.finditer(text)]
    return words[_cuts(len(words))[number][0]] if words else 0


def _cuts(words: int) -> list[tuple[int, int]]:
    parts = min(max(1, round(words / WORDS)), MOST)
    return [(words * part // parts, words * (part + 1) // parts) for part in range(parts)]
