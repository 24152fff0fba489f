"""A desk in a test's hands: a home, a clock, a tape and engines that say what the test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tapebook.clock import VirtualClock
from tapebook.decision import EngineAnswer
from tapebook.desk import control
from tapebook.desk.verify import OPERATIONAL_TABLES
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Mid
from tapebook.domain.order import Order
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import E8, MINUTE, SECOND, parse_instant
from tapebook.home import make_home
from tapebook.log import verify_log
from tapebook.tick.decide import Slot
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.story import deploy_agent, tick
from tapebook.wiring import BOOK_PACKAGES, Rooms

START = parse_instant("2026-01-05T06:00:00Z")
BRIEF = AgentProfile("a", ("BTC", "ETH"), cadence_ms=5 * MINUTE)


class Desk:
    """Everything at hand, one agent by default."""

    def __init__(self, rooms: Rooms, clock: VirtualClock) -> None:
        self.rooms = rooms
        self.clock = clock

    def hire(self, profile: AgentProfile = BRIEF) -> Deployment:
        """Saves an agent and deploys it."""
        self.rooms.book.save_agent(profile, at=self.clock.now())
        return deploy_agent(self.rooms.book, self.rooms.clock, profile.name)

    def quote(self, **prices: float) -> None:
        """What the market says now."""
        bucket = self.clock.now() - self.clock.now() % (5 * SECOND)
        self.rooms.tape.commit([Mid(symbol, bucket, round(price * E8)) for symbol, price in prices.items()])

    def later(self, ms: int, **prices: float) -> None:
        """Time passes; then the market says something."""
        self.clock.advance(self.clock.now() + ms)
        if prices:
            self.quote(**prices)

    def say(self, deployment: Deployment, text: str, *, symbol: str = "BTC") -> DecisionRun:
        """A tick whose engine answers with this text."""

        def ask(_decide: object, _packet: Packet) -> EngineAnswer:
            return EngineAnswer(text)

        return tick(self.rooms, Slot(deployment, symbol, self.clock.now()), ask=ask)

    def work(self, deployment: Deployment) -> None:
        """What a desk does between ticks."""
        execute_orders(self.rooms, deployment)
        reconcile_account(self.rooms, deployment)

    def halt(self, subject: str, *, reason: str) -> control.HaltReport:
        """No decision of a deployment is carried out any more; of none, for the whole home."""
        return control.halt(self.rooms.book, self.rooms.log, self.rooms.clock, subject, reason=reason)

    def resume(self, subject: str, *, reason: str) -> control.HaltReport:
        """Ends what a halt began."""
        return control.resume(self.rooms.book, self.rooms.log, self.rooms.clock, subject, reason=reason)

    def working(self, deployment: Deployment) -> list[Order]:
        """Orders that have not ended."""
        return [order for order, _ in self.rooms.book.working_orders(deployment.id)]

    def order(self, deployment: Deployment) -> tuple[str, str]:
        """Status and detail of the newest order."""
        (known,) = self.rooms.book.orders(deployment.id, working=False, most=1)
        return known.status, known.detail

    def held(self, deployment: Deployment) -> dict[str, int]:
        """Sizes by symbol."""
        account = self.rooms.book.account(deployment.id, seq=self.rooms.book.head(deployment.id))
        return {symbol: held.size_e8 for symbol, held in account.portfolio.positions.items()}

    def is_whole(self) -> bool:
        """Whether the log, its tables and the cash agree."""
        found = verify_log(
            self.rooms.log, self.rooms.book_db, packages=BOOK_PACKAGES, operational=OPERATIONAL_TABLES, anchors={}
        )
        return not found and not self.rooms.book.cash_differences()


@contextmanager
def desk(home: Path, *, settings: str = "") -> Iterator[Desk]:
    """A desk on a new home."""
    make_home(home)
    if settings:
        (home / "tapebook.toml").write_text(settings, "utf-8")
    clock = VirtualClock(START)
    rooms = Rooms(home, clock=clock)
    try:
        yield Desk(rooms, clock)
    finally:
        rooms.close()


def reply(action: str, side: str | None = None, usd: float = 0.0, *, symbol: str = "BTC", **fields: Any) -> str:
    """A reply with one action."""
    body = {"action": action, "symbol": symbol, "side": side, "notional_usd": usd, "reason": "because"} | fields
    return json.dumps({"actions": [body]})


def holding(floor: Desk) -> Deployment:
    """An agent with 5 BTC, and a bid for ETH that nobody takes."""
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 500))
    floor.later(10_000, BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 300, symbol="ETH", order_type="limit", limit_price=9.9), symbol="ETH")
    assert floor.held(agent) == {"BTC": 500_000_000} and len(floor.working(agent)) == 1
    return agent
