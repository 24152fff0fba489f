"""Costs are integers, rounded up; names are found with and without their date."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.llm.asker import MODEL_PRICES, Price, price_of, usd_per_million
from tapebook.settings.config import LlmSettings

UNKNOWN = usd_per_million(7, 70)


def test_price_list_in_dollars() -> None:
    assert usd_per_million(0.10, 0.50) == Price(100_000, 500_000)
    # 5,000 tokens at $2 and 1,000 at $10 a million are a cent each.
    assert usd_per_million(2, 10).cost_usd_e6(input_tokens=5_000, output_tokens=1_000) == 20_000


def test_names() -> None:
    assert price_of("claude-haiku-4-5-20251001", unknown=UNKNOWN) == usd_per_million(1, 5)
    assert price_of("gpt-5.4-mini-2026-03-17", unknown=UNKNOWN) == usd_per_million(0.75, 4.5)
    assert price_of("openai/gpt-6-sol", unknown=UNKNOWN) == usd_per_million(2, 10)
    for name in ("", "llama4", "gpt-6-solaris", "claude-opus-5-5-max", "gpt-6-sol/x"):
        assert price_of(name, unknown=UNKNOWN) == UNKNOWN


def test_the_models_of_the_settings_are_in_the_list() -> None:
    assert {LlmSettings().anthropic_model, LlmSettings().openai_model} <= set(MODEL_PRICES)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_cost_is_never_rounded_down(into: int, out: int, price_in: int, price_out: int) -> None:
    cost = Price(price_in, price_out).cost_usd_e6(input_tokens=into, output_tokens=out)
    exact = into * price_in + out * price_out
    assert exact <= cost * 10**6 < exact + 10**6
