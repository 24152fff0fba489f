"""A situation becomes a packet: a pure function with canonical bytes.

1. the system message is written in segments (`system_of`);
2. each section makes its typed rows, and `render.draw` keeps those that fit its cap and writes the text; what was
   drawn for the packet before stays (`Board`, `Panel`), and what depends on the market alone is drawn once for all
   agents that see it (`draw_market`);
3. activity, closed trades, open positions and lessons share one budget: the oldest trades give way (`_own`);
4. two hashes are taken: `inputs_sha256` over the typed sections, `sha256` over the text.
"""

from functools import lru_cache
from typing import Any

from tapebook.context.budget import MEMORY_CAP
from tapebook.context.panel import Panel
from tapebook.context.render import RENDERER, Drawn, user_text
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
from tapebook.domain.agent import AgentProfile, ContextProfile
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.memo import Memo
from tapebook.domain.memory import Lessons
from tapebook.domain.packet import Packet
from tapebook.errors import BadInput

MARKET: tuple[Layout[Market, Any], ...] = (bars.LAYOUT, market.LAYOUT)
OWN: tuple[Layout[Situation, Any], ...] = (
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
    agent = situation.deployment.agent
    symbol = situation.market.symbol
    board = own_board(situation.deployment.id, symbol, agent.context)
    system = board.system((agent, situation.lessons if agent.context.memory else None))
    drawn = [*draw_market(situation.market), *_own(situation, board.panels, lessons=system.lessons_tokens)]
    sections = tuple([each.section for each in drawn])
    counts = {each.section.name: each.tokens for each in drawn}
    cited = len(sections[-1].rows) if sections[-1].name == citations.LAYOUT.name else 0
    return Packet(
        agent=agent.name,
        symbol=symbol,
        as_of=situation.as_of,
        renderer=RENDERER,
        system=system.text,
        text=user_text([each.text for each in drawn]),
        sections=sections,
        # The empty line between two sections is one more.
        tokens=system.tokens + sum(counts.values()) + len(drawn) - 1,
        section_tokens=counts,
        inputs_sha256=sha256_hex(_inputs(system, drawn)),
        sha256=sha256_hex(b"\n\n".join([system.encoded, *[each.encoded for each in drawn]])),
        segments=system.segments,
        citations=situation.citations[:cited],
    )


def draw_market(seen: Market) -> list[Drawn]:
    """The sections that depend on the market alone: equal markets give equal bytes, so agents share them."""
    board = market_board(seen.symbol, seen.bar_minutes, len(seen.bars))
    return [drawn for panel in board if (drawn := panel.drawn(seen)) is not None]


@lru_cache(maxsize=512)
def market_board(_symbol: str, _minutes: int, _count: int) -> tuple[Panel[Market], ...]:
    """The panels of all who look at bars of one size."""
    return tuple(Panel(layout) for layout in MARKET)


class Board:
    """What stays from one packet of an agent on a symbol to the next: the system message and the panels."""

    def __init__(self, context: ContextProfile) -> None:
        self.system: Memo[tuple[AgentProfile, Lessons | None], System] = Memo(lambda seen: system_of(*seen))
        self.panels = [Panel(layout) for layout in OWN if context.memory or not layout.memory]


@lru_cache(maxsize=512)
def own_board(_deployment: str, _symbol: str, context: ContextProfile) -> Board:
    """The board of one agent on one symbol; its shadow, which has another context, has another."""
    return Board(context)


def _own(situation: Situation, panels: list[Panel[Situation]], *, lessons: int) -> list[Drawn]:
    """The sections that are the agent's own; closed trades get what the rest of the memory leaves them."""
    found: list[Drawn] = []
    room, place, trades = MEMORY_CAP - lessons, 0, None
    for panel in panels:
        layout = panel.layout
        if layout is recent_trades.LAYOUT:
            trades, place = panel, len(found)
        elif (each := panel.drawn(situation)) is not None:
            found.append(each)
            if layout is recent_activity.LAYOUT or layout is open_positions.LAYOUT:
                room -= each.tokens
            elif layout.whole and each.section.dropped:
                raise _cut(layout.name, situation.deployment.agent.name)
    if trades is not None and (each := trades.drawn(situation, cap=room)) is not None:
        found.insert(place, each)
    return found


def _cut(name: str, agent: str) -> BadInput:
    what = f"the {name} of {agent} take more than {CAPS[name]} tokens"
    return BadInput(f"{what} and are never cut: shorten them and save the agent again")


def _inputs(system: System, drawn: list[Drawn]) -> bytes:
    """The canonical bytes of [system, sections], put together from those of each part."""
    return b"".join((b"[", system.content, b",[", b",".join([each.content for each in drawn]), b"]]"))
