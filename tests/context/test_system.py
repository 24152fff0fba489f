"""The system message holds the profile's words and no others."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.system import FOOTER, system_text
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E6
from tests.context.situations import profile

WORDS = st.text(max_size=60)


def test_system_text_of_a_profile() -> None:
    agent = profile(
        strategy="Follow the trend.",
        avoid=("average down", "trade the open"),
        caps=RiskCaps(max_position_usd_e6=1_500 * E6, max_leverage=3),
    )
    head, leash, strategy, footer = system_text(agent).split("\n\n")
    assert head.startswith("You are btc-5m, a trading agent")
    assert leash.split("\n") == [
        "Hard limits, enforced whatever you answer:",
        "- Position at most $1500, leverage at most 3.",
        "- never: average down",
        "- never: trade the open",
    ]
    assert strategy == "Strategy:\nFollow the trend."
    assert footer == FOOTER


def test_agent_without_a_strategy_has_no_such_part() -> None:
    assert "Strategy" not in system_text(profile())
    assert "never:" not in system_text(profile())


@given(WORDS, st.lists(WORDS, max_size=3), st.integers(1, 10**9), st.integers(1, 100))
def test_without_the_profiles_words_always_the_same(
    strategy: str, avoid: list[str], most_usd: int, leverage: int
) -> None:
    caps = RiskCaps(max_position_usd_e6=most_usd * E6, max_leverage=leverage)
    text = system_text(profile(strategy=strategy, avoid=tuple(avoid), caps=caps))
    plain = system_text(profile(caps=RiskCaps(max_position_usd_e6=0, max_leverage=0)))
    for rule in avoid:
        text = text.replace(f"\n- never: {rule}", "", 1)
    if strategy:
        text = text.replace(f"\n\nStrategy:\n{strategy}", "", 1)
    assert text.replace(f"most ${most_usd}, leverage at most {leverage}.", "most $0, leverage at most 0.") == plain
