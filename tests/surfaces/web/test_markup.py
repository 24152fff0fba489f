"""Values as people read them, without a browser."""

import pytest

from tapebook.surfaces.web.markup import compact, label, price, size, sparkline, tag
from tapebook.surfaces.web.memory import providers_sheet


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("spreadBps", "spread bps"),
        ("annualizedVol24h", "annualized vol 24h"),
        ("last_decision", "last decision"),
        ("max_position_usd", "max position usd"),
    ],
)
def test_names_become_words(name: str, words: str) -> None:
    assert label(name) == words


def test_numbers_are_short_and_have_separated_thousands() -> None:
    assert [compact(value) for value in (262_365_925_454.0, -92_895_581.0, 0.51)] == ["262.4 B", "-92.9 M", "0.51"]
    assert [price(value) for value in (65_728.0, 0.0028920, None)] == ["65,728", "0.0028920", "–"]
    assert [size(value) for value in (340_948.0, 12_345_678.0, 0.00052685)] == ["340,948", "12,345,678", "0.00052685"]


def test_a_line_of_fewer_than_two_values_is_none() -> None:
    assert sparkline([1.0], name="x") == "–"
    assert 'aria-label="x: from 1 to 2"' in sparkline([1.0, 2.0], name="x")


def test_a_provider_without_a_weight_is_shown() -> None:
    record = {"name": "<trend>", "weight": None, "n": 3, "mean_bps": None}
    shown = providers_sheet([record])
    assert "&lt;trend&gt;" in shown and tag("td", "–", cls="num") in shown
