"""Documents for tests of search: versions with bodies, indexes of them, and answers that can be compared."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from hypothesis import strategies as st

from tapebook import plug
from tapebook.domain.canonical import sha256_hex
from tapebook.search import GLOBAL_SCOPE, DocumentVersion, Index, IndexAnswer
from tapebook.search.index import IndexTerms

INDEXES = "tapebook.search.indexes"
Paper = tuple[DocumentVersion, bytes]

# Few enough to meet often, and with endings that stem to one word.
VOCABULARY = (
    *("feed", "feeds", "disconnect", "reconnection", "funding", "leverage", "stop", "stops", "margin", "the", "of"),
    *("BTC-PERP", "run_1a2b", "R6_MAX_LEVERAGE", "xyz:TSLA", "5m", "65,432.10", "journal/2026-01-02.md", "Zürich"),
    *("breakout", "because", "volatility", "MaxLeverage", "what", "is", "流动性"),
)
IDENTIFIERS = st.from_regex(r"[A-Za-z0-9]{1,6}([-_:./][A-Za-z0-9]{1,6}){1,3}", fullmatch=True)
WORDS = st.sampled_from(VOCABULARY)
QUESTIONS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


def paper(seq: int, path: str, text: str | None, *, scope: str = GLOBAL_SCOPE, kind: str = "note") -> Paper:
    """A version with its body; without a text, the document is gone."""
    body = b"" if text is None else text.encode()
    return DocumentVersion(seq, scope, path, kind, "" if text is None else sha256_hex(body), seq), body


@st.composite
def texts(draw: st.DrawFn, words: st.SearchStrategy[str] = WORDS) -> str:
    """A document of a few sections."""
    sections = draw(st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=4))
    return "\n\n".join(f"## {said[0]}\n\n{' '.join(said)}" for said in sections)


@st.composite
def histories(draw: st.DrawFn, scopes: Sequence[str] = (GLOBAL_SCOPE, "one", "two"), most: int = 8) -> list[Paper]:
    """Versions of some documents in some scopes, some of them removed; sequences have gaps."""
    made: list[Paper] = []
    seq = 0
    for _ in range(draw(st.integers(1, most))):
        seq += draw(st.integers(1, 3))
        path = draw(st.sampled_from(("a.md", "notes/b.md", "JOURNAL.md")))
        text = draw(st.none() | texts()) if made else draw(texts())
        kind = draw(st.sampled_from(("note", "journal")))
        made.append(paper(seq, path, text, scope=draw(st.sampled_from(scopes)), kind=kind))
    return made


@contextmanager
def indexed(slot: str, papers: Iterable[Paper] = (), *, path: str = ":memory:", **terms: Any) -> Iterator[Index]:
    """An index with some versions in it."""
    index: Index = plug.load(INDEXES, slot).create(IndexTerms(path, **terms))
    with closing(index):
        index.index(list(papers))
        yield index


def asked(
    index: Index, question: str, *, scopes: Collection[str] = (GLOBAL_SCOPE,), seq: int | None = None, limit: int = 100
) -> IndexAnswer:
    """An answer as of a sequence, or of now."""
    return index.search(question, scopes=scopes, seq=index.head() if seq is None else seq, limit=limit)


def as_bytes(answer: IndexAnswer) -> bytes:
    """All of an answer, to be compared byte for byte."""
    return msgspec.json.encode(answer)


def paths(answer: IndexAnswer) -> list[str]:
    """The documents of an answer, best first."""
    return [citation.path for citation in answer.citations]
