"""Turns texts into terms, passages and snippets.

Terms: `BTC-PERP` is the term `btc-perp` and the words `btc` and `perp`: a name is found whole and by its parts.
Words are stemmed by Porter's rules of 1980 for English; names stay as they are, in lower case and without accents.
Query terms: a question without its stop words, unless it has no others. Names are tokens that look like identifiers
(`run_1a2b`): a chunk that has one ranks above all that have none.
Scripts that put no blanks between words (Chinese, Japanese, Thai and their neighbours) are found, since rules 3, by
every two letters that stand side by side; a letter that stands alone in a question is looked for by itself.
Passages: about sixty words each, what vectors are made of. A vector of a whole page is near everything and
nothing, so a chunk is as similar to a question as its most similar passage.
Snippets: the part of a chunk where the words of a question stand closest together. Nothing here imports numpy.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase

import msgspec

# A vowel, a consonant, or y, which is the one or the other by what stands before it.
_LETTER_KINDS = {ord(letter): "v" if letter in "aeiou" else "y" if letter == "y" else "c" for letter in ascii_lowercase}
_PLAIN_WORD = re.compile(r"[a-z]{3,}")

_SECOND_STEP = (
    *(("ational", "ate"), ("ization", "ize"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    *(("tional", "tion"), ("biliti", "ble"), ("entli", "ent"), ("ousli", "ous"), ("ation", "ate")),
    *(("alism", "al"), ("aliti", "al"), ("iviti", "ive"), ("enci", "ence"), ("anci", "ance")),
    *(("izer", "ize"), ("abli", "able"), ("alli", "al"), ("ator", "ate"), ("eli", "e")),
)
_THIRD_STEP = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic")),
    *(("ness", ""), ("ful", "")),
)
_FOURTH_STEP = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize"),
    *("ion", "al", "er", "ic", "ou"),
)


def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if not _PLAIN_WORD.fullmatch(word):
        return word
    word = _without_participle(_without_plural(word))
    if word.endswith("y") and "v" in _sounds(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_ending(_replace_ending(word, _SECOND_STEP), _THIRD_STEP)
    return _drop_last_e(_drop_ending(word))


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_participle(word: str) -> str:
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


def _replace_ending(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, other in endings:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            return rest + other if _measure(rest) else word
    return word


def _drop_ending(word: str) -> str:
    ending = next((each for each in _FOURTH_STEP if word.endswith(each)), "")
    rest = word[: len(word) - len(ending)]
    if not ending or _measure(rest) < 2 or (ending == "ion" and not rest.endswith(("s", "t"))):
        return word
    return rest


def _drop_last_e(word: str) -> str:
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
    sounds = word.translate(_LETTER_KINDS)
    while (at := sounds.find("y")) >= 0:
        sounds = f"{sounds[:at]}{'v' if sounds[at - 1 : at] == 'c' else 'c'}{sounds[at + 1 :]}"
    return sounds


MIN_ROOT_LETTERS = 6
"""Letters of a root that words share by more than chance."""

_PREFIXES = ("de", "dis", "mis", "non", "over", "pre", "re", "un", "under")

MAX_TERM_CHARACTERS = 100
"""Signs of a term that count: a longer one is cut, in documents and questions alike."""

TOKEN = re.compile(r"[^\W_]+(?:(?:[-_:./@#&+]+|(?<=\d),(?=\d))[^\W_]+)*")
_WORD_LETTERS = re.compile(r"[^\W_]+")
_CAMEL_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINT_CHARACTERS = "-_:./@#&+,"
# What holds a name together, the loosest first.
_JOINTS = tuple(map(re.compile, (r"/+", r"[#@&+]+", r":+", r"[.,]+", r"[-_]+")))


# Han, kana, bopomofo, Thai, Lao, Burmese and Khmer, with the marks above and below their letters.
UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u0e00-\u0e3a\u0e40-\u0e5b\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)


def count_terms(text: str, *, unspaced: bool = False) -> dict[str, int]:
    """The terms of a text with how often each stands in it; `unspaced` scripts by their letters, since rules 3."""
    found: dict[str, int] = {}
    if unspaced and not text.isascii():
        text, runs = split_unspaced(text)
        for run in runs:
            # Single letters too: who asks for one finds it.
            for term in (*run, *letter_pairs(run)):
                found[term] = found.get(term, 0) + 1
    for token, times in Counter(tokens(text)).items():
        for term in token_terms(token):
            found[term] = found.get(term, 0) + times
    return found


def split_unspaced(text: str) -> tuple[str, list[str]]:
    """A text without the runs of scripts that have no blanks, and those runs."""
    whole = unicodedata.normalize("NFKC", text)
    return UNSPACED.sub(" ", whole), UNSPACED.findall(whole)


def letter_pairs(run: str) -> tuple[str, ...]:
    """Every two letters of a run that stand side by side; of a single letter, that letter."""
    return tuple(map("".join, pairwise(run))) if len(run) > 1 else (run,)


def tokens(text: str) -> list[str]:
    """What stands between blanks and marks, as written."""
    return TOKEN.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))


# A cache of a pure function, so nothing invalidates it: indexing is four times as fast, since words return.
@lru_cache(maxsize=50_000)
def token_terms(token: str) -> tuple[str, ...]:
    """The terms of one token: each of its words, and once each name that words make in it."""
    words = [stem(bare[:MAX_TERM_CHARACTERS]) for word in token_words(token) if (bare := fold_case(word))]
    return (*words, *dict.fromkeys(_token_names(fold_case(token))))


def fold_case(token: str) -> str:
    """In lower case and without accents."""
    if token.isascii():
        return token.lower()
    return _without_accents(_without_accents(token).casefold())


def _without_accents(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text)
    return "".join(sign for sign in apart if not unicodedata.combining(sign))


def path_terms(path: str) -> tuple[str, ...]:
    """What a document is found by through its place: the words of its own name, and its path from each folder on."""
    folders = fold_case(path).split("/")
    tails = ["/".join(folders[at:])[:MAX_TERM_CHARACTERS] for at in range(len(folders))]
    name = path.rpartition("/")[2].rpartition(".")[0] or path.rpartition("/")[2]
    return tuple(dict.fromkeys([*tails, *(term for token in tokens(name) for term in token_terms(token))]))


def related_terms(term: str) -> tuple[str, ...]:
    """The family of a word without itself: `connect`, `reconnect` of `disconnect`; none of a name or a short word."""
    if not term.isalpha():
        return ()
    roots = [term, *(term.removeprefix(start) for start in _PREFIXES if term.startswith(start))]
    long = [root for root in roots if len(root) >= MIN_ROOT_LETTERS]
    family = dict.fromkeys(f"{start}{root}" for root in long for start in ("", *_PREFIXES))
    return tuple(each for each in family if each != term)


def token_words(token: str) -> Iterator[str]:
    """The words of one token as written, `MaxLeverage` whole and in two."""
    for word in _WORD_LETTERS.findall(token):
        yield word
        humps = _CAMEL_HUMP.split(word)
        if len(humps) > 1:
            yield from humps


def _token_names(token: str) -> Iterator[str]:
    """A token and what is left of it at each joint, as long as that has joints of its own."""
    pieces = [token] if token else []
    for joint in _JOINTS:
        yield from (piece[:MAX_TERM_CHARACTERS] for piece in pieces if not _WORD_LETTERS.fullmatch(piece))
        parts = (part.strip(_JOINT_CHARACTERS) for piece in pieces for part in joint.split(piece))
        pieces = [part for part in parts if part]


# A question pasted from a document is cut, so that one search cannot take seconds.
MAX_QUERY_TERMS = 256
MAX_QUERY_CHARACTERS = 20_000

_STOP_WORDS = frozenset(
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


class QueryTerms(msgspec.Struct, frozen=True):
    """What to look for, in the order of the question; `words` are those it is made of, as written."""

    terms: tuple[str, ...]
    names: tuple[str, ...]
    words: tuple[str, ...] = ()


def query_terms(question: str, *, unspaced: bool = False) -> QueryTerms:
    """The terms and names of a question; any text will do."""
    question, runs = question[:MAX_QUERY_CHARACTERS], list[str]()
    if unspaced and not question.isascii():
        question, runs = split_unspaced(question)
    asked = tokens(question)
    telling = [token for token in asked if not _is_stop_word(token)] or ([] if runs else asked)
    terms = dict.fromkeys(term for token in telling for term in token_terms(token))
    terms |= dict.fromkeys(pair for run in runs for pair in letter_pairs(run))
    names = dict.fromkeys(
        fold_case(token)[:MAX_TERM_CHARACTERS] for token in telling if _is_name(token, alone=len(telling) == 1)
    )
    kept = tuple(terms)[:MAX_QUERY_TERMS]
    words = dict.fromkeys(word for token in telling[:MAX_QUERY_TERMS] for word in token_words(token))
    return QueryTerms(kept, tuple(name for name in names if name in kept), (*words, *runs))


def _is_stop_word(token: str) -> bool:
    # "US" and "IT" are not "us" and "it".
    return token.lower() in _STOP_WORDS and not (token.isupper() and len(token) > 1)


def _is_name(token: str, *, alone: bool) -> bool:
    """Whether a token of several words is an identifier; one that stands alone is meant as one."""
    return not token.isalnum() and (alone or not _PROSE.fullmatch(token))


# About a paragraph: the mean of a longer text is near everything.
PASSAGE_WORDS = 60
MAX_PASSAGES = 255
_BETWEEN_BLANKS = re.compile(r"\S+")


def split_passages(text: str, headings: tuple[str, ...] = ()) -> list[str]:
    """The passages of a chunk as they are embedded; at least one."""
    words = text.split()
    return [" ".join([*headings, *words[low:high]]) for low, high in _passage_cuts(len(words))]


def passage_count(text: str) -> int:
    """How many passages a chunk has."""
    return len(_passage_cuts(len(text.split())))


def passage_start(text: str, number: int) -> int:
    """Where a passage begins in the text of its chunk."""
    words = [found.start() for found in _BETWEEN_BLANKS.finditer(text)]
    return words[_passage_cuts(len(words))[number][0]] if words else 0


def _passage_cuts(words: int) -> list[tuple[int, int]]:
    parts = min(max(1, round(words / PASSAGE_WORDS)), MAX_PASSAGES)
    return [(words * part // parts, words * (part + 1) // parts) for part in range(parts)]


MAX_SNIPPET_CHARACTERS = 240

_SENTENCE_BREAK = re.compile(r"\n|(?<=[.!?;])\s")
# Headings and who wrote an entry are about what is said below them.
_HEADING_OR_ATTRIBUTION = re.compile(r"\s*(?:#|entry [0-9a-f]{20},)")
_PLAIN_WORDS = re.compile(r"\w+")


class Snippets:
    """Shows parts of chunks to one question, of which each term has a weight."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        # A stem is mostly its words' beginning, save for its last letter: what is worth a closer look.
        letters = sorted(term for term in weights if UNSPACED.fullmatch(term))
        beginnings = {re.escape(term[: max(2, len(term) - 1)]) for term in weights if term not in letters}
        self._likely = re.compile(f"(?<![^\\W_])(?:{'|'.join(sorted(beginnings))})", re.IGNORECASE)
        self._letters = re.compile(f"(?=({'|'.join(letters)}))") if letters else None
        self._has_words = bool(beginnings)

    def snippet_of(self, text: str, *, start: int = 0) -> str:
        """At most 240 signs of a text, exactly as they stand there: those with the most weight of different terms.

        Without any, those from `start` on.
        """
        if len(text) <= MAX_SNIPPET_CHARACTERS:
            return text
        best = max(self._windows(text), key=lambda window: (window[0], -window[1]), default=None)
        return _cut_snippet(text, start if best is None else best[1])

    def _windows(self, text: str) -> Iterator[tuple[float, int]]:
        """What a window that begins at each term of the question holds of it."""
        hits = self._hits(text)
        for at, (start, _, _) in enumerate(hits):
            inside: frozenset[str] = frozenset()
            for _, end, terms in hits[at:]:
                if end - start > MAX_SNIPPET_CHARACTERS * 3 // 4:
                    break
                inside |= terms
            yield sum(self._weights[term] for term in sorted(inside)), start

    def _hits(self, text: str) -> list[tuple[int, int, frozenset[str]]]:
        hits = []
        for likely in self._likely.finditer(text) if self._has_words else ():
            token = TOKEN.match(text, likely.start())
            if token and (terms := frozenset(self._weights.keys() & token_terms(token[0]))):
                hits.append((token.start(), token.end(), terms))
        if self._letters is not None:
            pairs = self._letters.finditer(text)
            hits += [(found.start(1), found.end(1), frozenset((found[1],))) for found in pairs]
            hits.sort(key=lambda hit: hit[:2])
        return hits


def _cut_snippet(text: str, start: int) -> str:
    """From a little before a place, so that a sentence is not begun in its middle, to the end of a word."""
    sentence = max(text.rfind(mark, max(0, start - MAX_SNIPPET_CHARACTERS // 4), start) for mark in ("\n", ". "))
    begin = start if sentence < 0 else sentence + 1
    part = text[begin : begin + MAX_SNIPPET_CHARACTERS]
    blank = part.rfind(" ", MAX_SNIPPET_CHARACTERS // 2) if begin + MAX_SNIPPET_CHARACTERS < len(text) else -1
    return part[: blank if blank > 0 else MAX_SNIPPET_CHARACTERS].strip()


class ShownTexts:
    """What a packet shows elsewhere, as words: a snippet that says nothing else need not be cited."""

    def __init__(self, texts: Iterable[str]) -> None:
        # A mark that is no word keeps a sentence from being found across two texts.
        self._words = "|".join(f" {_join_words(text)} " for text in texts)

    def covers(self, snippet: str) -> bool:
        """Whether every sentence of a snippet stands in one of the texts."""
        sentences = [
            _join_words(part) for part in _SENTENCE_BREAK.split(snippet) if not _HEADING_OR_ATTRIBUTION.match(part)
        ]
        return any(sentences) and all(f" {each} " in self._words for each in sentences if each)


def _join_words(text: str) -> str:
    return " ".join(_PLAIN_WORDS.findall(text.casefold()))
