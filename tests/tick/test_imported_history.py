"""Trading on imported history that is coarser than a minute: decided, filled, funded and liquidated as it should be.

Bars of five minutes and nothing else are imported from files, and agents tick over them in virtual
time. What the book says in the end is held against the slow model of `tests/broker`, which knows the
bars and the orders and nothing of the code; and a run from memory (`ForwardTape`) against one from the database.
"""

import operator
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tapebook.book.events import FillObserved, FundingObserved, OrderEnded, OrderIntended, RunDecided, event_body
from tapebook.clock import VirtualClock
from tapebook.decision import EngineAnswer
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, RiskCaps
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.order import FillRule
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, E6, E8, E12, HOUR, MINUTE, parse_instant
from tapebook.history.transfer import import_file
from tapebook.home import make_home
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.view import GRACE_MS, View
from tapebook.tick.decide import PreparedDecision, Slot, limits_now
from tapebook.tick.execute import reconcile_account
from tapebook.tick.story import AskEngine, deploy_agent, prepare_decision, tick
from tapebook.wiring import Rooms, paper_terms
from tests.broker.market import Market
from tests.broker.slow_model import SlowDesk
from tests.desk.desks import reply

START = parse_instant("2023-03-01T00:00:00Z")
BAR = 5 * MINUTE
HISTORY = 24 * HOUR
RATE = 40_000_000
TREND = AgentProfile("trader", ("BTC",), engine="trend", context=ContextProfile(bar_minutes=15, bar_count=48))


def walk(hours: int, *, seed: int = 1, fall_at: int | None = None) -> list[Candle]:
    """Bars of five minutes that trend now up, now down; and at an hour fall by a third within one bar."""
    chance, price, drift = Random(seed), 20_000.0, 0.0
    found = []
    for at in range(START - HISTORY, START + hours * HOUR, BAR):
        if at % (3 * HOUR) == 0:
            drift = chance.choice([-0.001, 0.001])
        first, price = price, price * (1 + drift + chance.gauss(0, 0.001))
        falls = fall_at is not None and at == START + fall_at * HOUR + 3 * BAR
        low = min(first, price) * (0.66 if falls else 1 - chance.random() / 1_000)
        high = max(first, price) * (1 + chance.random() / 1_000)
        opened, top, bottom, close = (round(each * 100) * E8 // 100 for each in (first, high, low, price))
        found.append(Candle("BTC", 300, at, opened, top, bottom, close, 1.5, 0.0, 0))
    return found


@contextmanager
def imported(folder: Path, bars: list[Candle]) -> Iterator[tuple[Rooms, VirtualClock]]:
    """A home into which files of bars and hourly funding were imported, at the moment the story begins."""
    candles, rates = folder / "bars.csv", folder / "rates.csv"
    rows = [(bar.bucket_ts, *(each / E8 for each in msgspec.structs.astuple(bar)[3:7]), 1.5) for bar in bars]
    lines = ["time,open,high,low,close,volume", *(",".join(map(str, row)) for row in rows)]
    candles.write_text("\n".join(lines))
    hours = range(bars[0].bucket_ts, bars[-1].end + 1, HOUR)
    rates.write_text("time,rate\n" + "".join(f"{hour},{RATE / E12:.12f}\n" for hour in hours))
    make_home(folder / "home")
    with closing(Rooms(folder / "home", clock=VirtualClock(START + 1_000 * DAY))) as rooms:
        assert import_file(
            rooms.tape,
            rooms.clock,
            "candles",
            candles,
            symbol="BTC",
            interval="5m",
            config=rooms.config,
            sources=rooms.sources,
        ).rows_written == len(bars)
        assert import_file(
            rooms.tape,
            rooms.clock,
            "funding",
            rates,
            symbol="BTC",
            interval="1h",
            config=rooms.config,
            sources=rooms.sources,
        ).rows_written == len(hours)
    clock = VirtualClock(START)
    with closing(Rooms(folder / "home", clock=clock)) as rooms:
        yield rooms, clock


def lived(
    rooms: Rooms, clock: VirtualClock, profile: AgentProfile, *, hours: int, ask: AskEngine = operator.call
) -> Deployment:
    """The agent after a tick for every bar, two seconds after it ended, and a last look."""
    rooms.book.save_agent(profile, at=START)
    agent = deploy_agent(rooms.book, rooms.clock, profile.name)
    for slot in range(START, START + hours * HOUR, BAR):
        clock.advance(slot + GRACE_MS)
        tick(rooms, Slot(agent, "BTC", slot, trigger="backtest"), ask=ask)
    clock.advance(START + hours * HOUR + GRACE_MS)
    reconcile_account(rooms, agent)
    return agent


def booked(rooms: Rooms, agent: Deployment) -> list[tuple[Any, ...]]:
    """What happened, as the slow model tells it."""
    found: list[tuple[Any, ...]] = []
    for event in rooms.log.events(rooms.book.stream(agent.id)):
        match event.kind:
            case "fill.observed":
                fill = event_body(event, FillObserved).fill
                kind = (fill.maker, fill.client_id, fill.liquidation)
                money = (fill.signed_size_e8, fill.price_e8, fill.fee_usd_e6)
                found.append(("fill", fill.symbol, fill.happened_at, *money, *kind))
            case "funding.observed":
                paid = event_body(event, FundingObserved).payment
                found.append(("funding", paid.symbol, paid.happened_at, paid.amount_usd_e6, paid.rate_e12))
            case "order.ended":
                end = event_body(event, OrderEnded).end
                found.append(("end", end.client_id, end.happened_at, end.status))
    return found


def orders_of(rooms: Rooms, agent: Deployment) -> list[Any]:
    """Every order that was meant."""
    events = rooms.log.events(rooms.book.stream(agent.id))
    return [event_body(event, OrderIntended).order for event in events if event.kind == "order.intended"]


def runs_of(rooms: Rooms, agent: Deployment) -> list[DecisionRun]:
    """Every decision."""
    events = rooms.log.events(rooms.book.stream(agent.id))
    return [event_body(event, RunDecided).run for event in events if event.kind == "run.decided"]


class BarDesk(SlowDesk):
    """The slow model where bars are all there is: a price is known when its bar is, two seconds after its end."""

    def alone(self, symbol: str, start: int) -> bool:
        return True

    def last(self, symbol: str, moment: int) -> int | None:
        ended = [bar for bar in self.market.bars if bar.end + 2_000 <= moment]
        return ended[-1].close_e8 if ended else None


def expected(rooms: Rooms, agent: Deployment, bars: list[Candle], *, hours: int) -> BarDesk:
    """What the slow model makes of the orders: of a bar it observes the close at its end, then the next one's open."""
    closes = [Mid("BTC", bar.end, bar.close_e8) for bar in bars]
    opens = [Mid("BTC", bar.bucket_ts, bar.open_e8) for bar in bars]
    until = START + hours * HOUR
    rates = {str(hour): RATE for hour in range(START - HISTORY, until + 1, HOUR)}
    terms, cash = paper_terms(rooms.config), agent.agent.starting_cash_usd_e6
    desk = BarDesk(Market((*closes, *opens), tuple(bars), (), rates), terms, agent.agent.margin == "isolated", cash, 0)
    desk.run(orders_of(rooms, agent), until)
    return desk


def same_as_expected(rooms: Rooms, agent: Deployment, bars: list[Candle], *, hours: int) -> list[tuple[Any, ...]]:
    """What was booked, once it was found to be what the slow model says, to the last cent."""
    desk, found = expected(rooms, agent, bars, hours=hours), booked(rooms, agent)
    assert found == [event for event in desk.events if event[0] != "insurance"]
    account = rooms.book.account(agent.id, seq=rooms.book.head(agent.id))
    assert account.portfolio.cash_usd_e6 == desk.cash
    assert {name: held.size_e8 for name, held in account.portfolio.positions.items()} == {
        name: lot.size for name, lot in desk.lots.items()
    }
    assert not rooms.book.cash_differences()
    return found


def price_by_rule(bars: list[Candle], fill: tuple[Any, ...], rule: FillRule) -> int:
    """The price of the bar under way at a fill that its rule names."""
    under_way = next(bar for bar in bars if bar.bucket_ts < fill[2] <= bar.end)
    worst = under_way.high_e8 if fill[3] > 0 else under_way.low_e8
    return {"next_open": under_way.open_e8, "bar_close": under_way.close_e8, "worst": worst}[rule]


OTHERS = [pytest.param(fill, marks=pytest.mark.soak) for fill in ("bar_close", "worst")]


@pytest.mark.parametrize("fill", ["next_open", *OTHERS])
def test_trend_follower_trades_on_bars_of_five_minutes(tmp_path: Path, fill: FillRule) -> None:
    hours, bars = 18, walk(18)
    with imported(tmp_path, bars) as (rooms, clock):
        assert rooms.config.paper.fill == "next_open"
        rooms.config = replace(rooms.config, paper=replace(rooms.config.paper, fill=fill))  # type: ignore[misc]
        agent = lived(rooms, clock, TREND, hours=hours)
        found = same_as_expected(rooms, agent, bars, hours=hours)
        kinds = [event[0] for event in found]
        assert kinds.count("fill") >= 4 and kinds.count("funding") >= 4
        decided = {order.client_id: order.intended_at for order in orders_of(rooms, agent)}
        for each in (event for event in found if event[0] == "fill"):
            # Decided two seconds after a bar; filled half a second later within the next, or at its end.
            assert decided[each[7]] % BAR == GRACE_MS and each[5] > 0
            assert each[2] == decided[each[7]] + (BAR - GRACE_MS if fill == "bar_close" else 500)
            assert each[4] == pytest.approx(price_by_rule(bars, each, fill), rel=0.001)
        assert not [run for run in runs_of(rooms, agent) if run.degraded]
        assert {verdict.rule for run in runs_of(rooms, agent) for verdict in run.verdicts} == {None}


@pytest.mark.parametrize("margin", ["cross", "isolated"])
def test_liquidation_in_the_middle_of_a_bar(tmp_path: Path, margin: Any) -> None:
    """A bar falls by a third and comes back: whoever holds five times what he has is gone at its end."""
    hours, bars = 6, walk(6, fall_at=2)
    caps = RiskCaps(max_position_usd_e6=5_000 * E6, max_leverage=5, max_daily_loss_usd_e6=10_000 * E6)
    profile = msgspec.structs.replace(TREND, caps=caps, starting_cash_usd_e6=1_000 * E6, margin=margin)

    def story(_decide: object, packet: Packet) -> EngineAnswer:
        texts = {
            0: reply("open", "long", 4_800, leverage=5),
            HOUR: reply("adjust", "long", 100, leverage=5, order_type="limit", limit_price=19_000.0),
            3 * HOUR: reply("open", "short", 10, leverage=1),
        }
        return EngineAnswer(texts.get(packet.as_of - GRACE_MS - START, reply("hold")))

    with imported(tmp_path, bars) as (rooms, clock):
        agent = lived(rooms, clock, profile, hours=hours, ask=story)
        found = same_as_expected(rooms, agent, bars, hours=hours)
        fallen = [event for event in found if event[0] == "fill" and event[8]]
        assert [event[2] for event in fallen] == [START + 2 * HOUR + 4 * BAR]
        ends = rooms.book.closed_trades(agent.id, seq=rooms.book.head(agent.id), most=1)
        assert [trade.exit_reason for trade in ends] == ["liquidated"]


def test_price_of_a_packet_is_as_old_as_its_bar(tmp_path: Path) -> None:
    bars = walk(1)
    with imported(tmp_path, bars) as (rooms, clock):
        rooms.book.save_agent(TREND, at=START)
        agent = deploy_agent(rooms.book, rooms.clock, TREND.name)
        clock.advance(START + GRACE_MS)
        slot = Slot(agent, "BTC", START, trigger="backtest")
        opened = prepare_decision(rooms, slot)
        assert isinstance(opened, PreparedDecision)
        before = next(bar for bar in bars if bar.end == START)
        assert opened.situation.market.mid == Mid("BTC", START, before.close_e8)
        assert opened.situation.marks == {"BTC": before.close_e8}
        shown = opened.packet().section("market")
        assert shown is not None and ("price_age_s", "2") in shown.rows
        limits = limits_now(rooms, slot, before=opened.situation)
        assert (limits.data_age_ms, limits.mark_e8) == (GRACE_MS, before.close_e8)
        # Two minutes without another bar, and it is too old to trade on.
        clock.advance(START + 2 * MINUTE + 1)
        assert limits_now(rooms, slot).data_age_ms == 2 * MINUTE + 1


def test_from_memory_it_is_the_same_to_the_last_byte(tmp_path: Path) -> None:
    heads, bars = [], walk(6, seed=3)
    for name in ("tape", "reel"):
        (tmp_path / name).mkdir()
        with imported(tmp_path / name, bars) as (rooms, clock):
            if name == "reel":
                rooms.tape = ForwardTape(rooms.tape_db, clock=clock, fetch=rooms.archive.get)  # type: ignore[misc]
            agent = lived(rooms, clock, TREND, hours=6)
            heads.append(rooms.log.head(rooms.book.stream(agent.id)))
            assert [event for event in booked(rooms, agent) if event[0] == "fill"]
    assert heads[0] == heads[1]


def test_nothing_of_the_future_is_seen(tmp_path: Path) -> None:
    """Other bars after a moment change nothing that was decided or booked before it."""
    runs, bars, cut = [], walk(6, seed=3), START + 5 * HOUR
    worthless = {"open_e8": E8, "low_e8": E8, "close_e8": E8}
    other = [bar if bar.end <= cut else msgspec.structs.replace(bar, **worthless) for bar in bars]
    for name, history in (("one", bars), ("other", other)):
        (tmp_path / name).mkdir()
        with imported(tmp_path / name, history) as (rooms, clock):
            agent = lived(rooms, clock, TREND, hours=6)
            early = [run for run in runs_of(rooms, agent) if run.as_of <= cut + GRACE_MS]
            happened = [event for event in booked(rooms, agent) if event[2] <= cut]
            runs.append(([run.packet_sha256 for run in early], happened))
            assert rooms.tape.funding_at("BTC", hour=cut, view=View(cut)) is None
            assert rooms.tape.funding_at("BTC", hour=cut, view=View(cut + GRACE_MS)) == FundingRate("BTC", cut, RATE, 0)
    assert runs[0] == runs[1] and len(runs[0][0]) == 61
