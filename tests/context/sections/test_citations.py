"""Citations: a place that can be found again, under the name an action cites."""

from tapebook.context import assemble_packet, memory_sections
from tests.context.situations import citation, situation


def test_row_of_the_specification() -> None:
    section = memory_sections.CITATIONS_SECTION.section(situation(citations=(citation(),)))
    assert section is not None
    assert section.columns[0] == "id"
    assert memory_sections.CITATIONS_SECTION.text(section.rows).split("\n") == [
        '- [c1] "agents/agent_btc_5m/TRADING_MANUAL.md:42-58" (fts, 0.82): '
        '"Never trade unless two consecutive 5m candles are green..."'
    ]


def test_nothing_found_is_no_section() -> None:
    assert memory_sections.CITATIONS_SECTION.section(situation(citations=())) is None


def test_packet_has_the_citations_it_shows_and_no_others() -> None:
    many = tuple(citation(number, snippet="word " * 48) for number in range(1, 20))
    packet = assemble_packet(situation(citations=many))
    section = packet.section("citations")
    assert section is not None and 0 < len(section.rows) < len(many)
    assert packet.citations == many[: len(section.rows)]
    assert packet.citation_ids == {each.id for each in packet.citations}
