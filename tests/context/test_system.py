"""The system message holds the profile's words and checked lessons, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.assemble import (
    FOOTER,
    LESSONS_CAP,
    LESSONS_HEADING,
    leash_text,
    lessons_text,
    system_message,
    system_segments,
)
from tapebook.domain.agent import AgentProfile, Lessons, RiskCaps
from tapebook.domain.packet import Segment
from tapebook.domain.text import sanitise, sanitise_lines, text_tokens
from tapebook.domain.units import E6
from tests.context.situations import HOSTILE, WORDS, profile

TEXT = st.text(max_size=60)


def segments_of(agent: AgentProfile, lessons: Lessons | None = None, *, symbol: str) -> tuple[Segment, ...]:
    """The segments of the system message of an agent on a symbol."""
    return system_message(system_segments(agent, lessons), symbol=symbol).segments


def system_text(agent: AgentProfile) -> str:
    """The system message of an agent without lessons."""
    return "\n\n".join(segment.text for segment in segments_of(agent, symbol="BTC"))


def test_segments_of_a_profile() -> None:
    agent = profile(
        strategy="Follow the trend.",
        avoid=("average down", "trade the open"),
        caps=RiskCaps(max_position_usd_e6=1_500 * E6, max_leverage=3, cooldown_ms=300_000),
    )
    found = segments_of(agent, Lessons(("Entries after 20:00 lost 4 of 5.",), "x"), symbol="kPEPE")
    assert [segment.name for segment in found] == ["header", "leash", "strategy", "lessons", "footer"]
    texts = {segment.name: segment.text for segment in found}
    assert texts["header"].startswith("You are btc-5m, a trading agent")
    assert texts["leash"].split("\n") == [
        "Hard limits, enforced whatever you answer:",
        "- Position at most $1,500, all positions at most $10,000, leverage at most 3.",
        "- Orders from $10, at most 60 an hour; limits within 2.0% of the mark.",
        "- Nothing grows any more once the day (UTC) has lost $1,000.",
        "- A symbol rests for 300 s after a losing close.",
        "- never: average down",
        "- never: trade the open",
    ]
    assert texts["strategy"] == "Strategy:\nFollow the trend."
    assert texts["lessons"] == f"{LESSONS_HEADING}\n- Entries after 20:00 lost 4 of 5."
    assert texts["footer"] == FOOTER.replace("SYMBOL", "kPEPE")


def test_answer_template_names_the_symbol_of_the_packet() -> None:
    (footer,) = (each.text for each in segments_of(profile(), symbol="kPEPE") if each.name == "footer")
    assert '"symbol":"kPEPE"' in footer and "BTC" not in footer


def test_segment_with_nothing_to_say_is_absent() -> None:
    for lessons in (None, Lessons((), "x")):
        assert [each.name for each in segments_of(profile(), lessons, symbol="BTC")] == [
            "header",
            "leash",
            "footer",
        ]
    assert "never:" not in leash_text(profile()) and "rests" not in leash_text(profile())


def test_lessons_are_framed_as_the_specification_has_them() -> None:
    assert LESSONS_HEADING.startswith("Lessons from your recent trades")
    assert LESSONS_HEADING.endswith("(auto-generated; signal, not strategy):")


@given(TEXT, st.lists(TEXT, max_size=3), st.integers(1, 10**9), st.integers(1, 100))
def test_without_the_profiles_words_always_the_same(
    strategy: str, avoid: list[str], most_usd: int, leverage: int
) -> None:
    caps = RiskCaps(max_position_usd_e6=most_usd * E6, max_leverage=leverage)
    text = system_text(profile(strategy=strategy, avoid=tuple(avoid), caps=caps))
    plain = system_text(profile(caps=RiskCaps(max_position_usd_e6=0, max_leverage=0)))
    for rule in avoid:
        text = text.replace(f"\n- never: {sanitise(rule)}", "", 1)
    if lines := sanitise_lines(strategy):
        text = text.replace("\n".join(["\n\nStrategy:", *lines]), "", 1)
    text = text.replace(f"Position at most ${most_usd:,},", "Position at most $0,")
    assert text.replace(f"leverage at most {leverage}.", "leverage at most 0.") == plain


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_bullet_stays_in_its_line(word: str) -> None:
    head, *lines = lessons_text(Lessons((word, "next"), "x")).split("\n")
    assert head == LESSONS_HEADING
    assert [line[:2] for line in lines] == ["- ", "- "]
    assert "\n".join(lines).splitlines() == lines


@given(st.lists(WORDS, max_size=60))
def test_any_lessons_keep_their_cap_and_say_what_is_missing(bullets: list[str]) -> None:
    text = lessons_text(Lessons(tuple(bullets), "x"))
    shown = max(0, len(text.split("\n")) - 1)
    assert not bullets or text_tokens(text) <= LESSONS_CAP
    assert (f"({shown} of {len(bullets)} shown):" in text) == (shown < len(bullets))


def test_two_thousand_characters_of_prose_fit_whole() -> None:
    bullet = "longs opened in chop with high volatility lost 11 of 14 and cost 83 USD, mostly within the first hour"
    bullets = tuple(bullet for _ in range(2_000 // len(bullet)))
    assert len(lessons_text(Lessons(bullets, "x")).split("\n")) == len(bullets) + 1
