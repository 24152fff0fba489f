"""A situation becomes a packet: a pure function with canonical bytes.

1. the system message is written in segments (`system_of`);
2. each section builds its typed rows, and `render.draw` keeps those that fit its cap and writes the text; what depends
   on the market alone is drawn once for all agents that see it (`draw_market`);
3. activity, closed trades, open positions and lessons share one budget: the oldest trades give way (`_own`);
4. two hashes are taken: `inputs_sha256` over the typed sections, `sha256` over the text.
"""

from functools import lru_cache

from tapebook.context.budget import MEMORY_CAP
from tapebook.context.render import RENDERER, Drawn, draw, user_text
from tapebook.context.sections import (
    Layout,
    bars,
    citations,
    experience,
    horizons,
    last_decision,
    market,
    open_positions,
    portfolio,
    recent_activity,
    recent_trades,
    rules,
)
from tapebook.context.situation import Market, Situation
from tapebook.context.system import System, system_of
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.packet import Packet
from tapebook.errors import BadInput

MARKET: tuple[Layout[Market], ...] = (bars.LAYOUT, market.LAYOUT)
OWN: tuple[Layout[Situation], ...] = (
    portfolio.LAYOUT,
    last_decision.LAYOUT,
    recent_activity.LAYOUT,
    recent_trades.LAYOUT,
    open_positions.LAYOUT,
    experience.LAYOUT,
    horizons.LAYOUT,
    rules.LAYOUT,
    citations.LAYOUT,
)
CAPS = {layout.name: layout.cap for layout in MARKET} | {layout.name: layout.cap for layout in OWN}


def assemble(situation: Situation) -> Packet:
    """The packet of a situation."""
    agent, remembers = situation.deployment.agent, situation.deployment.agent.context.memory
    system = system_of(agent, situation.lessons if remembers else None)
    drawn = [*draw_market(situation.market), *_own(situation, lessons=system.lessons_tokens)]
    text = user_text([each.text for each in drawn])
    counts = {each.section.name: each.tokens for each in drawn}
    cited = next((len(each.section.rows) for each in drawn if each.section.name == "citations"), 0)
    return Packet(
        agent=agent.name,
        symbol=situation.symbol,
        as_of=situation.as_of,
        renderer=RENDERER,
        system=system.text,
        text=text,
        sections=tuple(each.section for each in drawn),
        # The empty line between two sections is one more.
        tokens=system.tokens + sum(counts.values()) + len(drawn) - 1,
        section_tokens=counts,
        inputs_sha256=sha256_hex(_inputs(system, drawn)),
        sha256=sha256_hex(f"{system.text}\n\n{text}".encode()),
        segments=system.segments,
        citations=situation.citations[:cited],
    )


@lru_cache(maxsize=512)
def draw_market(market: Market) -> tuple[Drawn, ...]:
    """The sections that depend on the market alone: equal markets give equal bytes, so agents share them."""
    built = [(layout, layout.build(market)) for layout in MARKET]
    return tuple(draw(section, layout) for layout, section in built if section is not None)


def _own(situation: Situation, *, lessons: int) -> list[Drawn]:
    """The sections that are the agent's own; closed trades get what the rest of the memory leaves them."""
    remembers = situation.deployment.agent.context.memory
    built = {layout.name: layout.build(situation) for layout in OWN if remembers or not layout.memory}
    drawn = {
        layout.name: _drawn_whole(draw(section, layout), layout, situation)
        for layout in OWN
        if layout is not recent_trades.LAYOUT and (section := built.get(layout.name)) is not None
    }
    trades = built.get(recent_trades.LAYOUT.name)
    if trades is not None:
        shared = [drawn[name].tokens for name in ("recent_activity", "open_positions") if name in drawn]
        room = MEMORY_CAP - lessons - sum(shared)
        drawn[trades.name] = draw(trades, recent_trades.LAYOUT, cap=room)
    return [drawn[layout.name] for layout in OWN if layout.name in drawn]


def _drawn_whole(drawn: Drawn, layout: Layout[Situation], situation: Situation) -> Drawn:
    if layout.whole and drawn.section.dropped:
        what = f"the {layout.name} of {situation.deployment.agent.name} take more than {layout.cap} tokens"
        raise BadInput(f"{what} and are never cut: shorten them and save the agent again")
    return drawn


def _inputs(system: System, drawn: list[Drawn]) -> bytes:
    """The canonical bytes of [system, sections], put together from those of each part."""
    return b"[%b,[%b]]" % (system.content, b",".join(each.content for each in drawn))
