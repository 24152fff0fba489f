"""What a decision asks is one fixed sentence, however long the words it is made of."""

import hypothesis.strategies as st
from hypothesis import given

from tapebook.domain.text import sanitise_lines
from tapebook.tick.memory import DecisionQuestion

STRATEGY = ["Follow the breakout of the week.", "Second line."]


def test_the_sentence() -> None:
    held = {"ETH": "short", "BTC": "long", "SOL": "long"}
    asked = DecisionQuestion("BTC", "trend_up", STRATEGY, held, ["stop at 99.5 hit"])
    assert asked.text() == (
        "BTC trend up Follow the breakout of the week. open position long open positions ETH short SOL long"
    )
    assert DecisionQuestion("BTC", "range", [], {"ETH": "short"}).text() == "BTC range open positions ETH short"


def test_what_is_not_known_is_not_asked_about() -> None:
    assert DecisionQuestion("BTC", "unknown", []).text() == "BTC"
    assert DecisionQuestion("BTC", "", ["Trend."]).text() == "BTC Trend."


def test_the_sentence_of_the_first_rules() -> None:
    asked = DecisionQuestion("BTC", "trend_up", STRATEGY, {"BTC": "long", "ETH": "short"}, ["stop hit"])
    assert asked.text(rules=1) == "BTC trend up Follow the breakout of the week. open position long stop hit"
    assert DecisionQuestion("BTC", "unknown", []).text(rules=1) == "BTC unknown no open position"


@given(st.text(), st.text(), st.sampled_from((1, 2)))
def test_strange_words_make_it_neither_long_nor_several_lines(strategy: str, last_exit: str, rules: int) -> None:
    held = {f"COIN{at}": "long" for at in range(50)}
    asked = DecisionQuestion("BTC", "unknown", sanitise_lines(strategy), held, sanitise_lines(last_exit)).text(
        rules=rules
    )
    assert len(asked) < 220 and len(asked.splitlines()) == 1
