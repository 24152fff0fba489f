"""A question as terms to look for: without the words every sentence has, unless it has no others.

Names are the tokens of a question that look like identifiers, `run_1a2b` or `BTC-PERP`: a chunk that has one stands
above all that have none. Only the first words of a very long question count.
"""

import re

import msgspec

from tapebook.recall.words import LONGEST, folded, terms_of, tokens, words_of

MOST_TERMS = 256
MOST_SIGNS = 20_000

_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
    a about am an and any are as at be been but by can could did do does doing for from had has have having he her
    here him his how i if in into is it its just let may me might my no nor not of off on or our out please shall she
    should so some such tell than that the their them then there these they this those to up us was we were what when
    where which while who whom whose why will with would you your s t d m ll re ve
    """,
    )
)
# Plain prose joins words too, `year-over-year`: these are no names.
_PROSE = re.compile(r"[a-z]+(?:-[a-z]+)*")


class Plan(msgspec.Struct, frozen=True):
    """What to look for, in the order of the question; `words` are those it is made of, as written."""

    terms: tuple[str, ...]
    names: tuple[str, ...]
    words: tuple[str, ...] = ()


def plan(question: str) -> Plan:
    """The terms and names of a question; any text will do."""
    said = tokens(question[:MOST_SIGNS])
    telling = [token for token in said if not _is_common(token)] or said
    terms = dict.fromkeys(term for token in telling for term in terms_of(token))
    names = dict.fromkeys(folded(token)[:LONGEST] for token in telling if _is_name(token, alone=len(telling) == 1))
    kept = tuple(terms)[:MOST_TERMS]
    words = dict.fromkeys(word for token in telling[:MOST_TERMS] for word in words_of(token))
    return Plan(kept, tuple(name for name in names if name in kept), tuple(words))


def _is_common(token: str) -> bool:
    # "US" and "IT" are not "us" and "it".
    return token.lower() in _COMMON and not (token.isupper() and len(token) > 1)


def _is_name(token: str, *, alone: bool) -> bool:
    """Whether a token of several words is an identifier; one that stands alone is meant as one."""
    return not token.isalnum() and (alone or not _PROSE.fullmatch(token))
