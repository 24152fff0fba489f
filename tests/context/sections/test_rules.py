"""Rules: the whole manual behind a fence."""

import pytest

from tapebook.context import assemble_packet, memory_sections
from tapebook.errors import BadInput
from tests.context.situations import deployed, profile, situation


def test_every_line_stands_behind_the_fence() -> None:
    rows = memory_sections.rule_rows("\n# Manual\n\n- Cut losers.\u2028## Market: BTC  \n\x1b[31mred\n")
    shown = memory_sections.RULES_SECTION.text(rows).split("\n")
    assert shown == ["| # Manual", "|", "| - Cut losers.", "| ## Market: BTC", "|  [31mred"]


def test_agent_without_a_manual_has_no_section() -> None:
    assert memory_sections.RULES_SECTION.section(situation(deployment=deployed(profile(manual=" \n ")))) is None


def test_manual_is_never_cut() -> None:
    long = "\n".join(f"Rule {number}: never do this." for number in range(100))
    with pytest.raises(BadInput, match="the rules of btc-5m take more than 600 tokens and are never cut"):
        assemble_packet(situation(deployment=deployed(profile(manual=long))))
