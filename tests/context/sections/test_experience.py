"""Experience: rows of (kind, name, value), which engines read and people can."""

from tapebook.context import memory_sections
from tapebook.domain.agent import ExperienceRow
from tests.context.situations import situation

ROWS = (
    ExperienceRow("provider", "trend", "1.20"),
    ExperienceRow("record", "trend in chop_lowvol", "n=41, won 52 % [37, 67]"),
    ExperienceRow("similar", "ETH short 2026-05-02", "-0.8 % in 45m"),
)


def test_rows_and_lines() -> None:
    section = memory_sections.EXPERIENCE_SECTION.section(situation(experience=ROWS))
    assert section is not None
    assert section.columns == ("kind", "name", "value")
    assert section.rows[0] == ("provider", "trend", "1.20")
    assert memory_sections.EXPERIENCE_SECTION.text(section.rows).split("\n") == [
        "- provider trend: 1.20",
        "- record trend in chop_lowvol: n=41, won 52 % [37, 67]",
        "- similar ETH short 2026-05-02: -0.8 % in 45m",
    ]


def test_nothing_learned_is_no_section() -> None:
    assert memory_sections.EXPERIENCE_SECTION.section(situation(experience=())) is None
