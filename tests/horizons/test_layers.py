"""The table of layers, in the code and in the database."""

import math
from typing import Any

import pytest

from tapebook.db import Database, Query
from tapebook.domain.units import parse_instant
from tapebook.errors import BadInput
from tapebook.horizons.layers import LAYER_SPECS, ContextLayer, check_key, value_text


def test_the_database_says_the_same(db: Database) -> None:
    rows = db.all(Query.whole_table("context_metadata"))
    said = {(spec.layer.value, spec.description, spec.retention_days, spec.source) for spec in LAYER_SPECS.values()}
    assert {tuple(row) for row in rows} == said
    assert [layer.short for layer in ContextLayer] == ["L1", "L2", "L3", "L4", "L5", "L6", "L7"]


def test_nothing_above_the_days_is_built_from_anything_but_days() -> None:
    sources = {spec.layer: spec.source for spec in LAYER_SPECS.values()}
    assert {sources.pop(ContextLayer.L6_DAILY), sources.pop(ContextLayer.L7_REALTIME)} == {None}
    assert set(sources.values()) == {ContextLayer.L6_DAILY}


@pytest.mark.parametrize(
    ("layer", "now", "first"),
    [
        # A day ended 90 days ago when the next one began 90 days ago.
        (ContextLayer.L6_DAILY, "2026-05-05T00:00", "2026-02-04"),
        (ContextLayer.L6_DAILY, "2026-05-04T23:59", "2026-02-03"),
        (ContextLayer.L7_REALTIME, "2026-02-11T12:00", "2026-02-04"),
        (ContextLayer.L5_WEEKLY, "2027-02-09T00:00", "2026-W07"),
        (ContextLayer.L5_WEEKLY, "2027-02-08T23:59", "2026-W06"),
        (ContextLayer.L4_MONTHLY, "2028-02-29T12:00", "2026-03"),
        (ContextLayer.L3_QUARTERLY, "2029-06-01T00:00", "2026-Q2"),
        (ContextLayer.L2_ANNUAL, "2036-12-28T00:00", "2026"),
        (ContextLayer.L1_LEGACY, "2126-01-01T00:00", None),
    ],
)
def test_a_period_is_kept_until_so_long_after_its_end(layer: ContextLayer, now: str, first: str | None) -> None:
    kept = LAYER_SPECS[layer].first_kept(now=parse_instant(now))
    assert kept == first
    if first is not None:
        retention = (LAYER_SPECS[layer].retention_days or 0) * 86_400_000
        assert (
            LAYER_SPECS[layer].period(first).end
            > parse_instant(now) - retention
            >= LAYER_SPECS[layer].period(first).start
        )


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}, b"x", "\ud800", "x" * 30_000, {"a": math.nan}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(BadInput):
        value_text(value)


def test_a_loop_is_no_json() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(BadInput):
        value_text(loop)


@pytest.mark.parametrize("key", ["", "x" * 81, "a\nb", "a\x00"])
def test_keys_can_be_read(key: str) -> None:
    with pytest.raises(BadInput):
        check_key(key)


def test_values_are_short_json() -> None:
    assert value_text({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'
