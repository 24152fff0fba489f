"""Words of one family as one word: `disconnected`, `disconnects` and `disconnection` are `disconnect`.

Porter's rules of 1980 for English, in his order. A word that is not of plain lower-case letters stays as it is.
"""

import re
from functools import lru_cache
from string import ascii_lowercase

# A vowel, a consonant, or y, which is the one or the other by what stands before it.
_KINDS = {ord(letter): "v" if letter in "aeiou" else "y" if letter == "y" else "c" for letter in ascii_lowercase}
_PLAIN = re.compile(r"[a-z]{3,}")

_SECOND = (
    *(("ational", "ate"), ("ization", "ize"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    *(("tional", "tion"), ("biliti", "ble"), ("entli", "ent"), ("ousli", "ous"), ("ation", "ate")),
    *(("alism", "al"), ("aliti", "al"), ("iviti", "ive"), ("enci", "ence"), ("anci", "ance")),
    *(("izer", "ize"), ("abli", "able"), ("alli", "al"), ("ator", "ate"), ("eli", "e")),
)
_THIRD = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic")),
    *(("ness", ""), ("ful", "")),
)
_FOURTH = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize"),
    *("ion", "al", "er", "ic", "ou"),
)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if not _PLAIN.fullmatch(word):
        return word
    word = _participle(_plural(word))
    if word.endswith("y") and "v" in _sounds(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(_replaced(word, _SECOND), _THIRD)
    return _last_e(_dropped(word))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _participle(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    ending = next((each for each in ("ed", "ing") if word.endswith(each)), "")
    rest = word[: len(word) - len(ending)]
    if not ending or "v" not in _sounds(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and rest[-1] not in "aeioulsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest


def _replaced(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, other in endings:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            return rest + other if _measure(rest) else word
    return word


def _dropped(word: str) -> str:
    ending = next((each for each in _FOURTH if word.endswith(each)), "")
    rest = word[: len(word) - len(ending)]
    if not ending or _measure(rest) < 2 or (ending == "ion" and not rest.endswith(("s", "t"))):
        return word
    return rest


def _last_e(word: str) -> str:
    if word.endswith("e"):
        beats = _measure(word[:-1])
        if beats > 1 or (beats == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _measure(rest: str) -> int:
    """How often vowels are followed by a consonant."""
    return _sounds(rest).count("vc")


def _ends_short(rest: str) -> bool:
    """Whether it ends with a consonant, a vowel, and a consonant that is not w, x or y."""
    return _sounds(rest).endswith("cvc") and rest[-1] not in "wxy"


def _sounds(word: str) -> str:
    """Vowels and consonants: y is a vowel behind a consonant, and a consonant elsewhere."""
    sounds = word.translate(_KINDS)
    while (at := sounds.find("y")) >= 0:
        sounds = f"{sounds[:at]}{'v' if sounds[at - 1 : at] == 'c' else 'c'}{sounds[at + 1 :]}"
    return sounds
