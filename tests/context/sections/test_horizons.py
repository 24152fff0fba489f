"""Horizons: one line per key of a layer, as the layers were ordered."""

from tapebook.context.sections import horizons
from tapebook.domain.memory import LayerRow
from tests.context.situations import situation


def test_rows_and_lines() -> None:
    never = LayerRow("L1", "LEGACY", "never_again", 'say "all in"')
    rows = (LayerRow("L6", "2026-06-03", "total_pnl_usd", "-12.50"), never)
    section = horizons.LAYOUT.section(situation(horizons=rows))
    assert section is not None
    assert horizons.LAYOUT.text(section.rows).split("\n") == [
        '- L6 2026-06-03 total_pnl_usd: "-12.50"',
        "- L1 LEGACY never_again: \"say 'all in'\"",
    ]
    assert section.columns == ("layer", "timeframe", "key", "value")


def test_no_layers_are_no_section() -> None:
    assert horizons.LAYOUT.section(situation(horizons=())) is None
