"""Agents are added and changed: what was written is laid over the newest version, checked, and saved as the next."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tapebook import plug
from tapebook.context import oversize
from tapebook.domain.agent import AgentProfile, context_of, deployment_id
from tapebook.domain.money import E6, decimal_text, notional_usd_e6
from tapebook.domain.text import plural
from tapebook.errors import BadInput, UnknownName
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.profiles import changed, differences, require_name
from tapebook.tape.store import View
from tapebook.wiring import Rooms

ENGINES = "tapebook.decision.engines"
BROKERS = "tapebook.broker.brokers"


class Saved(msgspec.Struct, frozen=True):
    """An agent after it was added or changed: what differs from before, and what its owner should know.

    `warnings` are about what it holds and nobody decides on any more.
    """

    name: str
    version: int
    new: bool
    changes: list[dict[str, Any]]
    notes: list[str]
    warnings: list[str]


def add(rooms: Rooms, name: str, settings: Mapping[str, Any]) -> Saved:
    """A new agent; what is not written has its default."""
    require_name(name)
    if rooms.book.agent(name) is not None:
        raise BadInput(f"there is an agent called {name!r} already: change it with `tapebook agents edit {name}`")
    if "watch" not in settings:
        raise BadInput(f"{name} would watch nothing: name symbols with --watch, or `watch` in the file")
    blank = AgentProfile(name, (), context=context_of("intraday"))
    return _save(rooms, blank, changed(blank, _own(name, settings)), new=True)


def edit(rooms: Rooms, name: str, settings: Mapping[str, Any]) -> Saved:
    """An agent with changes; the same as before makes no new version."""
    found = rooms.book.agent(name)
    if found is None:
        known = ", ".join(profile.name for _, profile in rooms.book.agents()) or "none yet"
        raise UnknownName(f"there is no agent called {name!r}; agents: {known}")
    return _save(rooms, found[1], changed(found[1], _own(name, settings)), new=False)


def _own(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    if settings.get("name", name) != name:
        raise BadInput(f"the file is about {settings['name']!r}, not about {name!r}: name the same agent in both")
    return settings


def _save(rooms: Rooms, before: AgentProfile, after: AgentProfile, *, new: bool) -> Saved:
    if new or after != before:
        _check(rooms, before, after, new=new)
    version = rooms.book.save_agent(after, at=rooms.clock.now())
    warnings = [] if new else _left_alone(rooms, before, after)
    return Saved(after.name, version, new, differences(before, after), _notes(rooms, after), warnings)


def _check(rooms: Rooms, before: AgentProfile, after: AgentProfile, *, new: bool) -> None:
    """Refuses what could not run, before it is kept."""
    for folder, names in ((ENGINES, _engines(rooms, after)), (BROKERS, [after.broker])):
        for name in names:
            plug.load(folder, name)
    if any(member.partition(":")[0] == "ensemble" for member in after.members):
        raise BadInput("`members` names ensemble: an ensemble cannot be a member of an ensemble")
    too_long = oversize(after)
    if too_long:
        raise BadInput("; ".join(too_long))
    begun = not new and rooms.book.head(deployment_id(after)) > 0
    if begun and after.starting_cash_usd_e6 != before.starting_cash_usd_e6:
        raise BadInput(f"{after.name} has begun with its cash already: add another agent to begin with another amount")


def _engines(rooms: Rooms, agent: AgentProfile) -> list[str]:
    return [agent.engine or rooms.config.engine.default, *(member.partition(":")[0] for member in agent.members)]


def _notes(rooms: Rooms, agent: AgentProfile) -> list[str]:
    known = rooms.tape.symbols()
    missing = [symbol for symbol in agent.watchlist if known and symbol not in known]
    return [f"the tape has nothing of {', '.join(missing)} yet: check how it is written"] if missing else []


def _left_alone(rooms: Rooms, before: AgentProfile, after: AgentProfile) -> list[str]:
    """What a change leaves in the market without anybody who decides on it, and what becomes of that.

    The executor follows every position and order, whoever watches the symbol: margin, funding, fills, settlement.
    """
    moved = deployment_id(before) != deployment_id(after)
    stopped = before.enabled and not after.enabled
    left = set(before.watchlist) - set(after.watchlist)
    if not (moved or stopped or left):
        return []
    deployment = deployment_id(before)
    account = rooms.book.account(deployment, seq=rooms.book.head(deployment))
    held = account.portfolio.positions
    # What is on its way to make it flat is nobody's worry.
    placed = [order.symbol for order, sent in rooms.book.working_orders(deployment) if sent and order.run_id]
    alone = {*held, *placed} if moved or stopped else left & {*held, *placed}
    when = "while it is disabled" if stopped and not moved else "any more"
    marks = marks_of(TapeQuotes(rooms.tape, View(rooms.clock.now())), held.values(), at=rooms.clock.now())
    said = []
    for symbol in sorted(alone):
        command = f"`tapebook flatten {after.name} --symbol {symbol}`"
        if symbol in held:
            side = "long" if held[symbol].size_e8 > 0 else "short"
            usd = decimal_text(abs(notional_usd_e6(held[symbol].size_e8, marks[symbol])), E6, 2)
            what = f"{after.name} holds {symbol} {side} {usd} USD"
            said.append(f"{what}: nobody decides on it {when}; margin and funding go on; {command} closes it")
        if symbol in placed:
            many = placed.count(symbol) > 1
            what = f"{after.name} has {plural(placed.count(symbol), 'order')}"
            it, them = ("they", "them") if many else ("it", "it")
            said.append(f"{what} for {symbol} at the broker: {it} can still fill; {command} cancels {them}")
    return said
