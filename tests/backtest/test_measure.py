"""The measures of a backtest against a plain reading of its log, and against being asked again."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import tapebook
from tapebook.backtest.home import BacktestHome
from tapebook.backtest.measure import measure_all, measure_chunk
from tapebook.backtest.result import BacktestResult
from tapebook.book import events as ev
from tapebook.clock import SystemClock
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.position import Position
from tapebook.domain.units import DAY, HOUR, notional_usd_e6
from tapebook.experience.records import PROVIDER
from tapebook.experience.twins import weights_e4
from tapebook.log import Event
from tapebook.tape.view import GRACE_MS
from tapebook.tick.memory import runs_of
from tapebook.wiring import Rooms
from tests.backtest.bars import make_home
from tests.backtest.books import CHUNKS, END, PRICES, START, SYMBOLS, Played, Stage, prepare, stage


class State(NamedTuple):
    """An account behind some events: cash, positions, and what was last known of its worth."""

    cash: int
    held: dict[str, Position]


@pytest.fixture(scope="module")
def result(played: Played) -> BacktestResult:
    return played.result


@contextmanager
def opened(played: Played) -> Iterator[Stage]:
    """The story of the played backtest, as it stands."""
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    with stage(home, home.plan()) as told:
        yield told


def events(told: Stage) -> list[Event]:
    return list(told.rooms.log.events(told.rooms.book.stream(told.deployment.id)))


def states(told: Stage) -> Iterator[tuple[Event, State]]:
    """The account after every event, read from the bodies alone."""
    cash, held = 0, dict[str, Position]()
    for event in events(told):
        if event.kind == "ledger.posted":
            cash = ev.event_body(event, ev.LedgerPosted).balance_usd_e6
        elif event.kind == "trade.opened":
            position = ev.event_body(event, ev.TradeOpened).position
            held = held | {position.symbol: position}
        elif event.kind == "trade.updated":
            position = ev.event_body(event, ev.TradeUpdated).position
            held = held | {position.symbol: position}
        elif event.kind == "trade.closed":
            symbol = ev.event_body(event, ev.TradeClosed).trade.state.symbol
            held = {name: position for name, position in held.items() if name != symbol}
        yield event, State(cash, held)


def worth(state: State, hour: int) -> int:
    gains = (notional_usd_e6(each.size_e8, PRICES[name][hour]) - each.cost_usd_e6 for name, each in state.held.items())
    return state.cash + sum(gains)


def test_equity_at_midnight_is_the_account_at_the_prices_of_midnight(played: Played) -> None:
    with opened(played) as told:
        known = list(states(told))
    held = 0
    for day, equity in played.result.total.daily:
        before = [state for event, state in known if event.known_at < day + GRACE_MS]
        assert equity == worth(before[-1], day), day
        held += bool(before[-1].held)
    assert len(played.result.total.daily) == 29 and held > 5


def test_chunks_follow_from_one_another_and_sum_to_the_whole(result: BacktestResult) -> None:
    total = result.total
    ends = [(chunk.equity_start_usd_e6, chunk.equity_end_usd_e6) for chunk in result.chunks]
    assert [end for _, end in ends[:-1]] == [start for start, _ in ends[1:]]
    assert (ends[0][0], ends[-1][1]) == (total.equity_start_usd_e6, total.equity_end_usd_e6)
    money = ("gross_usd_e6", "fees_usd_e6", "funding_usd_e6", "net_usd_e6", "open_usd_e6")
    for name in ("ticks", "trades", "won", *money):
        assert sum(getattr(chunk, name) for chunk in result.chunks) == getattr(total, name), name
    for chunk in (*result.chunks, total):
        assert chunk.net_usd_e6 == chunk.gross_usd_e6 - chunk.fees_usd_e6 + chunk.funding_usd_e6
        assert chunk.change_usd_e6 == chunk.net_usd_e6 + chunk.open_usd_e6
        assert sum(msgspec.structs.astuple(chunk.parts)) == chunk.net_usd_e6
        assert (chunk.win_rate.n, chunk.daily[0][0], chunk.daily[-1][0]) == (chunk.trades, chunk.start, chunk.end)
    assert sorted({day for chunk in result.chunks for day in chunk.daily}) == list(total.daily)
    assert any(chunk.open_usd_e6 for chunk in result.chunks) and total.trades > 30


def test_figures_are_counts_of_the_log(played: Played) -> None:
    with opened(played) as told:
        every = events(told)
    runs = [ev.event_body(event, ev.RunDecided).run for event in every if event.kind == "run.decided"]
    ended = [ev.event_body(event, ev.TradeClosed).trade for event in every if event.kind == "trade.closed"]
    total = played.result.total
    hashes = "\n".join(run.packet_sha256 for run in runs).encode()
    assert (total.ticks, total.packets_sha256) == (len(runs), hashlib.sha256(hashes).hexdigest())
    assert played.result.packets_sha256 == total.packets_sha256
    assert total.trades == len(ended) and total.won == sum(trade.state.net_usd_e6 > 0 for trade in ended)
    assert total.net_usd_e6 == sum(trade.state.net_usd_e6 for trade in ended)
    assert [chunk.head_hash for chunk in played.result.chunks] == [
        every[chunk.head_seq - 1].hash for chunk in played.result.chunks
    ]
    by_symbol = {row.name: row for row in total.assets}
    for symbol in SYMBOLS:
        own = [trade.state.net_usd_e6 for trade in ended if trade.state.symbol == symbol]
        assert (by_symbol[symbol].n, by_symbol[symbol].net_usd_e6) == (len(own), sum(own))


def test_the_deepest_fall_is_over_all_that_the_book_knows(played: Played) -> None:
    with opened(played) as told:
        every = list(states(told))
    points = [played.result.total.equity_start_usd_e6]
    for place, (event, state) in enumerate(every):
        follows = every[place + 1][0].kind if place + 1 < len(every) else ""
        if event.kind == "marks.observed":
            points.append(ev.event_body(event, ev.MarksObserved).equity_usd_e6)
        elif event.kind in ("trade.closed", "ledger.posted") and not state.held and follows != "trade.opened":
            points.append(state.cash)
    points.append(played.result.total.equity_end_usd_e6)
    falls = [max(points[:end]) - points[end - 1] for end in range(1, len(points) + 1)]
    assert played.result.total.drawdown_usd_e6 == max(falls) > 0
    assert all(chunk.drawdown_usd_e6 <= max(falls) for chunk in played.result.chunks)


def test_time_in_a_position_is_counted_minute_by_minute(played: Played) -> None:
    with opened(played) as told:
        every = events(told)
    spans, begun = [], dict[str, int]()
    for event in every:
        if event.kind == "trade.opened":
            trade = ev.event_body(event, ev.TradeOpened).trade
            begun[trade.symbol] = trade.entry_tick_at
        elif event.kind == "trade.closed":
            closed = ev.event_body(event, ev.TradeClosed).trade
            spans.append((begun.pop(closed.state.symbol), closed.exit_tick_at))
    spans += [(at, END) for at in begun.values()]
    minutes = range(START, END, HOUR // 60)
    inside = sum(any(first <= at < last for first, last in spans) for at in minutes)
    assert played.result.total.exposure == pytest.approx(inside / len(minutes), abs=2e-3)


def test_memory_is_that_of_the_chunks_end(result: BacktestResult) -> None:
    names = [chunk.name for chunk in CHUNKS]
    assert [chunk.snapshots for chunk in result.chunks] == [(name,) for name in names]
    assert [chunk.lessons[0].split(" in ")[1][:8] for chunk in result.chunks] == names
    assert len({chunk.lessons_hash for chunk in result.chunks}) == 4
    assert result.total.lessons_hash == result.chunks[-1].lessons_hash


def test_providers_are_trusted_as_their_twins_say(tmp_path: Path) -> None:
    home = make_home(tmp_path, days=6, symbols=("BTC",), seed=5)
    with tapebook.open(home) as book:
        found = book.backtest("tester", chunks="none")
    shown = {row.name: row.weight for row in found.total.providers}
    with closing(Rooms(home / "backtests" / found.id, clock=SystemClock())) as rooms:
        (name,) = [name for name, _ in rooms.book.deployments("tester")]
        twins = rooms.experience.twins.as_of(name, seq=found.total.head_seq, runs=runs_of(rooms.book, rooms.log, name))
        trusted = weights_e4(twins["BTC"], "")
    members = {member: round(weight / 10_000, 4) for member, weight in trusted.items() if member in shown}
    assert len(members) >= 2 and shown | members == shown and shown["ensemble"] is None


def test_providers_are_counted(result: BacktestResult) -> None:
    last = {row.name: row for row in result.total.providers}
    assert {row.weight for row in last.values()} == {None}, "nobody voted for a target"
    assert "idle" not in last and last["ensemble"].n == result.total.trades
    assert all(row.trend is None for row in result.chunks[0].providers)
    assert all(row.trend is not None for row in result.chunks[-1].providers)


def test_asked_again_it_gives_the_same_bytes_whatever_came_after(played: Played) -> None:
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    with opened(played) as told:
        since, again = 2, []
        for chunk, kept in zip(CHUNKS, played.result.chunks, strict=True):
            again.append(
                measure_chunk(told.rooms, told.deployment, told.plan, chunk, since_seq=since, seq=kept.head_seq)
            )
            since = kept.head_seq
        whole = measure_all(told.rooms, told.deployment, told.plan, again)
    assert msgspec.json.encode(whole) == msgspec.json.encode(played.result) == msgspec.json.encode(home.result())


def test_what_the_tape_learns_later_changes_nothing(played: Played, tmp_path: Path) -> None:
    first = played.result
    shutil.copytree(played.parent, tmp_path / "home")
    home = BacktestHome(tmp_path / "home" / "backtests" / first.id)
    with stage(home, home.plan()) as told:
        hour = START + 10 * DAY
        bar = Candle("BTC", 3_600, hour, 1, 2, 1, 1, 1.0, 1.0, 1)
        late: list[Observation] = [Mid("BTC", hour, 1), bar, Mid("BTC", hour + 30_000, 5)]
        told.rooms.tape.commit(late, assumed=lambda fact: fact.bucket_ts)
        assert told.rooms.tape.head()[0] > told.plan.tape_seq
        again = measure_all(told.rooms, told.deployment, told.plan, first.chunks)
    assert again == first


def test_without_memory_nothing_weighs_and_everything_is_counted(rival: BacktestResult) -> None:
    off = rival
    assert off.memory == "off"
    assert {row.weight for chunk in off.chunks for row in chunk.providers} == {None}
    assert {chunk.lessons for chunk in off.chunks} == {()} and {chunk.situations for chunk in off.chunks} == {0}
    assert all(row.trend is not None for row in off.chunks[-1].providers)
    assert sum(row.n for row in off.total.regimes) == off.total.trades > 30


def test_an_empty_chunk_is_measured_too(tmp_path: Path) -> None:
    home, plan = prepare(tmp_path / "home")
    with stage(home, plan) as told:
        seq = told.seq
        result = measure_chunk(told.rooms, told.deployment, plan, CHUNKS[0], since_seq=seq, seq=seq)
        whole = measure_all(told.rooms, told.deployment, plan, [result] * 4)
    assert (result.ticks, result.trades, result.win_rate.n, result.sharpe) == (0, 0, 0, None)
    assert result.change_usd_e6 == 0 and {equity for _, equity in result.daily} == {10_000 * 10**6}
    assert [each.name for each in whole.baselines] == ["cash", "buy and hold"]
    assert not result.providers and msgspec.json.decode(msgspec.json.encode(whole), type=BacktestResult) == whole


def test_total_counts_providers_once(result: BacktestResult) -> None:
    summed: dict[tuple[str, str], int] = {}
    for chunk in result.chunks:
        for row in chunk.providers:
            summed[PROVIDER, row.name] = summed.get((PROVIDER, row.name), 0) + row.n
    assert summed == {(PROVIDER, row.name): row.n for row in result.total.providers}
