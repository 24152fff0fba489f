"""What the broker says is booked: once, in one transaction, with the value of what is still held."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.book.events import EVENT_KINDS, OrderIntended, OrderPlaced, RunDecided, draft_event
from tapebook.book.store import AccountSnapshot
from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Candle, FundingRate, Liquidity, Observation
from tapebook.domain.order import Order
from tapebook.domain.position import Position
from tapebook.domain.run import Action, DecisionRun, Verdict, Watermarks
from tapebook.domain.units import DAY, E6, E8, HOUR, MINUTE
from tapebook.home import make_home
from tapebook.log import Event
from tapebook.settings.config import FILE
from tapebook.tick.execute import reconcile_account
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms
from tests.broker.market import NOON, bar, limit, mid, order

CASH = 1_000 * E6


class Desk:
    """One deployment in a home of its own; time and market are moved by hand."""

    def __init__(self, home: Path, *, fill: str = "next_open", **profile: Any) -> None:
        make_home(home)
        settings = (home / FILE).read_text("utf-8")
        (home / FILE).write_text(settings.replace('fill = "next_open"', f'fill = "{fill}"'), "utf-8")
        self._clock = VirtualClock(NOON)
        self.rooms = Rooms(home, clock=self._clock)
        plain = AgentProfile("a", ("BTC", "ETH"), starting_cash_usd_e6=CASH)
        self.rooms.book.save_agent(msgspec.structs.replace(plain, **profile), at=NOON)
        self.deployment: Deployment = deploy_agent(self.rooms.book, self.rooms.clock, "a")

    def learn(self, minutes: float, *facts: Observation) -> None:
        """Commits facts so many minutes after noon."""
        self._clock.advance(NOON + round(minutes * MINUTE))
        self.rooms.tape.commit(facts)

    def send(self, *orders: Order, reason: str = "breakout") -> None:
        """Orders of one run that the broker has."""
        action = Action("open", "BTC", "long", E6, 1, "market", None, 5_000, reason)
        name = orders[0].run_id
        bodies: list[msgspec.Struct] = [RunDecided(run_of(name, self.deployment, action))] if name else []
        for each in orders:
            bodies += [OrderIntended(each), OrderPlaced(each.client_id)]
        self.write(*bodies)

    def write(self, *bodies: msgspec.Struct) -> None:
        """Appends to the deployment's stream."""
        book, name = self.rooms.book, self.deployment.id
        book.append(name, [draft_event(NOON, body) for body in bodies], expected_seq=book.head(name))

    def reconcile(self, minutes: float | None = None) -> list[str]:
        """Catches up, so many minutes after noon; what kinds of events that wrote."""
        if minutes is not None:
            self._clock.advance(NOON + round(minutes * MINUTE))
        before = self.rooms.book.head(self.deployment.id)
        reconcile_account(self.rooms, self.deployment)
        return [event.kind for event in self.events(after=before)]

    def events(self, *, after: int = 0) -> list[Event]:
        """The deployment's stream."""
        return list(self.rooms.log.events(self.rooms.book.stream(self.deployment.id), after=after))

    def cash(self) -> int:
        """What the ledger says."""
        return self.rooms.book.account(self.deployment.id, seq=2**31).portfolio.cash_usd_e6

    def held(self, symbol: str) -> Position:
        """A position."""
        return self.rooms.book.account(self.deployment.id, seq=2**31).portfolio.positions[symbol]

    def snapshot(self) -> AccountSnapshot:
        """The newest value."""
        found = self.rooms.book.newest_snapshot(self.deployment.id, seq=2**31)
        assert found is not None
        return found

    def exits(self) -> list[str]:
        """How trades ended, oldest first."""
        closed = self.rooms.book.closed_trades(self.deployment.id, seq=2**31, most=9)
        return [each.exit_reason for each in reversed(closed)]


def run_of(name: str, deployment: Deployment, action: Action) -> DecisionRun:
    """A decision with one allowed action."""
    place: tuple[Any, ...] = (name, deployment.owner, deployment.id, "a", deployment.version, "BTC")
    when: tuple[Any, ...] = (NOON, "manual", "main", NOON, Watermarks(0, 0))
    made: tuple[Any, ...] = (1, "i", "p", 1, "hold", None, None, "placed", (action,), (Verdict(True),))
    return DecisionRun(*place, *when, *made)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk with 1,000 USD."""
    made = Desk(tmp_path / "home")
    yield made
    made.rooms.close()


def hold(desk: Desk, size: float = 1, leverage: int = 1) -> None:
    """Buys BTC at 100, a minute after noon."""
    desk.send(order(0, "buy", size, leverage=leverage))
    desk.learn(1, mid(1, 100))
    desk.reconcile()


def test_nothing_at_stake_writes_nothing_and_reads_no_market(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.learn(1, mid(1, 100))
    monkeypatch.setattr(desk.rooms, "tape", None)
    assert desk.reconcile(2) == []


def test_fill_and_the_value_after_it_are_one_transaction(desk: Desk) -> None:
    desk.send(order(0, "buy", 1))
    desk.learn(1, mid(1, 100))
    written = desk.reconcile(1.5)
    assert written == [
        *("fill.observed", "ledger.posted", "trade.opened", "order.ended", "run.ended", "marks.observed"),
        # The midpoint it was filled at stands half a spread below its price.
        "trade.updated",
    ]
    assert len({event.known_at for event in desk.events()[-len(written) :]}) == 1
    snapshot = desk.snapshot()
    assert (snapshot.happened_at, snapshot.marks) == (NOON + 90_000, {"BTC": 100 * E8})
    assert snapshot.cash_usd_e6 == desk.cash() and snapshot.walked_until == NOON + MINUTE
    # Bought half a spread above the mid, and 0.2 millionths for its size.
    assert snapshot.equity_usd_e6 == desk.cash() - 10_000 - 20


def test_same_moment_again_writes_nothing(desk: Desk) -> None:
    hold(desk)
    assert desk.reconcile(2) == ["marks.observed"]
    assert desk.reconcile() == []
    assert desk.reconcile(2.1) == ["marks.observed"]


def test_bar_that_becomes_known_at_the_same_moment_is_walked(desk: Desk) -> None:
    hold(desk)
    desk.reconcile(3)
    assert desk.snapshot().walked_until == NOON + MINUTE
    desk.learn(3, *(bar(minute, 100, 100, 100, 100) for minute in (1, 2)))
    assert desk.reconcile() == ["marks.observed"]
    assert desk.snapshot().walked_until == NOON + 3 * MINUTE


def test_minute_that_was_walked_stays_as_it_was_known(desk: Desk) -> None:
    hold(desk, size=80, leverage=10)
    desk.learn(5, *(bar(minute, 100, 100, 100, 100) for minute in (1, 2, 3, 4)))
    desk.reconcile()
    desk.learn(6, bar(2, 100, 100, 1, 100), bar(5, 100, 100, 100, 100))
    # Nobody is liquidated for it any more; what the trade has been through is known better now.
    assert desk.reconcile() == ["marks.observed", "trade.updated"]


def test_liquidation_between_two_looks(desk: Desk) -> None:
    hold(desk, size=80, leverage=10)
    desk.send(limit(50, 1, client_id="c2", run_id="r2"))
    bars = [bar(minute, 100, 100, 99, 100) for minute in range(1, 9)]
    bars[3] = bar(4, 95, 96, 80, 95)
    desk.learn(9, *bars)
    assert desk.reconcile() == [
        *("fill.observed", "ledger.posted", "trade.closed", "order.ended", "run.ended"),
    ]
    assert desk.exits() == ["liquidated"]
    closed = desk.rooms.book.closed_trades(desk.deployment.id, seq=2**31, most=1)[0]
    # 1,000 less the fee bear a fall to 12.5 USD below the entry and the least that must be left, but one to 80 not.
    assert closed.exit_tick_at == NOON + 5 * MINUTE
    assert 88 * E8 < closed.exit_price_e8 < 89 * E8
    assert desk.cash() > 0
    assert desk.rooms.book.cash_differences() == []


def test_gap_is_made_up_for(desk: Desk) -> None:
    hold(desk, size=80, leverage=10)
    desk.learn(9, *(bar(minute, 60, 60, 60, 60) for minute in range(2, 9)), bar(1, 100, 100, 100, 100))
    assert desk.reconcile() == ["fill.observed", "ledger.posted", "trade.closed", "ledger.posted"]
    assert desk.cash() == 0
    kinds = {"deposit": 0, "realised_pnl": 0, "fee": 0, "insurance": 0}
    for event in desk.events():
        if event.kind == "ledger.posted":
            for line in msgspec.json.decode(event.body)["lines"]:
                kinds[line["kind"]] += line["amount_usd_e6"]
    assert sum(kinds.values()) == 0 and kinds["insurance"] > 0
    # A trade's result is what it was; who paid for it is the account's affair.
    closed = desk.rooms.book.closed_trades(desk.deployment.id, seq=2**31, most=1)[0]
    assert closed.state.net_usd_e6 == -CASH - kinds["insurance"]


def test_isolated_deployment_loses_its_margin_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "home", margin="isolated")
    hold(desk, size=8, leverage=10)
    margin = desk.held("BTC").margin_usd_e6
    assert 80_008_000 < margin < 80_009_000
    before = desk.cash()
    desk.learn(9, *(bar(minute, 60, 60, 60, 60) for minute in range(2, 9)), bar(1, 100, 100, 100, 100))
    assert desk.reconcile()[-1] == "ledger.posted"
    assert desk.cash() == before - margin
    assert desk.exits() == ["liquidated"]
    desk.rooms.close()


@pytest.mark.parametrize(("run", "reason"), [("r2", "target"), ("", "external_flatten")])
def test_reason_of_an_exit(desk: Desk, run: str, reason: str) -> None:
    hold(desk)
    desk.send(order(2, "sell", 1, client_id="c2", run_id=run, reduce_only=True), reason="target")
    desk.learn(3, mid(3, 101))
    written = desk.reconcile()
    assert written[-1] == ("run.ended" if run else "order.ended")
    assert desk.exits() == [reason]


def test_run_ends_with_its_last_order(desk: Desk) -> None:
    desk.send(order(0, "buy", 1), order(0, "buy", 2, client_id="c2", symbol="ETH"))
    desk.learn(1, mid(1, 100))
    assert desk.reconcile().count("run.ended") == 0
    desk.learn(2, mid(2, 50, "ETH"))
    assert desk.reconcile().count("run.ended") == 1


def test_funding_is_booked_once(desk: Desk) -> None:
    hold(desk)
    margin = desk.held("BTC").margin_usd_e6
    desk.learn(61, FundingRate("BTC", NOON + HOUR, 10**9, 0))
    assert "funding.observed" in desk.reconcile()
    assert "funding.observed" not in desk.reconcile(62)
    posted = [each for each in desk.events() if each.kind == "funding.observed"]
    assert msgspec.json.decode(posted[0].body)["payment"]["amount_usd_e6"] == -100_000
    assert desk.held("BTC").margin_usd_e6 == margin - 100_000


def test_depth_of_the_recorded_book_is_paid_for(desk: Desk) -> None:
    desk.learn(0, Liquidity("BTC", NOON, 100 * E8, 2.0, 200.0, 400.0, 800.0, 0.0))
    hold(desk)
    # A hundred of the hundred USD that are offered within 0.1 %, half a spread (0.01 %) away.
    assert desk.held("BTC").entry_price_e8 == 10_005_500_000


def test_symbol_that_fell_silent_keeps_its_last_mark(desk: Desk) -> None:
    hold(desk)
    desk.reconcile(3 * 24 * 60)
    assert desk.snapshot().marks == {"BTC": 100 * E8}


def test_imported_candles_alone_are_a_market(desk: Desk) -> None:
    desk.send(order(0, "buy", 1))
    desk.learn(3, *(bar(minute, 90 + minute, 200, 50, 95) for minute in range(3)))
    assert "fill.observed" in desk.reconcile()
    # The open of the bar under way when the order arrived, with spread and size on top.
    held = desk.held("BTC")
    assert (held.entry_price_e8, held.moved_at) == (9_000_901_600, NOON + 500)
    assert desk.snapshot().marks == {"BTC": 95 * E8}


def story() -> list[tuple[float, Observation]]:
    """Two hours of a market that swings, with the moment each fact is known."""
    known: list[tuple[float, Observation]] = []
    for minute in range(0, 130):
        price = 100 + 6 * ((minute * 7) % 13 - 6) / 6
        known += [(minute + second / 60, mid(minute + second / 60, price + second / 50)) for second in range(0, 60, 20)]
        low, high = price - 1 - minute % 5, price + 1 + minute % 3
        known.append((minute + 1, bar(minute, price, high, low, price)))
    known += [(float(hour * 60), FundingRate("BTC", NOON + hour * HOUR, 10**9, 0)) for hour in (1, 2)]
    return sorted(known, key=lambda each: each[0])


@pytest.mark.parametrize("margin", ["cross", "isolated"])
def test_often_or_seldom_gives_the_same_book(tmp_path: Path, margin: str) -> None:
    """Reconciled at every fact and at every hour: the same trades and ledger; only values are taken more often."""
    books = []
    for name, every in (("often", 1), ("seldom", 97)):
        desk = Desk(tmp_path / name, margin=margin)
        for number, minutes in enumerate((1, 9, 30, 31, 70, 71)):
            side, size, leverage = "sell" if number % 3 == 2 else "buy", *((75, 10) if number == 4 else (1, 1))
            names = {"client_id": f"c{number}", "run_id": f"r{number}"}
            desk.send(order(minutes, side, size, leverage=leverage, **names))
        for number, (at, fact) in enumerate(story()):
            desk.learn(at, fact)
            if number % every == 0:
                desk.reconcile()
        desk.reconcile(131)
        told = [(event.kind, event.body) for event in desk.events() if event.kind in _SAID]
        books.append((told, desk.rooms.book.account(desk.deployment.id, seq=2**31).portfolio, desk.exits()))
        assert desk.rooms.book.cash_differences() == []
        desk.rooms.close()
    assert books[0] == books[1]
    told, _, exits = books[0]
    assert {"fill.observed", "funding.observed", "order.ended"} <= {kind for kind, _ in told}
    assert "liquidated" in exits


_SAID = {kind for kind in EVENT_KINDS.values() if kind.split(".")[0] in ("fill", "funding", "ledger", "order", "run")}


def test_reads_of_one_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held position costs a handful of reads of the book and five of the tape, however long it is held."""
    hold(desk)
    desk.reconcile(2)
    counts = []
    for minutes in (3, 3 + DAY // MINUTE):
        rates = [FundingRate("BTC", NOON + hour * HOUR, 0, 0) for hour in range(1, 25) if hour * 60 < minutes]
        desk.learn(minutes - 0.1, mid(minutes - 0.1, 100), *_bars_until(minutes), *rates)
        desk.reconcile(minutes - 0.05)
        with monkeypatch.context() as patch:
            count = _counted(patch, desk)
            desk.reconcile(minutes)
        counts.append(count[: count.index("append")])
    # Funding has moved the account meanwhile, so what hangs on it is read again.
    assert set(counts[1]) - set(counts[0]) <= {"cash", "open_trades", "working_orders", "kinds_between"}
    assert len(counts[0]) <= len(counts[1]) <= 19


def _bars_until(minutes: float) -> list[Candle]:
    return [bar(minute, 100, 100, 100, 100) for minute in range(1, int(minutes))]


def _counted(patch: pytest.MonkeyPatch, desk: Desk) -> list[str]:
    names: list[str] = []
    for db in (desk.rooms.book_db, desk.rooms.tape_db):
        for read, plain in (("all", db.all), ("one", db.one), ("many", db.many)):

            def counting(query: Any, *rows: Any, _plain: Any = plain, **params: Any) -> Any:
                names.append(query.name)
                return _plain(query, *rows, **params)

            patch.setattr(db, read, counting)
    return names
