"""What does not fit is refused when the agent is saved, with what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context import assemble_packet, oversize_problems
from tapebook.domain.agent import AgentProfile, ContextProfile
from tapebook.errors import BadInput
from tests.context.situations import deployed, profile, situation


@pytest.mark.parametrize(
    ("agent", "problems"),
    [
        pytest.param(profile(), [], id="the usual"),
        pytest.param(
            profile(strategy="word " * 1_300),
            ["strategy takes 1,301 tokens in the packet and 1,200 fit: shorten it"],
            id="strategy",
        ),
        pytest.param(
            profile(avoid=("buy " * 30,) * 20),
            ["avoid takes 756 tokens in the packet and 500 fit: shorten it"],
            id="avoid rules",
        ),
        pytest.param(
            profile(manual="rule\n" * 250),
            ["manual takes 758 tokens in the packet and 600 fit: shorten it"],
            id="manual",
        ),
        pytest.param(
            profile(context=ContextProfile(recent_trades_k=31), shadow=ContextProfile(bar_count=501)),
            [
                "context.recent_trades_k is 31 and at most 30 are read: lower it",
                "shadow.bar_count is 501 and at most 500 are read: lower it",
            ],
            id="context",
        ),
    ],
)
def test_problems(agent: AgentProfile, problems: list[str]) -> None:
    assert oversize_problems(agent) == problems


@given(st.integers(100, 400), st.sampled_from(["rule", "never buy", "→", ""]))
def test_a_manual_is_refused_exactly_when_its_packet_would_be(lines: int, line: str) -> None:
    agent = profile(manual="a\n" + f"{line}\n" * lines + "z")
    found = situation(deployment=deployed(agent))
    if oversize_problems(agent):
        with pytest.raises(BadInput):
            assemble_packet(found)
    else:
        section = assemble_packet(found).section("rules")
        assert section is not None and (len(section.rows), section.dropped) == (lines + 2, 0)
