"""Horizons: one line per key of a layer, as the layers were ordered."""

from tapebook.context import memory_sections
from tapebook.domain.agent import LayerRow
from tests.context.situations import situation


def test_rows_and_lines() -> None:
    never = LayerRow("L1", "LEGACY", "never_again", 'say "all in"')
    rows = (LayerRow("L6", "2026-06-03", "total_pnl_usd", "-12.50"), never)
    section = memory_sections.HORIZONS_SECTION.section(situation(horizons=rows))
    assert section is not None
    assert memory_sections.HORIZONS_SECTION.text(section.rows).split("\n") == [
        '- L6 2026-06-03 total_pnl_usd: "-12.50"',
        "- L1 LEGACY never_again: \"say 'all in'\"",
    ]
    assert section.columns == ("layer", "timeframe", "key", "value")


def test_no_layers_are_no_section() -> None:
    assert memory_sections.HORIZONS_SECTION.section(situation(horizons=())) is None
