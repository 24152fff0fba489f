"""What tapebook writes down itself, and that nobody's words in it can be anything but words."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tapebook.library.document_texts import (
    acted_or_refused,
    backtest_document,
    decision_text,
    trade_document,
    transcript_decisions,
    transcript_document,
)
from tests.search.runs import NASTY, opened, run_of, trade_of


def test_a_trade_says_what_was_decided_and_what_came_of_it() -> None:
    document = trade_document("ann", trade_of("breakout"), entry=opened("breakout"), exit_run=None)
    assert document.scope == "ann" and document.kind == "trade"
    assert document.path == "agents/ann/trades/1970-01-01-BTC-tttttttttttt.md"
    assert document.text.splitlines()[0] == "# Trade: long BTC won +5.00 USD"
    assert "regime trend up highvol" in document.text and "after 60 min" in document.text
    assert 'open long BTC for 250.00 USD at 2x, confidence 0.64: allowed; because "breakout"; cites c1' in document.text
    assert 'vote of trend: open long, confidence 0.70, weight 1.20: "breakout"' in document.text
    assert "no decision of this agent" in document.text


@pytest.mark.parametrize(("net", "word"), [(5, "won"), (-5, "lost"), (0, "came out even")])
def test_the_outcome_is_a_word(net: int, word: str) -> None:
    text = trade_document("ann", trade_of("x", net_usd=net), entry=None, exit_run=None).text
    assert f"long BTC {word}" in text


@given(st.text(max_size=80) | st.just(NASTY))
def test_words_of_others_stay_in_their_quotes(words: str) -> None:
    """The headings and lines of a document are the same whatever was said in it."""
    run = opened(words, error=words, note=words)
    trade = trade_of(words, symbol=words or "x")
    nasty = trade_document("ann", trade, entry=run, exit_run=run).text
    plain = trade_document("ann", trade_of("x"), entry=opened("x", error="x"), exit_run=opened("x", error="x")).text
    extra = 0 if words else -2
    assert len(nasty.splitlines()) == len(nasty.split("\n")) - 1 == len(plain.split("\n")) - 1 + extra
    headings = [line for line in nasty.splitlines() if line.startswith("## ")]
    assert headings == ["## Why it was entered", "## Why it was left"]
    assert all(line.startswith(("# ", "## ", "- ")) or not line for line in nasty.splitlines())


def test_a_transcript_can_be_gone_on_with() -> None:
    told = [decision_text(opened(NASTY, run_id=f"r{number}")) for number in range(3)]
    text = transcript_document("ann", "2026-01-05", part=1, decisions=told).text
    assert (
        transcript_decisions(text) == told
        and transcript_decisions(transcript_document("a", "d", part=2, decisions=()).text) == []
    )
    assert (
        transcript_document("ann", "2026-01-05", part=2, decisions=told).path
        == "agents/ann/transcripts/2026-01-05-2.md"
    )


def test_decisions_that_did_nothing_are_not_told() -> None:
    assert acted_or_refused(opened("x")) and acted_or_refused(run_of(status="rejected", error="no JSON"))
    assert (
        not acted_or_refused(run_of())
        and not acted_or_refused(opened("x", trigger="shadow"))
        and not acted_or_refused(run_of(status="failed"))
    )


def test_a_backtest_is_its_agents() -> None:
    kept = backtest_document("q-1", "# Backtest q-1\n", agent="ann", agents=["ann"])
    assert (kept.scope, kept.path, kept.kind) == ("ann", "agents/ann/backtests/q_1.md", "backtest")
    assert backtest_document("q-1", "", agent="ann", agents=["bob"]).path == "backtests/q_1.md"
    assert backtest_document("../../x", "", agent="", agents=[]).path == "backtests/______x.md"
