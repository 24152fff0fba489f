"""A situation becomes a packet: a pure function with canonical bytes.

1. each section builds its typed rows from the situation (`_sections`);
2. the budget keeps the newest rows that fit the section's cap (`_fitted`);
3. the renderer writes the text;
4. two hashes are taken: `inputs_sha256` over the typed sections, `sha256` over the text.
"""

from tapebook.context.budget import fit, line_tokens, text_tokens
from tapebook.context.render import RENDERER, section_text, user_text
from tapebook.context.sections import Layout, bars, last_decision, market, open_positions, portfolio, recent_trades
from tapebook.context.situation import Situation
from tapebook.context.system import system_text
from tapebook.domain.canonical import canonical, sha256_hex
from tapebook.domain.packet import Packet, Section

ORDER: tuple[Layout, ...] = (
    bars.LAYOUT,
    market.LAYOUT,
    portfolio.LAYOUT,
    last_decision.LAYOUT,
    recent_trades.LAYOUT,
    open_positions.LAYOUT,
)


def assemble(situation: Situation) -> Packet:
    """The packet of a situation."""
    system = system_text(situation.deployment.agent)
    fitted = _sections(situation)
    texts = [section_text(section, layout) for section, layout in fitted]
    text = user_text(texts)
    sections = tuple(section for section, _ in fitted)
    counts = {section.name: text_tokens(part) for section, part in zip(sections, texts, strict=True)}
    return Packet(
        agent=situation.deployment.agent.name,
        symbol=situation.symbol,
        as_of=situation.as_of,
        renderer=RENDERER,
        system=system,
        text=text,
        sections=sections,
        tokens=text_tokens(system) + text_tokens(text),
        section_tokens=counts,
        inputs_sha256=sha256_hex(canonical([system, sections])),
        sha256=sha256_hex(f"{system}\n\n{text}".encode()),
    )


def _sections(situation: Situation) -> list[tuple[Section, Layout]]:
    built = [(layout.build(situation), layout) for layout in ORDER]
    return [(_fitted(section, layout), layout) for section, layout in built if section is not None]


def _fitted(section: Section, layout: Layout) -> Section:
    # The heading is counted as it looks when rows are dropped: the longest it can get.
    head = line_tokens(f"## {section.title} ({len(section.rows)} of {len(section.rows)} shown)")
    return fit(section, cap=layout.cap, line=layout.line, head=head, oldest_first=layout.oldest_first)
