"""Agents are added and changed: what was written is laid over the newest version, checked, and saved as the next."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tapebook import plug
from tapebook.broker.margin import Margins, listed_symbols
from tapebook.context import oversize
from tapebook.domain.agent import AgentProfile, context_of, deployment_id
from tapebook.domain.instants import iso
from tapebook.domain.money import E6, decimal_text, notional_usd_e6
from tapebook.domain.text import plural
from tapebook.errors import BadInput
from tapebook.loop.deploy import require_agent
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.profiles import changed, differences, require_name
from tapebook.tape.store import View
from tapebook.wiring import Rooms

ENGINES = "tapebook.decision.engines"
BROKERS = "tapebook.broker.brokers"


class Saved(msgspec.Struct, frozen=True):
    """An agent after it was added or changed: what differs from before, and what its owner should know.

    `warnings` are about what it holds and nobody decides on any more, and about what the exchange does not have.
    """

    name: str
    version: int
    new: bool
    changes: list[dict[str, Any]]
    notes: list[str]
    warnings: list[str]


class Removed(msgspec.Struct, frozen=True):
    """An agent that was removed, with the version that ended it."""

    name: str
    version: int
    reason: str


def add(rooms: Rooms, name: str, settings: Mapping[str, Any]) -> Saved:
    """A new agent; what is not written has its default."""
    require_name(name)
    before, removed_at = rooms.book.agent(name), rooms.book.removed_at(name)
    if before is not None and removed_at is None:
        raise BadInput(f"there is an agent called {name!r} already: change it with `tapebook agents edit {name}`")
    if "watch" not in settings:
        raise BadInput(f"{name} would watch nothing: name symbols with --watch, or `watch` in the file")
    blank = AgentProfile(name, (), context=context_of("intraday"))
    if before is not None:
        blank = msgspec.structs.replace(blank, starting_cash_usd_e6=before[1].starting_cash_usd_e6)
    saved = _save(rooms, blank, changed(blank, _own(name, settings)), new=True)
    if before is None or removed_at is None or not rooms.book.deployments(name):
        return saved
    # A name is a stream of the log: one that had begun has its account, and no second one.
    again = f"{name} was removed at {iso(removed_at)} and goes on with its account, its trades and what it learned"
    return msgspec.structs.replace(saved, notes=[*saved.notes, f"{again}; another name begins anew"])


def edit(rooms: Rooms, name: str, settings: Mapping[str, Any]) -> Saved:
    """An agent with changes; the same as before makes no new version."""
    _, before = require_agent(rooms.book, name)
    return _save(rooms, before, changed(before, _own(name, settings)), new=False)


def remove(rooms: Rooms, name: str, *, reason: str) -> Removed:
    """Ends an agent: it decides no more, and all it did can be read as before. One that holds something stays."""
    require_agent(rooms.book, name)
    held, orders = set[str](), 0
    for deployment, _ in rooms.book.deployments(name):
        held |= rooms.book.account(deployment, seq=rooms.book.head(deployment)).portfolio.positions.keys()
        orders += len(rooms.book.working_orders(deployment))
    if held or orders:
        what = f"holds {', '.join(sorted(held))}" if held else "has an order under way"
        raise BadInput(f"{name} {what}: close it with `tapebook flatten {name}`, then remove the agent")
    version = rooms.book.remove_agent(name, at=rooms.clock.now(), reason=reason)
    return Removed(name, version, reason)


def _own(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    if settings.get("name", name) != name:
        raise BadInput(f"the file is about {settings['name']!r}, not about {name!r}: name the same agent in both")
    return settings


def _save(rooms: Rooms, before: AgentProfile, after: AgentProfile, *, new: bool) -> Saved:
    if new or after != before:
        _check(rooms, before, after)
    version = rooms.book.save_agent(after, at=rooms.clock.now())
    warnings = [] if new else _left_alone(rooms, before, after)
    if (before.watchlist, before.caps.max_leverage) != (after.watchlist, after.caps.max_leverage):
        warnings += [*_unlisted_words(rooms, after), *leverage_words(rooms, after)]
    return Saved(after.name, version, new, differences(before, after), _notes(rooms, after), warnings)


def _check(rooms: Rooms, before: AgentProfile, after: AgentProfile) -> None:
    """Refuses what could not run, before it is kept."""
    for folder, names in ((ENGINES, _engines(rooms, after)), (BROKERS, [after.broker])):
        for name in names:
            plug.load(folder, name)
    if any(member.partition(":")[0] == "ensemble" for member in after.members):
        raise BadInput("`members` names ensemble: an ensemble cannot be a member of an ensemble")
    too_long = oversize(after)
    if too_long:
        raise BadInput("; ".join(too_long))
    begun = rooms.book.head(deployment_id(after)) > 0
    if begun and after.starting_cash_usd_e6 != before.starting_cash_usd_e6:
        raise BadInput(f"{after.name} has begun with its cash already: add another agent to begin with another amount")


def _engines(rooms: Rooms, agent: AgentProfile) -> list[str]:
    return [agent.engine or rooms.config.engine.default, *(member.partition(":")[0] for member in agent.members)]


def _notes(rooms: Rooms, agent: AgentProfile) -> list[str]:
    known, unlisted = rooms.tape.symbols(), unlisted_symbols(rooms, agent)
    missing = [symbol for symbol in agent.watchlist if known and symbol not in known and symbol not in unlisted]
    return [f"the tape has nothing of {', '.join(missing)} yet: check how it is written"] if missing else []


def unlisted_symbols(rooms: Rooms, agent: AgentProfile) -> list[str]:
    """What an agent watches of which neither the tape nor the exchange's table knows anything."""
    known = listed_symbols()[1] | set(rooms.tape.symbols())
    # The table is of the main dex: perps of others have a name with their dex, and nobody listed them here.
    return [symbol for symbol in agent.watchlist if symbol not in known and ":" not in symbol]


def _unlisted_words(rooms: Rooms, agent: AgentProfile) -> list[str]:
    day, listed = listed_symbols()
    known = {symbol.lower(): symbol for symbol in sorted({*listed, *rooms.tape.symbols()})}
    said = []
    for symbol in unlisted_symbols(rooms, agent):
        # Coins worth little are listed by the thousand.
        meant = known.get(symbol.lower()) or known.get(f"k{symbol.lower()}")
        remedy = f"did you mean {meant}?" if meant else "check how it is written"
        said.append(f"{symbol} is neither in the tape nor listed by the exchange on {day}: {remedy}")
    return said


def leverage_words(rooms: Rooms, agent: AgentProfile) -> list[str]:
    """That an agent may ask for more leverage than its symbols are given; nothing if it may not."""
    margins, cap = Margins(rooms.config.paper.default_max_leverage), agent.caps.max_leverage
    unlisted = unlisted_symbols(rooms, agent)
    most = {symbol: margins.max_leverage(symbol, 0) for symbol in agent.watchlist if symbol not in unlisted}
    less = [f"{symbol} ({allowed})" for symbol, allowed in most.items() if allowed < cap]
    if not less:
        return []
    return [f"max_leverage {cap} is more than the exchange allows for {', '.join(less)}: what asks for more is refused"]


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
