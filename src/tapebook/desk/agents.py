"""Agents and their deployments: added, changed, removed, and listed.

A change is laid over the newest version, checked, and saved as the next one (`add_agent`, `edit_agent`). It is
deployed by whoever decides for it next (`tick.story.deploy_agent`).
`DeploymentDirectory` gives the deployments of enabled agents; it is read again only when the owner's stream has
moved.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from tapebook.book.decision_queue import DecisionQueue
from tapebook.book.store import Book
from tapebook.broker import Broker
from tapebook.broker.margin import MarginTiers
from tapebook.broker.port import trades_elsewhere
from tapebook.clock import Clock
from tapebook.context import oversize_problems
from tapebook.decision import Engine, default_members
from tapebook.domain.agent import AgentProfile, Deployment, context_for_horizon, deployment_id, is_dry_run
from tapebook.domain.market import TRADED_KINDS
from tapebook.domain.text import plural, sanitise_lines
from tapebook.domain.units import E6, decimal_text, iso_text, notional_usd_e6
from tapebook.errors import BadInput
from tapebook.lessons import Reflector
from tapebook.library.entries import ManualFiles, write_manual_file
from tapebook.settings.config import Config
from tapebook.settings.profiles import apply_settings, differences, require_name
from tapebook.tape.registry import ListedAsset
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.quotes import position_marks
from tapebook.wiring import Rooms


class DeploymentDirectory:
    """The deployments of a home."""

    def __init__(self, book: Book, work: DecisionQueue, broker: Callable[[str], Broker]) -> None:
        self._book = book
        self._work = work
        self._broker = broker
        self._seq = -1
        self._enabled: list[Deployment] = []
        self._profiles: dict[tuple[str, int], AgentProfile] = {}

    def enabled_deployments(self) -> list[Deployment]:
        """Deployments of enabled agents at their newest version, without those of bots that decide by themselves.

        BadInput when two of them share an account.
        """
        seq = self._book.head()
        if seq != self._seq:
            enabled = [(version, profile) for version, profile in self._book.agents() if profile.enabled]
            agents = [(version, profile) for version, profile in enabled if not trades_elsewhere(profile.broker)]
            owner = self._book.owner
            found = [Deployment(owner, deployment_id(profile), profile, version) for version, profile in agents]
            refuse_shared_accounts(found, self._account)
            self._enabled, self._seq = found, seq
        return self._enabled

    def opened_deployment(self, deployment: str) -> Deployment | None:
        """A deployment at the version it was opened with last, whether its agent is enabled or not."""
        found = self._work.deployed_agent(deployment)
        if found is None:
            return None
        if found not in self._profiles:
            saved = self._book.agent(found[0], version=found[1])
            if saved is None:
                return None
            self._profiles[found] = saved[1]
        return Deployment(self._book.owner, deployment, self._profiles[found], found[1])

    def _account(self, deployment: Deployment) -> str | None:
        # A dry run has no account, and must not need the keys of an exchange.
        return None if is_dry_run(deployment.id) else self._broker(deployment.agent.broker).account


def refuse_shared_accounts(deployments: Iterable[Deployment], account_of: Callable[[Deployment], str | None]) -> None:
    """Two agents on one exchange account would trade against each other's positions: BadInput names both."""
    first: dict[str, str] = {}
    for deployment in deployments:
        account = account_of(deployment)
        if account is None:
            continue
        other = first.setdefault(account, deployment.id)
        if other != deployment.id:
            raise BadInput(f"{other} and {deployment.id} are on one account ({account}): disable one of the two agents")


class SavedAgent(msgspec.Struct, frozen=True):
    """An agent after it was added or changed: what differs from before, and what its owner should know.

    `warnings` are about what it holds and nobody decides on any more, and about what the exchange does not have.
    """

    name: str
    version: int
    new: bool
    changes: list[dict[str, Any]]
    notes: list[str]
    warnings: list[str]


class RemovedAgent(msgspec.Struct, frozen=True):
    """An agent that was removed, with the version that ended it."""

    name: str
    version: int
    reason: str


MAX_REASON_CHARACTERS = 500


def add_agent(rooms: Rooms, name: str, settings: Mapping[str, Any], *, reason: str = "") -> SavedAgent:
    """A new agent; what is not written has its default."""
    require_name(name)
    before, removed_at = rooms.book.agent(name), rooms.book.removed_at(name)
    if before is not None and removed_at is None:
        raise BadInput(f"there is an agent called {name!r} already: change it with `tapebook agents edit {name}`")
    if "watch" not in settings:
        raise BadInput(f"{name} would watch nothing: name symbols with `watch=`, or `watch` in the file")
    blank = AgentProfile(name, (), context=context_for_horizon("intraday"))
    if before is not None:
        blank = msgspec.structs.replace(blank, starting_cash_usd_e6=before[1].starting_cash_usd_e6)
    after = apply_settings(blank, _require_same_name(name, settings))
    saved = _save_agent(rooms, blank, after, new=True, reason=reason)
    if before is None or removed_at is None or not rooms.book.deployments(name):
        return saved
    # A name is a stream of the log: one that had begun has its account, and no second one.
    again = f"{name} was removed at {iso_text(removed_at)} and goes on with its account, its trades and what it learned"
    return msgspec.structs.replace(saved, notes=[*saved.notes, f"{again}; another name begins anew"])


def edit_agent(rooms: Rooms, name: str, settings: Mapping[str, Any], *, reason: str = "") -> SavedAgent:
    """An agent with changes, and why; the same as before makes no new version."""
    before = rooms.book.find_agent(name).agent
    after = apply_settings(before, _require_same_name(name, settings))
    return _save_agent(rooms, before, after, new=False, reason=reason)


def remove_agent(book: Book, clock: Clock, name: str, *, reason: str) -> RemovedAgent:
    """Ends an agent: it decides no more, and all it did can be read as before. One that holds something stays."""
    book.find_agent(name)
    held, orders = set[str](), 0
    for deployment, _ in book.deployments(name):
        held |= book.account(deployment, seq=book.head(deployment)).portfolio.positions.keys()
        orders += len(book.working_orders(deployment))
    if held or orders:
        what = f"holds {', '.join(sorted(held))}" if held else "has an order under way"
        raise BadInput(f"{name} {what}: close it with `tapebook flatten {name}`, then remove the agent")
    version = book.remove_agent(name, at=clock.now(), reason=reason)
    return RemovedAgent(name, version, reason)


def _require_same_name(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    if settings.get("name", name) != name:
        raise BadInput(f"the file is about {settings['name']!r}, not about {name!r}: name the same agent in both")
    return settings


def _save_agent(rooms: Rooms, before: AgentProfile, after: AgentProfile, *, new: bool, reason: str) -> SavedAgent:
    words = _checked_reason(reason)
    if new or after != before:
        _require_runnable(rooms.book, rooms.broker, before, after, engine=rooms.engine, reflector=rooms.reflector)
    elif words:
        raise BadInput(f"nothing of {after.name} differs, so there is no change to give a reason for: change a key too")
    if not new and after.manual != before.manual:
        _write_manual(rooms.home, before, after)
    version = rooms.book.save_agent(after, at=rooms.clock.now(), reason=words)
    warnings = [] if new else _unattended_warnings(rooms.book, rooms.tape, before, after, clock=rooms.clock)
    markets = KnownMarkets(rooms.tape, rooms.clock, rooms.config)
    if (before.watchlist, before.caps.max_leverage) != (after.watchlist, after.caps.max_leverage):
        warnings += [*markets.unknown_warnings(after), *markets.leverage_warnings(after)]
    notes = _agent_notes(rooms.tape, after, markets)
    return SavedAgent(after.name, version, new, differences(before, after), notes, warnings)


def _write_manual(home: Path, before: AgentProfile, after: AgentProfile) -> None:
    """Writes a changed manual to the agent's files, where it has some; refused over what a person wrote there."""
    files = ManualFiles(home, after.name)
    if files.text is None or files.text == after.manual.strip("\n"):
        return
    files.require_unedited(before.manual)
    write_manual_file(home, after.name, after.manual)


def _checked_reason(reason: str) -> str:
    """A reason as it is kept: one line, without what is not seen."""
    words = " ".join(sanitise_lines(reason))
    if len(words) > MAX_REASON_CHARACTERS:
        raise BadInput(
            f"the reason has {len(words):,} characters and at most {MAX_REASON_CHARACTERS} are kept: shorten it"
        )
    return words


def _require_runnable(
    book: Book,
    broker: Callable[[str], Broker],
    before: AgentProfile,
    after: AgentProfile,
    *,
    engine: Callable[[AgentProfile], Engine],
    reflector: Callable[[AgentProfile], Reflector],
) -> None:
    """Refuses what could not run, before it is kept."""
    for member in (entry.partition(":")[0] for entry in after.members):
        if default_members(member):
            raise BadInput(f"`members` names {member}: an engine with members of its own cannot be a member")
    # Making them asks nobody, and only an engine knows which settings it takes.
    engine(after)
    reflector(after)
    broker(after.broker)
    too_long = oversize_problems(after)
    if too_long:
        raise BadInput("; ".join(too_long))
    begun = book.head(deployment_id(after)) > 0
    if begun and after.starting_cash_usd_e6 != before.starting_cash_usd_e6:
        raise BadInput(f"{after.name} has begun with its cash already: add another agent to begin with another amount")


def _agent_notes(tape: Tape, agent: AgentProfile, markets: "KnownMarkets") -> list[str]:
    known, unknown = tape.symbols(*TRADED_KINDS), markets.unknown_symbols(agent)
    missing = [symbol for symbol in agent.watchlist if known and symbol not in known and symbol not in unknown]
    return [f"the tape has nothing of {', '.join(missing)} yet: check the spelling"] if missing else []


_MOST_NEAR = 3


class KnownMarkets:
    """What the registry says by now of the markets that agents watch.

    Imported history may be of markets that no exchange here has: what the tape has rows of can be watched too.
    """

    def __init__(self, tape: Tape, clock: Clock, config: Config) -> None:
        self._tape = tape
        self._clock = clock
        self._rows = set(tape.symbols(*TRADED_KINDS))
        self._margins = MarginTiers(config.paper.default_max_leverage)

    @cached_property
    def _assets(self) -> dict[str, ListedAsset]:
        """Read when it is asked for: that takes longer than all else here, and symbols with rows need none of it."""
        found = self._tape.registry.assets(view=View(self._clock.now()))
        return {asset.symbol: asset for asset in found}

    def unknown_symbols(self, agent: AgentProfile) -> list[str]:
        """What an agent watches that is no market which is listed, and of which nothing was imported."""
        return [symbol for symbol in agent.watchlist if symbol not in self._rows and not self._is_listed(symbol)]

    def _is_listed(self, symbol: str) -> bool:
        asset = self._assets.get(symbol)
        return asset is not None and asset.live and asset.listed

    def unknown_warnings(self, agent: AgentProfile) -> list[str]:
        """A line for each of those, with the markets that may be meant."""
        return [f"{symbol} {self.why_unknown(symbol)}" for symbol in self.unknown_symbols(agent)]

    def why_unknown(self, symbol: str) -> str:
        """What is wrong with a symbol, and what may be meant."""
        asset = self._assets.get(symbol)
        if asset is not None:
            gone = "is not listed by the exchange that this home listens to" if asset.live else "was delisted"
            return f"{gone}: `tapebook assets` lists what is"
        near = self._near(symbol)
        remedy = f"did you mean {' or '.join(near)}?" if near else "`tapebook assets` lists those there are"
        return f"is neither in the registry of markets nor in the tape: {remedy}"

    def _near(self, symbol: str) -> list[str]:
        """The listed markets whose symbol, name or search term is the same but for capitals, else the nearest ones."""
        names: dict[str, set[str]] = {each.casefold(): {each} for each in self._rows}
        for asset in self._assets.values():
            if asset.live and asset.listed:
                # Coins worth little are listed by the thousand; those of another dex are behind its name.
                ticker = asset.symbol.removeprefix("k").rpartition(":")[2]
                for name in (ticker, *asset.terms, asset.name, asset.symbol):
                    names.setdefault(name.casefold(), set()).add(asset.symbol)
        wanted = symbol.casefold()
        near = [wanted] if wanted in names else get_close_matches(wanted, sorted(names), _MOST_NEAR, 0.75)
        found = list(dict.fromkeys(each for name in near for each in sorted(names[name])))
        # Perps of the main dex are meant, if there are any.
        return [each for each in found if not _is_elsewhere(each)] or found[:_MOST_NEAR]

    def leverage_warnings(self, agent: AgentProfile) -> list[str]:
        """That an agent may ask for more leverage than its symbols are given; nothing if it may not."""
        unknown, cap = self.unknown_symbols(agent), agent.caps.max_leverage
        most = {symbol: self._max_leverage(symbol) for symbol in agent.watchlist if symbol not in unknown}
        less = [f"{symbol} ({allowed})" for symbol, allowed in most.items() if allowed < cap]
        if not less:
            return []
        words = f"max_leverage {cap} is more than the exchange allows for {', '.join(less)}"
        return [f"{words}: what asks for more is refused"]

    def _max_leverage(self, symbol: str) -> int:
        """The leverage that the paper broker gives: the registry's, or that of its tables."""
        asset = self._assets.get(symbol)
        return self._margins.max_leverage(symbol, 0, listed=asset.max_leverage if asset and asset.live else None)


def _is_elsewhere(symbol: str) -> bool:
    return ":" in symbol or symbol.startswith("@") or "/" in symbol


def _unattended_warnings(
    book: Book, tape: Tape, before: AgentProfile, after: AgentProfile, *, clock: Clock
) -> list[str]:
    """What a change leaves in the market without anybody who decides on it, and what becomes of that."""
    # The executor follows every position and order, whoever watches the symbol: margin, funding, fills, settlement.
    moved = deployment_id(before) != deployment_id(after)
    stopped = before.enabled and not after.enabled
    left = set(before.watchlist) - set(after.watchlist)
    if not (moved or stopped or left):
        return []
    deployment = deployment_id(before)
    account = book.account(deployment, seq=book.head(deployment))
    held = account.portfolio.positions
    # What is on its way to make it flat is nobody's worry.
    placed = [order.symbol for order, sent in book.working_orders(deployment) if sent and order.run_id]
    alone = {*held, *placed} if moved or stopped else left & {*held, *placed}
    when = "while it is disabled" if stopped and not moved else "any more"
    marks = position_marks(tape, held.values(), view=View(clock.now()))
    warnings = []
    for symbol in sorted(alone):
        command = f"`tapebook flatten {after.name} --symbol {symbol}`"
        if symbol in held:
            side = "long" if held[symbol].size_e8 > 0 else "short"
            usd = decimal_text(abs(notional_usd_e6(held[symbol].size_e8, marks[symbol])), E6, 2)
            what = f"{after.name} holds {symbol} {side} {usd} USD"
            warnings.append(f"{what}: nobody decides on it {when}; margin and funding go on; {command} closes it")
        if symbol in placed:
            many = placed.count(symbol) > 1
            what = f"{after.name} has {plural(placed.count(symbol), 'order')}"
            it, them = ("they", "them") if many else ("it", "it")
            warnings.append(f"{what} for {symbol} at the broker: {it} can still fill; {command} cancels {them}")
    return warnings
