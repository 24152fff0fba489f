"""Regime tags in the words of the layers."""

from tapebook.horizons.values import RegimeWord, market_phase, volatility_regime


def test_most_trades_decide() -> None:
    tags = {"trend_up_lowvol": 3, "trend_up_hivol": 1, "trend_down_hivol": 2, "chop_lowvol": 1}
    assert market_phase(tags) == RegimeWord("Bull", 4, 7)
    assert volatility_regime(tags) == RegimeWord("low", 4, 7)
    assert market_phase({"trend_down_lowvol": 1}) == RegimeWord("Bear", 1, 1)


def test_ties_are_cautious() -> None:
    tags = {"trend_up_lowvol": 2, "trend_down_hivol": 2}
    assert market_phase(tags) == RegimeWord("Sideways", 0, 4)
    assert volatility_regime(tags) == RegimeWord("high", 2, 4)


def test_without_tags_there_is_no_word() -> None:
    assert market_phase({}) is None and volatility_regime({"unknown": 5}) is None
