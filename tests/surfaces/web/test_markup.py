"""Values as people read them, without a browser."""

from pathlib import Path

import pytest

from tapebook.surfaces.web.backtests import arm_names, verdict_alert
from tapebook.surfaces.web.frame import NAVIGATION
from tapebook.surfaces.web.markup import (
    Markup,
    alert,
    code_text,
    compact,
    key_values,
    label,
    price,
    size,
    sparkline,
    tag,
)
from tapebook.surfaces.web.memory import providers_sheet
from tapebook.surfaces.web.overview import run_state


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


def test_what_stands_between_backticks_is_code() -> None:
    assert code_text("run `tapebook up`, or `<b>`") == "run <code>tapebook up</code>, or <code>&lt;b&gt;</code>"
    assert code_text("an odd ` & one") == "an odd ` &amp; one" and code_text("") == ""
    assert code_text(Markup("<i>`x`</i>")) == "<i>`x`</i>"
    assert "<li>cash: see <code>verify</code></li>" in alert("1 incident", ["cash: see `verify`"])


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
    assert "&lt;trend&gt;" in shown and tag("td", "–", cls="num", data_name="Weight") in shown


def test_a_decision_of_a_shadow_is_not_taken_for_one_that_was_held() -> None:
    asked = {"trigger": "shadow", "status": "held", "actions": [{"rule": None}]}
    assert "shadow" in run_state(asked)
    assert "shadow" not in run_state(asked | {"trigger": "schedule"})


def test_keys_of_the_settings_stay_as_they_are_typed() -> None:
    assert 'class="tb-key tb-verbatim"' in key_values({"taker_fee_bps": "4.5"}, verbatim=True)


@pytest.mark.parametrize(
    ("verdict", "said"), [("second", "b, memory off did better"), ("not enough evidence", "not enough evidence")]
)
def test_a_comparison_names_the_arm_that_did_better_and_its_figures(verdict: str, said: str) -> None:
    mean = {"value": -2.65, "low": -10.29, "high": -0.5, "n": 28}
    test = {"verdict": verdict, "student_bps": mean, "days": 28, "detectable_bps": 10.77}
    shown = verdict_alert({"unpaired": "", "test": test}, ["a, memory on", "b, memory off"])
    assert f"Verdict: {said}" in shown and "-2.65 bps (95 % -10.29 to -0.50, 28 days)" in shown


def test_arms_of_one_name_are_told_apart_by_their_ids() -> None:
    one = {"id": "0123456789", "agent": "a", "memory": "on", "start": "2026-01-01T00:00:00Z"}
    assert arm_names([one]) == {"0123456789": "a, memory on, from 2026-01-01"}
    both = arm_names([one, one | {"id": "9876543210"}])
    assert list(both.values()) == ["a, memory on, from 2026-01-01, 01234567", "a, memory on, from 2026-01-01, 98765432"]


def test_every_page_has_pictures_in_the_docs() -> None:
    """Light and dark, on a desktop and on a phone: `make bench ARGS=screenshots` takes them."""
    pages = {name.lower() for name, _, _ in NAVIGATION} | {"agent", "decision", "backtest", "comparison"}
    folder = Path(__file__).parents[3] / "docs" / "screenshots"
    kinds = [f"{theme}{device}" for theme in ("light", "dark") for device in ("", "-phone")]
    assert {path.name for path in folder.iterdir()} == {f"{page}-{kind}.png" for page in pages for kind in kinds}
