"""A situation becomes a packet: a pure function with canonical bytes.

1. the system message is written in segments (`system_of`);
2. each section makes its typed rows, and `render.draw` keeps those that fit its cap and writes the text; what was
   drawn for the packet before stays (`Board`, `Panel`), and what depends on the market alone is drawn once for all
   agents that see it (`draw_market`);
3. activity, closed trades, open positions and lessons share one budget: the oldest trades give way (`_draw_own`);
4. two hashes are taken: `inputs_sha256` over the typed sections, `sha256` over the text.
"""

import hashlib
from functools import lru_cache
from typing import Any

from msgspec.structs import astuple

from tapebook.context import renderer_2, renderer_3
from tapebook.context.budget import MEMORY_CAP
from tapebook.context.panel import Panel
from tapebook.context.render import Drawn, user_text
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
from tapebook.context.versions import RENDERER
from tapebook.domain.agent import AgentProfile, ContextProfile
from tapebook.domain.memo import Memo
from tapebook.domain.memory import Lessons
from tapebook.domain.packet import Packet

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
LAYOUTS = {
    2: (renderer_2.MARKET, renderer_2.OWN),
    3: (renderer_3.MARKET, renderer_3.OWN),
    RENDERER: (MARKET, OWN),
}
"""The sections of every renderer: of the market, and of the agent's own."""

CAPS = {layout.name: layout.cap for layout in MARKET} | {layout.name: layout.cap for layout in OWN}


def assemble(situation: Situation) -> Packet:
    """The packet of a situation."""
    seen, agent = situation.market, situation.deployment.agent
    renderer = situation.renderer
    board = own_board(situation.deployment.id, seen.symbol, agent.context, renderer)
    system = board.system((agent, situation.lessons if agent.context.memory else None))
    drawn = draw_market(seen, renderer)
    _draw_own(drawn, situation, board, room=MEMORY_CAP - system.lessons_tokens)
    names, sections, texts, encoded, tokens, contents, openings = zip(*map(astuple, drawn), strict=True)
    opening, last = openings[0], sections[-1]
    inputs = board.begun_inputs((system.content, opening))
    cited = len(last.rows) if last.name == citations.LAYOUT.name else 0
    return Packet(
        agent=agent.name,
        symbol=seen.symbol,
        as_of=situation.as_of,
        renderer=renderer,
        system=system.text,
        text=user_text(texts),
        sections=sections,
        # The empty line between two sections is one more.
        tokens=system.tokens + sum(tokens) + len(tokens) - 1,
        section_tokens=dict(zip(names, tokens, strict=True)),
        inputs_sha256=_gone_on(inputs, b",".join(contents)[len(opening) :] + b"]]"),
        sha256=_gone_on(system.begun, b"\n\n".join(encoded)),
        segments=system.segments,
        citations=situation.citations[:cited],
    )


def _gone_on(begun: "hashlib._Hash", rest: bytes) -> str:
    """The hash of what a hash has seen and of the rest."""
    digest = begun.copy()
    digest.update(rest)
    return digest.hexdigest()


def draw_market(seen: Market, renderer: int = RENDERER) -> list[Drawn]:
    """The sections that depend on the market alone: equal markets give equal bytes, so agents share them."""
    found = []
    for panel in market_board(seen.symbol, seen.bar_minutes, len(seen.bars), renderer):
        drawn = panel.redrawn(seen, panel.look(seen))
        if drawn is not None:
            found.append(drawn)
    return found


@lru_cache(maxsize=512)
def market_board(_symbol: str, _minutes: int, _count: int, renderer: int) -> tuple[Panel[Market], ...]:
    """The panels of all who look at bars of one size."""
    return tuple(Panel(layout) for layout in LAYOUTS[renderer][0])


class Board:
    """What stays from one packet of an agent on a symbol to the next: the system message and the panels.

    Both hashes begin with what seldom changes: the system message, and for the inputs the rows of the bars. So that
    this is not gone through again, a hash that has seen it and nothing else is kept, and copied to go on.
    """

    def __init__(self, symbol: str, context: ContextProfile, renderer: int) -> None:
        self.system: Memo[tuple[AgentProfile, Lessons | None], System] = Memo(
            lambda seen: system_of(*seen, symbol=symbol, renderer=renderer)
        )
        own = LAYOUTS[renderer][1]
        panels = {layout.name: Panel(layout) for layout in own if context.memory or not layout.memory}
        self.panels, self.trades = tuple(panels.values()), panels.get(recent_trades.LAYOUT.name)
        self.begun_inputs = Memo(_begun)


def _begun(parts: tuple[bytes, bytes]) -> "hashlib._Hash":
    """The hash of the inputs as far as the title of the first section."""
    return hashlib.sha256(b"[%b,[%b" % parts)


@lru_cache(maxsize=512)
def own_board(_deployment: str, symbol: str, context: ContextProfile, renderer: int) -> Board:
    """The board of one agent on one symbol; its shadow, which has another context, has another."""
    return Board(symbol, context, renderer)


def _draw_own(found: list[Drawn], situation: Situation, board: Board, *, room: int) -> None:
    """Adds the sections that are the agent's own; closed trades get what the rest of the memory leaves them."""
    trades, before_trades = board.trades, 0
    for panel in board.panels:
        if panel is trades:
            before_trades = len(found)
            continue
        kept, seen = panel.kept, panel.look(situation)
        # Of most sections this is all there is to ask: their titles stay, and their caps too.
        drawn = kept.drawn if kept.seen is seen else panel.redrawn(situation, seen)
        if drawn is not None:
            found.append(drawn)
            if panel.shares:
                room -= drawn.tokens
    if trades is not None:
        drawn = trades.drawn(situation, min(room, recent_trades.LAYOUT.cap))
        if drawn is not None:
            found.insert(before_trades, drawn)
