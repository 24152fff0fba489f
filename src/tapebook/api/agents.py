"""Agents: list, add, change, remove, halt, resume and flatten them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import msgspec

from tapebook.api.open_home import AsOf, HomePart
from tapebook.book.store import Book
from tapebook.desk import agents, control
from tapebook.desk.agents import RemovedAgent, SavedAgent
from tapebook.desk.control import FlattenReport, HaltReport
from tapebook.domain.agent import AgentProfile, deployment_id
from tapebook.domain.units import E6, iso_text
from tapebook.settings import profiles


class ProfileView(TypedDict):
    """An agent's profile by the keys of docs/agents.md, with its name, its version and its end, if any."""

    name: str
    version: int
    watch: list[str]
    engine: str
    engine_settings: dict[str, Any]
    model: str
    members: list[str]
    broker: str
    mode: Literal["trade", "dry_run"]
    every_minutes: float
    strategy: str
    avoid: list[str]
    manual: str
    cash_usd: float
    margin: Literal["cross", "isolated"]
    horizon: str
    bar_minutes: int
    bar_count: int
    recent_trades_k: int
    predictions: list[str]
    macro: list[str]
    memory: str
    max_position_usd: float
    max_account_usd: float
    max_daily_loss_usd: float
    min_notional_usd: float
    max_leverage: int
    max_orders_per_hour: int
    max_price_deviation_bps: float
    max_data_age_seconds: float
    cooldown_minutes: float
    max_model_usd_per_run: float
    max_model_usd_per_day: float
    reflection: str
    reflection_trades: int
    reflector: str
    follow_lessons: str
    skills: list[str]
    experience: bool
    max_memory_size: int
    learning_rate: float
    context_window: int
    neighbours: int
    calibrated_sizing: bool
    enabled: bool
    shadow: dict[str, Any] | None
    removed: str | None


class AgentView(ProfileView):
    """An agent, where it runs, and how its trades did."""

    deployment: str | None
    closed_trades: int
    net_pnl_usd: float
    dry_orders: int


class Agents(HomePart):
    """The agents of a home."""

    def agents(self, *, removed: bool = False, as_of: AsOf = None) -> list[ProfileView]:
        """Every agent with its newest profile, or that of a moment; when asked, those too that were removed."""
        with self._home.read() as rooms:
            book = rooms.book
            if as_of is not None:
                moment = self._home.moment(as_of)
                then = [book.agent_as_of(name, as_of=moment, removed=removed) for name in book.agent_names()]
                return [profile_view(*found) for found in then if found is not None]
            return [
                profile_view(version, profile, removed_at=book.removed_at(profile.name) if removed else None)
                for version, profile in book.agents(removed=removed)
            ]

    def agent(self, name: str, *, version: int | None = None, as_of: AsOf = None) -> AgentView:
        """One agent: its newest profile or an older one, where it runs, and how its trades did.

        As it stands, or stood at a moment; a given version has the results of that moment.
        """
        with self._home.read() as rooms:
            book, moment = rooms.book, None if as_of is None else self._home.moment(as_of)
            profile_of = moment if version is None else None
            deployment = book.find_agent(name, version=version, as_of=profile_of, removed=True)
            dry = deployment_id(msgspec.structs.replace(deployment.agent, mode="dry_run"))
            own_seq, dry_seq = (
                book.head(each) if moment is None else book.seq_as_of(each, moment) for each in (deployment.id, dry)
            )
            totals = book.trade_totals(deployment.id, seq=own_seq)
            gone = book.removed_at(name) if version is None and moment is None else None
            return {
                **profile_view(deployment.version, deployment.agent, removed_at=gone),
                "deployment": deployment.id if own_seq else None,
                "closed_trades": totals.count,
                "net_pnl_usd": totals.net_usd_e6 / E6,
                "dry_orders": book.dry_order_count(dry, seq=dry_seq),
            }

    def add_agent(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        *,
        file: str | Path | None = None,
        reason: str = "",
    ) -> SavedAgent:
        """A new agent, by the keys of docs/agents.md, from a TOML file, or both; what is given here wins."""
        with self._home.write() as rooms:
            return agents.add_agent(rooms, name, _settings_from(settings, file), reason=reason)

    def edit_agent(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        *,
        file: str | Path | None = None,
        reason: str = "",
    ) -> SavedAgent:
        """Changes an agent: a new version with its reason, which recall finds later, unless nothing differs."""
        with self._home.write() as rooms:
            return agents.edit_agent(rooms, name, _settings_from(settings, file), reason=reason)

    def remove_agent(self, name: str, *, reason: str = "by hand") -> RemovedAgent:
        """Ends an agent that holds nothing; its runs, orders, trades and lessons can be read as before."""
        with self._home.write() as rooms:
            return agents.remove_agent(rooms.book, rooms.clock, name, reason=reason)

    def halt(self, agent: str | None = None, *, reason: str = "by hand") -> HaltReport:
        """Stops an agent, or all of them, from sending orders; a running desk obeys within a tick."""
        with self._home.write() as rooms:
            return control.halt(rooms.book, rooms.log, rooms.clock, _scope(rooms.book, agent), reason=reason)

    def resume(self, agent: str | None = None, *, reason: str = "by hand") -> HaltReport:
        """Ends the halt of an agent, or that of the whole desk."""
        with self._home.write() as rooms:
            return control.resume(rooms.book, rooms.log, rooms.clock, _scope(rooms.book, agent), reason=reason)

    def flatten(
        self, agent: str | None = None, *, symbol: str | None = None, reason: str = "by hand"
    ) -> list[FlattenReport]:
        """Cancels the orders and closes the positions of an agent, or of all, in one symbol or in all of them.

        The agent may trade again unless it is halted.
        """
        with self._home.write() as rooms:
            name = rooms.book.find_agent(agent, removed=True).agent.name if agent else ""
            found = [deployment for deployment, _ in rooms.book.deployments(name)]
            if symbol is not None:
                control.require_traded(rooms.book, rooms.work, found, symbol, broker=rooms.broker)
            self._home.catch_up()
            flattened = control.flatten(rooms, found, reason=reason, symbol=symbol or "")
            if not self._home.play_market_on(found):
                return flattened
            return [_split_closing(rooms.book, each) for each in flattened]


def profile_view(version: int, profile: AgentProfile, *, removed_at: int | None = None) -> ProfileView:
    """An agent as `tapebook agents` lists it."""
    end = None if removed_at is None else iso_text(removed_at)
    keys = profiles.profile_by_keys(profile)
    return cast(ProfileView, {"name": profile.name, "version": version, **keys, "removed": end})


def _scope(book: Book, agent: str | None) -> str:
    return book.find_agent(agent, removed=True).id if agent else ""


def _split_closing(book: Book, flattened: FlattenReport) -> FlattenReport:
    """What was to be closed, after the market moved on."""
    working = {order.symbol for order, _ in book.working_orders(flattened.deployment)}
    closed = [symbol for symbol in flattened.closing if symbol not in working]
    still = [symbol for symbol in flattened.closing if symbol in working]
    return msgspec.structs.replace(flattened, closing=still, closed=closed)


def _settings_from(settings: Mapping[str, Any] | None, file: str | Path | None) -> dict[str, Any]:
    return (profiles.settings_from_file(Path(file)) if file else {}) | profiles.settings_from_mapping(settings or {})
