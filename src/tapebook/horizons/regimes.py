"""The words of the layers for the regime tags that trades carry from their entry: one table, published.

    tag at entry     market_phase     volatility_regime
    trend_up_*       Bull             -
    trend_down_*     Bear             -
    chop_*           Sideways         -
    *_hivol          -                high
    *_lowvol         -                low

The word of a period is that of most of its trades. A tie between phases is Sideways, one between volatilities is
high; trades without a tag do not count, and without any there is no word.
"""

from collections.abc import Mapping

import msgspec

PHASES = {"trend_up": "Bull", "trend_down": "Bear", "chop": "Sideways"}
VOLATILITIES = {"hivol": "high", "lowvol": "low"}


class Word(msgspec.Struct, frozen=True):
    """A word and how many of `n` trades are behind it."""

    word: str
    count: int
    n: int


def market_phase(regimes: Mapping[str, int]) -> Word | None:
    """Bull, Bear or Sideways."""
    return _most(regimes, PHASES, part=0, tie="Sideways")


def volatility_regime(regimes: Mapping[str, int]) -> Word | None:
    """high or low."""
    return _most(regimes, VOLATILITIES, part=2, tie="high")


def _most(regimes: Mapping[str, int], words: Mapping[str, str], *, part: int, tie: str) -> Word | None:
    counts = dict.fromkeys(words.values(), 0)
    for tag, count in regimes.items():
        word = words.get(tag.rpartition("_")[part])
        if word:
            counts[word] += count
    n, most = sum(counts.values()), max(counts.values())
    if not n:
        return None
    first = [word for word, count in counts.items() if count == most]
    word = first[0] if len(first) == 1 else tie
    return Word(word, counts[word], n)
