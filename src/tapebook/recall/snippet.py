"""The part of a chunk that is shown: where the words of a question stand closest together."""

import re
from collections.abc import Iterable, Iterator, Mapping

from tapebook.recall.words import TOKEN, terms_of

LONGEST = 240

_BREAK = re.compile(r"\n|(?<=[.!?;])\s")
# Headings and who wrote an entry are about what is said below them.
_ABOUT = re.compile(r"\s*(?:#|entry [0-9a-f]{20},)")
_WORD = re.compile(r"\w+")


class Snippets:
    """Shows parts of chunks to one question, of which each term has a weight."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        # A stem is mostly its words' beginning, save for its last letter: what is worth a closer look.
        beginnings = {re.escape(term[: max(2, len(term) - 1)]) for term in weights}
        self._likely = re.compile(f"(?<![^\\W_])(?:{'|'.join(sorted(beginnings))})", re.IGNORECASE)

    def of(self, text: str, *, start: int = 0) -> str:
        """At most 240 signs of a text, exactly as they stand there: those with the most weight of different terms.

        Without any, those from `start` on.
        """
        if len(text) <= LONGEST:
            return text
        best = max(self._windows(text), key=lambda window: (window[0], -window[1]), default=None)
        return _cut(text, start if best is None else best[1])

    def _windows(self, text: str) -> Iterator[tuple[float, int]]:
        """What a window that begins at each term of the question holds of it."""
        hits = self._hits(text)
        for at, (start, _, _) in enumerate(hits):
            inside: frozenset[str] = frozenset()
            for _, end, terms in hits[at:]:
                if end - start > LONGEST * 3 // 4:
                    break
                inside |= terms
            yield sum(self._weights[term] for term in sorted(inside)), start

    def _hits(self, text: str) -> list[tuple[int, int, frozenset[str]]]:
        hits = []
        for likely in self._likely.finditer(text) if self._weights else ():
            token = TOKEN.match(text, likely.start())
            if token and (terms := frozenset(self._weights.keys() & terms_of(token[0]))):
                hits.append((token.start(), token.end(), terms))
        return hits


def _cut(text: str, start: int) -> str:
    """From a little before a place, so that a sentence is not begun in its middle, to the end of a word."""
    sentence = max(text.rfind(mark, max(0, start - LONGEST // 4), start) for mark in ("\n", ". "))
    begin = start if sentence < 0 else sentence + 1
    part = text[begin : begin + LONGEST]
    blank = part.rfind(" ", LONGEST // 2) if begin + LONGEST < len(text) else -1
    return part[: blank if blank > 0 else LONGEST].strip()


class ShownTexts:
    """What a packet shows elsewhere, as words: a snippet that says nothing else need not be cited."""

    def __init__(self, texts: Iterable[str]) -> None:
        # A mark that is no word keeps a sentence from being found across two texts.
        self._words = "|".join(f" {_plain(text)} " for text in texts)

    def has(self, snippet: str) -> bool:
        """Whether every sentence of a snippet stands in one of the texts."""
        sentences = [_plain(part) for part in _BREAK.split(snippet) if not _ABOUT.match(part)]
        return any(sentences) and all(f" {each} " in self._words for each in sentences if each)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
