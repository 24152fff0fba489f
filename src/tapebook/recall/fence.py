"""Outside words in documents: what a model, a market or a stranger said stands behind a fence and cannot leave it.

A document is shown to agents in snippets, and to people as it is. So words that were not written by its author stand on
one line in quotes (`quoted`), or line by line behind `>` (`fenced`), without anything that is not seen.
"""

import re

# Control characters and what is not seen: line separators, zero widths, directions, joiners, fillers, soft hyphens,
# tags, variation selectors, and lone surrogates.
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_QUOTES = str.maketrans(dict.fromkeys('"`“”„‟«»″＂', "'"))


def has_hidden(text: str) -> bool:
    """Whether a text has characters that are not seen."""
    return _HIDDEN.search(text) is not None


def quoted(text: str, most: int = 240) -> str:
    """A text as one line in double quotes, which it cannot close."""
    line = " ".join(_HIDDEN.sub(" ", text[: 8 * most]).translate(_QUOTES).split())
    return f'"{line[:most].rstrip()}"'


def word(text: str, most: int = 60) -> str:
    """A name from outside, such as that of a token: short, and without anything that could be markup."""
    return re.sub(r"[^\w.:/@+*-]", "_", _HIDDEN.sub("_", text[:most])) or "_"


def lines(text: str) -> list[str]:
    """The lines of a text without what is not seen; tabs become blanks, blank lines at its ends go."""
    found = [_HIDDEN.sub(" ", line.replace("\t", "    ")).rstrip() for line in _BREAKS.split(text)]
    while found and not found[0]:
        found.pop(0)
    while found and not found[-1]:
        found.pop()
    return found


def fenced(text: str) -> str:
    """A text of several lines, each behind `>`."""
    return "\n".join(f"> {line}".rstrip() for line in lines(text))
