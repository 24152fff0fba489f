"""What a decision asks is one fixed sentence, however long the words it is made of."""

import hypothesis.strategies as st
from hypothesis import given

from tapebook.domain.text import sanitise_lines
from tapebook.recall.question import Question


def test_the_sentence() -> None:
    asked = Question("BTC", "trend_up", ["Follow the breakout of the week.", "Second line."], "long", ["stop hit"])
    assert asked.text == "BTC trend up Follow the breakout of the week. open position long stop hit"
    assert Question("BTC", "unknown", []).text == "BTC unknown no open position"


@given(st.text(), st.text())
def test_strange_words_make_it_neither_long_nor_several_lines(strategy: str, last_exit: str) -> None:
    asked = Question("BTC", "unknown", sanitise_lines(strategy), last_exit=sanitise_lines(last_exit)).text
    assert len(asked) < 200 and len(asked.splitlines()) == 1
