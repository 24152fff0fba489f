"""A text as terms: what postings are kept of, and what a question looks for.

`BTC-PERP` is the term `btc-perp` and the words `btc` and `perp`; `agents/btc-5m/MANUAL.md` is itself, `btc-5m`,
`manual.md` and its words: a name is found whole, and by its parts. Words are stemmed; names stay as they are, in lower
case and without accents. `MaxLeverage` is also its two words.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from tapebook.recall.stem import stem

SHORTEST_ROOT = 6
"""Letters of a root that words share by more than chance."""

_BEGINNINGS = ("de", "dis", "mis", "non", "over", "pre", "re", "un", "under")

LONGEST = 100
"""Signs of a term that count: a longer one is cut, in documents and questions alike."""

TOKEN = re.compile(r"[^\W_]+(?:(?:[-_:./@#&+]+|(?<=\d),(?=\d))[^\W_]+)*")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDS = "-_:./@#&+,"
# What holds a name together, the loosest first.
_JOINTS = tuple(map(re.compile, (r"/+", r"[#@&+]+", r":+", r"[.,]+", r"[-_]+")))


def terms(text: str) -> dict[str, int]:
    """The terms of a text with how often each stands in it."""
    found: dict[str, int] = {}
    for token, times in Counter(tokens(text)).items():
        for term in terms_of(token):
            found[term] = found.get(term, 0) + times
    return found


def tokens(text: str) -> list[str]:
    """What stands between blanks and marks, as written."""
    return TOKEN.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=50_000)
def terms_of(token: str) -> tuple[str, ...]:
    """The terms of one token: each of its words, and once each name that words make in it."""
    words = [stem(bare[:LONGEST]) for word in words_of(token) if (bare := folded(word))]
    return (*words, *dict.fromkeys(_names(folded(token))))


def folded(token: str) -> str:
    """In lower case and without accents."""
    if token.isascii():
        return token.lower()
    return _bare(_bare(token).casefold())


def _bare(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text)
    return "".join(sign for sign in apart if not unicodedata.combining(sign))


def path_terms(path: str) -> tuple[str, ...]:
    """What a document is found by through its place: the words of its own name, and its path from each folder on."""
    folders = folded(path).split("/")
    tails = ["/".join(folders[at:])[:LONGEST] for at in range(len(folders))]
    name = path.rpartition("/")[2].rpartition(".")[0] or path.rpartition("/")[2]
    return tuple(dict.fromkeys([*tails, *(term for token in tokens(name) for term in terms_of(token))]))


def relatives(term: str) -> tuple[str, ...]:
    """The family of a word without itself: `connect`, `reconnect` of `disconnect`; none of a name or a short word."""
    if not term.isalpha():
        return ()
    roots = [term, *(term.removeprefix(start) for start in _BEGINNINGS if term.startswith(start))]
    long = [root for root in roots if len(root) >= SHORTEST_ROOT]
    family = dict.fromkeys(f"{start}{root}" for root in long for start in ("", *_BEGINNINGS))
    return tuple(each for each in family if each != term)


def words_of(token: str) -> Iterator[str]:
    """The words of one token as written, `MaxLeverage` whole and in two."""
    for word in _WORD.findall(token):
        yield word
        humps = _HUMP.split(word)
        if len(humps) > 1:
            yield from humps


def _names(token: str) -> Iterator[str]:
    """A token and what is left of it at each joint, as long as that has joints of its own."""
    pieces = [token] if token else []
    for joint in _JOINTS:
        yield from (piece[:LONGEST] for piece in pieces if not _WORD.fullmatch(piece))
        parts = (part.strip(_ENDS) for piece in pieces for part in joint.split(piece))
        pieces = [part for part in parts if part]
