"""Renderer 3, frozen: how packets of that version, and of the one before it, show words from outside.

Its sections are those of renderer 4 with other words: less was taken out of them (`visible_text`), joiners among
it, and a profile stood in the system message as it was saved. Never edited; replay depends on every byte, and the
stored homes of `tests/replay/test_old_homes.py` hold it. Whoever changes a section for new packets copies the old
form here first.
"""

import re
from functools import partial
from typing import Any

import msgspec

from tapebook.context import market_sections, memory_sections
from tapebook.context.render import CHARACTERS_PER_TOKEN, Rows, SectionLayout, truncate_between_words
from tapebook.context.situation import Market, Situation
from tapebook.domain.text import truncate_to_tokens

_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]+"
)
_HIDDEN_IN_QUESTION = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
QUOTES = str.maketrans(dict.fromkeys('"`“”„‟«»″＂', "'"))


def visible_text(text: str) -> str:
    """A text with less taken out of it than is hidden."""
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(" ", text)


def plain_line(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, cut between words."""
    return truncate_between_words(" ".join(visible_text(text[: 8 * most]).translate(QUOTES).split()), most)


def symbol_text(symbol: str) -> str:
    """A symbol as lines show it."""
    seen, tokens = " ".join(visible_text(symbol[:192]).translate(QUOTES).split())[:24], 24 // CHARACTERS_PER_TOKEN
    return (seen if len(seen) <= tokens else truncate_to_tokens(seen, tokens)).rstrip()


def question_lines(text: str) -> list[str]:
    """The lines of a text as the question to the documents was made of them."""
    found = [_HIDDEN_IN_QUESTION.sub(" ", line.replace("\t", "    ")).rstrip() for line in _BREAKS.split(text)]
    return [line for line in found if line]


def _same_symbol(symbol: str) -> str:
    return symbol


def _manual_rows(manual: str) -> Rows:
    return tuple([(visible_text(line).rstrip(),) for line in manual.strip().splitlines()])


_replace = msgspec.structs.replace
MARKET_TITLE = partial(market_sections.market_title, name=symbol_text)
PORTFOLIO_SECTION = _replace(
    market_sections.PORTFOLIO_SECTION, rows=partial(market_sections.portfolio_rows, name=symbol_text)
)
RULES_SECTION = _replace(memory_sections.RULES_SECTION, rows=_manual_rows)

MARKET_SECTIONS: tuple[SectionLayout[Market, Any], ...] = (
    _replace(market_sections.BARS_SECTION, title=partial(market_sections.bars_title, name=symbol_text)),
    _replace(
        market_sections.MARKET_SECTION, title=MARKET_TITLE, rows=partial(market_sections.market_rows, words=plain_line)
    ),
)
OWN_SECTIONS: tuple[SectionLayout[Situation, Any], ...] = (
    PORTFOLIO_SECTION,
    _replace(
        market_sections.LAST_DECISION_SECTION,
        rows=partial(market_sections.last_decision_rows, words=plain_line, name=_same_symbol),
    ),
    memory_sections.RECENT_ACTIVITY_SECTION,
    _replace(
        memory_sections.RECENT_TRADES_SECTION,
        rows=partial(memory_sections.trade_rows, words=plain_line, name=symbol_text),
        shorten=partial(memory_sections.shorten_trade_row, words=plain_line),
    ),
    _replace(
        market_sections.OPEN_POSITIONS_SECTION,
        rows=partial(market_sections.open_position_rows, words=plain_line, name=symbol_text),
    ),
    _replace(
        memory_sections.EXPERIENCE_SECTION,
        rows=partial(memory_sections.experience_rows, words=plain_line),
    ),
    _replace(memory_sections.HORIZONS_SECTION, rows=partial(memory_sections.horizon_rows, words=plain_line)),
    RULES_SECTION,
    _replace(memory_sections.CITATIONS_SECTION, rows=partial(memory_sections.citation_rows, words=plain_line)),
)
