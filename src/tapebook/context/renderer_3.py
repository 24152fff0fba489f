"""Renderer 3, frozen: how packets of that version, and of the one before it, show words from outside.

Its sections are those of renderer 4 with other words: less was taken out of them (`visible`), joiners among it, and a
profile stood in the system message as it was saved. Never edited; replay depends on every byte, and the stored homes of
`tests/replay/test_old_homes.py` hold it. Whoever changes a section for new packets copies the old form here first.
"""

import re
from functools import partial
from typing import Any

import msgspec

from tapebook.context.budget import within
from tapebook.context.quote import CHARACTERS_PER_TOKEN, cut_between_words
from tapebook.context.sections import (
    Layout,
    Rows,
    bars,
    citations,
    experience,
    horizons,
    last_decision,
    market,
    open_positions,
    portfolio,
    recent_activity,
    recent_trades,
    rules,
)
from tapebook.context.situation import Market, Situation
from tapebook.domain.memory import ExperienceRow, LayerRow

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


def visible(text: str) -> str:
    """A text with less taken out of it than is hidden."""
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(" ", text)


def plain(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, cut between words."""
    return cut_between_words(" ".join(visible(text[: 8 * most]).translate(QUOTES).split()), most)


def symbol_text(symbol: str) -> str:
    """A symbol as lines show it."""
    seen, tokens = " ".join(visible(symbol[:192]).translate(QUOTES).split())[:24], 24 // CHARACTERS_PER_TOKEN
    return (seen if len(seen) <= tokens else within(seen, tokens)).rstrip()


def question_lines(text: str) -> list[str]:
    """The lines of a text as the question to the documents was made of them."""
    found = [_HIDDEN_IN_QUESTION.sub(" ", line.replace("\t", "    ")).rstrip() for line in _BREAKS.split(text)]
    return [line for line in found if line]


def _as_it_is(symbol: str) -> str:
    return symbol


def _layer_row(layer: LayerRow) -> tuple[str, ...]:
    return horizons.row(layer, plain)


def _experience_row(learned: ExperienceRow) -> tuple[str, ...]:
    return experience.row(learned, plain)


def _position_rows(seen: open_positions.Seen) -> Rows:
    cells = partial(open_positions.cells_of, words=plain, name=symbol_text)
    return tuple([open_positions.row(*each, cells=cells((each[0], each[1]))) for each in seen])


def _manual_rows(manual: str) -> Rows:
    return tuple([(visible(line).rstrip(),) for line in manual.strip().splitlines()])


_changed = msgspec.structs.replace
MARKET_TITLE = partial(market.title, name=symbol_text)
PORTFOLIO = _changed(portfolio.LAYOUT, rows=partial(portfolio.rows, name=symbol_text))
RULES = _changed(rules.LAYOUT, rows=_manual_rows)

MARKET: tuple[Layout[Market, Any], ...] = (
    _changed(bars.LAYOUT, title=partial(bars.title, name=symbol_text)),
    _changed(market.LAYOUT, title=MARKET_TITLE, rows=partial(market.rows, words=plain)),
)
OWN: tuple[Layout[Situation, Any], ...] = (
    PORTFOLIO,
    _changed(last_decision.LAYOUT, rows=partial(last_decision.rows, words=plain, name=_as_it_is)),
    recent_activity.LAYOUT,
    _changed(
        recent_trades.LAYOUT,
        rows=partial(recent_trades.rows, words=plain, name=symbol_text),
        shorten=partial(recent_trades.shorten, words=plain),
    ),
    _changed(open_positions.LAYOUT, rows=_position_rows),
    _changed(experience.LAYOUT, rows=lambda learned: tuple(map(_experience_row, learned)), row=_experience_row),
    _changed(horizons.LAYOUT, rows=lambda layers: tuple(map(_layer_row, layers)), row=_layer_row),
    RULES,
    _changed(citations.LAYOUT, rows=partial(citations.rows, words=plain)),
)
