"""The day's start is valued at midnight's marks, from the tape, whoever asks and whenever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.book.events import draft_event
from tapebook.book.materializer import TradeCause, settle_fill
from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Mid
from tapebook.domain.order import Fill
from tapebook.domain.units import E6, E8, HOUR, MINUTE, parse_instant
from tapebook.home import make_home
from tapebook.tape.view import View
from tapebook.tick.prepare import account_activity
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms

MIDNIGHT = parse_instant("2026-06-04T00:00:00Z")
AGENT = AgentProfile("a", ("BTC",), starting_cash_usd_e6=1_000 * E6)


class Night:
    """An agent that holds two bitcoins over midnight, bought at 100."""

    def __init__(self, home: Path) -> None:
        make_home(home)
        self.clock = VirtualClock(MIDNIGHT - HOUR)
        self.rooms = Rooms(home, clock=self.clock)
        self.rooms.book.save_agent(AGENT, at=self.clock.now())
        self.deployment: Deployment = deploy_agent(self.rooms.book, self.rooms.clock, "a")
        self.price(100)
        self.fill(2)

    def price(self, usd: int) -> None:
        """The market now."""
        self.rooms.tape.commit([Mid("BTC", self.clock.now(), usd * E8)])

    def fill(self, size: int) -> None:
        """Buys, or sells, at the newest price."""
        seq, at = self.rooms.book.head(self.deployment.id), self.clock.now()
        account = self.rooms.book.account(self.deployment.id, seq=seq)
        (newest,) = self.rooms.tape.facts(Mid, "BTC", since=at, until=at, view=View(at))
        fill = Fill(f"f{seq}", "BTC", at, size * E8, newest.price_e8, 0, False, f"c{seq}")
        _, bodies = settle_fill(account, fill, TradeCause("a", 1), mark_e8=None)
        self.rooms.book.append(self.deployment.id, [draft_event(at, body) for body in bodies], expected_seq=seq)

    def start(self) -> int:
        """The equity of the day's start, in dollars, as anybody would be told now."""
        seq = self.rooms.book.head(self.deployment.id)
        book, name, view = self.rooms.book, self.deployment.id, View(self.clock.now())
        account = book.account(name, seq=seq)
        found = account_activity(book, self.rooms.tape, name, account, view=view, memory=self.rooms.memory)
        assert found.day_start_equity_usd_e6 % E6 == 0
        return found.day_start_equity_usd_e6 // E6


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    """The evening before."""
    made = Night(tmp_path / "home")
    yield made
    made.rooms.close()


def test_equity_of_midnight(night: Night) -> None:
    # Before midnight the day's start is that of the day before, when nothing was held.
    assert night.start() == 1_000
    night.clock.advance(MIDNIGHT - 5_000)
    night.price(110)
    night.clock.advance(MIDNIGHT + MINUTE)
    night.price(150)
    assert night.start() == 1_020
    # Whatever is traded today, the day began as it began.
    night.fill(-2)
    assert night.start() == 1_020
    night.clock.advance(MIDNIGHT + 20 * HOUR)
    night.price(80)
    night.fill(3)
    assert night.start() == 1_020


def test_without_a_price_at_midnight_the_position_counts_at_its_cost(night: Night) -> None:
    night.rooms.tape_db.execute_script("DELETE FROM hyperliquid_mid_prices")
    night.clock.advance(MIDNIGHT + HOUR)
    assert night.start() == 1_000
