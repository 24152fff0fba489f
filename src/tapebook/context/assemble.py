"""A situation becomes a packet: a pure function with canonical bytes.

1. the system message is written in segments (`system_of`);
2. each section makes its typed rows, and `render.draw` keeps those that fit its cap and writes the text; what was
   drawn for the packet before stays (`Board`, `Panel`), and what depends on the market alone is drawn once for all
   agents that see it (`draw_market`);
3. activity, closed trades, open positions and lessons share one budget: the oldest trades give way (`_own`);
4. two hashes are taken: `inputs_sha256` over the typed sections, `sha256` over the text.
"""

import hashlib
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
from tapebook.domain.memo import Memo
from tapebook.domain.memory import Lessons
from tapebook.domain.packet import Packet

MARKET: tuple[Layout[Market, Any], ...] = (bars.LAYOUT, market.LAYOUT)
# The closed trades get what those beside them leave.
BEFORE_TRADES: tuple[Layout[Situation, Any], ...] = (
    portfolio.LAYOUT,
    last_decision.LAYOUT,
    recent_activity.LAYOUT,
)
AFTER_TRADES: tuple[Layout[Situation, Any], ...] = (
    open_positions.LAYOUT,
    experience.LAYOUT,
    horizons.LAYOUT,
    rules.LAYOUT,
    citations.LAYOUT,
)
OWN = (*BEFORE_TRADES, recent_trades.LAYOUT, *AFTER_TRADES)
CAPS = {layout.name: layout.cap for layout in MARKET} | {layout.name: layout.cap for layout in OWN}


def assemble(situation: Situation) -> Packet:
    """The packet of a situation."""
    seen, agent = situation.market, situation.deployment.agent
    board = own_board(situation.deployment.id, seen.symbol, agent.context)
    system = board.system((agent, situation.lessons if agent.context.memory else None))
    drawn = draw_market(seen) + _own(situation, board, lessons=system.lessons_tokens)
    names, sections, texts, encoded, tokens, contents, openings = zip(*drawn, strict=True)
    cited = len(sections[-1].rows) if names[-1] == citations.LAYOUT.name else 0
    return Packet(
        agent=agent.name,
        symbol=seen.symbol,
        as_of=situation.as_of,
        renderer=RENDERER,
        system=system.text,
        text=user_text(texts),
        sections=sections,
        # The empty line between two sections is one more.
        tokens=system.tokens + sum(tokens) + len(names) - 1,
        section_tokens=dict(zip(names, tokens, strict=True)),
        inputs_sha256=board.inputs_sha256(system.content, openings[0], contents),
        sha256=board.sha256(system.encoded, encoded),
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
    """What stays from one packet of an agent on a symbol to the next: the system message and the panels.

    Both hashes begin with what seldom changes: the system message, and for the inputs the rows of the bars. So that
    this is not gone through again, a hash that has seen it and nothing else is kept, and copied to go on.
    """

    def __init__(self, context: ContextProfile) -> None:
        self.system: Memo[tuple[AgentProfile, Lessons | None], System] = Memo(lambda seen: system_of(*seen))
        self.before_trades, self.after_trades = (
            [Panel(layout) for layout in layouts if context.memory or not layout.memory]
            for layouts in (BEFORE_TRADES, AFTER_TRADES)
        )
        self.trades = Panel(recent_trades.LAYOUT) if context.memory else None
        self._begun_text = Memo(hashlib.sha256)
        self._begun_inputs = Memo(_begun)

    def sha256(self, system: bytes, sections: tuple[bytes, ...]) -> str:
        """The hash of both messages, an empty line between two sections."""
        digest = self._begun_text(system).copy()
        digest.update(b"\n\n".join((b"", *sections)))
        return digest.hexdigest()

    def inputs_sha256(self, system: bytes, opening: bytes, sections: tuple[bytes, ...]) -> str:
        """The hash of the canonical bytes of [system, sections]; the first section begins with the opening."""
        digest = self._begun_inputs((system, opening)).copy()
        digest.update(b"%b]]" % b",".join(sections)[len(opening) :])
        return digest.hexdigest()


def _begun(parts: tuple[bytes, bytes]) -> "hashlib._Hash":
    """The hash of the inputs as far as the title of the first section."""
    return hashlib.sha256(b"[%b,[%b" % parts)


@lru_cache(maxsize=512)
def own_board(_deployment: str, _symbol: str, context: ContextProfile) -> Board:
    """The board of one agent on one symbol; its shadow, which has another context, has another."""
    return Board(context)


def _own(situation: Situation, board: Board, *, lessons: int) -> list[Drawn]:
    """The sections that are the agent's own; closed trades get what the rest of the memory leaves them."""
    found = [panel.drawn(situation) for panel in board.before_trades]
    after = [panel.drawn(situation) for panel in board.after_trades]
    if board.trades is not None:
        room = MEMORY_CAP - lessons - sum([each.tokens for each in (found[-1], after[0]) if each is not None])
        found.append(board.trades.drawn(situation, min(room, recent_trades.LAYOUT.cap)))
    found += after
    return [each for each in found if each is not None]
