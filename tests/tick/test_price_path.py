"""Extremes of a trade are prices that were observed while it was open, whoever reconciled and when.

`extremes` is an oracle that reads no tape: it knows every fact with the moment it was known, takes the fills the book
has, and looks at each price that counts.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tapebook.book.events import FillObserved
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import Fill
from tapebook.domain.position import Position, TradeState, position_after_fill
from tapebook.domain.units import E6, E8, MINUTE, SECOND
from tests.broker.market import NOON, bar, mid, order
from tests.matrix import examples
from tests.tick.test_reconcile import Desk

END = 30
"""Minutes after noon at which a random story ends."""


class Story(NamedTuple):
    """Facts with the minute after noon at which each is told, and signed sizes with that of their order."""

    facts: list[tuple[float, Mid | Candle]]
    orders: list[tuple[float, int]]


class Played(NamedTuple):
    """What became of a story: facts with when they were known, fills, and all trades, the open one last."""

    known: list[tuple[int, Mid | Candle]]
    fills: list[Fill]
    trades: list[TradeState]


@contextmanager
def made_desk(fill: str = "bar_close") -> Iterator[Desk]:
    """A rich desk in a folder of its own.

    Its orders fill at prices that are known when they fill: what fills at the open of a bar is booked when that bar is
    known, and whoever looked before has valued what was held until then.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Desk(Path(folder) / "home", fill=fill, starting_cash_usd_e6=1_000_000 * E6)
        yield made
        made.rooms.close()


def trades_of(desk: Desk) -> list[TradeState]:
    """All trades of a desk, oldest first."""
    book, name = desk.rooms.book, desk.deployment.id
    closed = [each.state for each in book.closed_trades(name, seq=2**31, most=99)]
    return [*closed[::-1], *book.account(name, seq=2**31).open_trades.values()]


def reached(trades: Sequence[TradeState]) -> list[tuple[int, int]]:
    """How low and how high trades were."""
    return [(trade.mae_usd_e6, trade.mfe_usd_e6) for trade in trades]


def play(story: Story, looks: Sequence[float]) -> Played:
    """A desk that reconciles at some minutes and at the end."""
    known: list[tuple[int, Mid | Candle]] = []
    with made_desk() as desk:
        for number, (at, size) in enumerate(story.orders):
            names = {"client_id": f"c{number}", "run_id": f"r{number}"}
            desk.send(order(at, "buy" if size > 0 else "sell", abs(size), **names))
        told: list[tuple[float, Mid | Candle | None]] = [*story.facts, *[(at, None) for at in looks]]
        for at, fact in sorted(told, key=lambda each: each[0]):
            if fact is None:
                desk.reconcile(at)
            else:
                desk.learn(at, fact)
                known.append((desk.rooms.tape.head()[1], fact))
        desk.reconcile(END)
        said = [each.body for each in desk.events() if each.kind == "fill.observed"]
        fills = [msgspec.json.decode(body, type=FillObserved).fill for body in said]
        return Played(known, fills, trades_of(desk))


def counted(known: Sequence[tuple[int, Mid | Candle]], since: int, until: int, *, as_of: int) -> list[int]:
    """The prices that count for a position that was there from one moment up to, not including, another."""
    facts = [fact for at, fact in known if at <= as_of]
    mids = [fact for fact in facts if isinstance(fact, Mid)]
    prices = [each.price_e8 for each in mids if since <= each.bucket_ts < until]
    for each in facts:
        if not isinstance(each, Candle) or not since < each.end <= until:
            continue
        minutes = range(each.bucket_ts, each.end, MINUTE)
        silent = [at for at in minutes if not any(at <= one.bucket_ts < at + MINUTE for one in mids)]
        if each.bucket_ts >= since and silent:
            prices += [each.open_e8, each.high_e8, each.low_e8, each.close_e8]
        elif each.bucket_ts < since and each.end - MINUTE in silent:
            prices.append(each.close_e8)
    return prices


def extremes(played: Played) -> list[tuple[int, int]]:
    """How low and how high each trade was, by the facts."""
    found: list[list[int]] = []
    held: Position | None = None
    realised, since, now = 0, 0, NOON + END * MINUTE
    for fill in played.fills:
        at = fill.happened_at
        if held is not None:
            ends = [(known, fact.bucket_ts if isinstance(fact, Mid) else fact.end) for known, fact in played.known]
            as_of = min([known for known, end in ends if end >= at], default=now)
            seen = counted(played.known, since, at, as_of=as_of)
            found[-1] += [realised + held.unrealised_usd_e6(price) for price in seen]
        after, gained = position_after_fill(held, fill, leverage=1)
        if held is not None:
            realised += gained
            stays = after is not None and (after.size_e8 > 0) == (held.size_e8 > 0)
            found[-1].append(realised + (after.unrealised_usd_e6(fill.price_e8) if after and stays else 0))
        if after is not None and (held is None or (after.size_e8 > 0) != (held.size_e8 > 0)):
            found.append([0])
            realised = 0
        held, since = after, at
    if held is not None:
        seen = counted(played.known, since, now + 1, as_of=now)
        found[-1] += [realised + held.unrealised_usd_e6(price) for price in seen]
    return [(min(results), max(results)) for results in found]


def random_story(seed: int, kind: str) -> Story:
    """Half an hour of a market of midpoints with or without gaps, of minutes alone, or of bars of five minutes."""
    chance = Random(seed)
    facts: list[tuple[float, Mid | Candle]] = []
    length, price = (5 if kind == "five minutes" else 1), 100.0
    silent = set(range(END)) if "minutes" in kind else set()
    if kind == "gaps":
        silent = set(chance.sample(range(2, END - 2, 2), 6))
    told = 0.0
    for minute in range(0, END, length):
        path = [price := price * (1 + chance.gauss(0, 0.01)) for _ in range(length * 3)]
        if minute not in silent:
            facts += [(minute + n / 3 + 0.02, mid(minute + n / 3, each)) for n, each in enumerate(path)]
        # Bars are told in order: minutes up to a minute and a half late, longer ones within the grace of a source,
        # for an order does not wait longer for them.
        told = max(told, minute + length + chance.random() * (1.5 if length == 1 else 0.03))
        top, bottom = max(path) * (1 + chance.random() / 50), min(path) * (1 - chance.random() / 50)
        facts.append((told, bar(minute, path[0], top, bottom, path[-1], minutes=length)))
    minutes = sorted(chance.sample(range(END - 8), 4))
    orders = [(minute + 7 / 60, chance.choice((-3, -2, -1, 1, 2, 3))) for minute in minutes]
    return Story([each for each in facts if each[0] < END], orders)


KINDS = st.sampled_from(["midpoints", "gaps", "minutes", "five minutes"])
LOOKS = st.lists(st.integers(0, END * 60 - 1).map(lambda second: second / 60 + 0.001), max_size=12)


@settings(max_examples=examples(24), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), kind=KINDS, looks=LOOKS)
def test_extremes_are_those_of_the_observed_path_whoever_looks_when(seed: int, kind: str, looks: list[float]) -> None:
    story = random_story(seed, kind)
    once, often = play(story, []), play(story, looks)
    event(f"{kind}, {min(len(once.fills), 3)} fills or more")
    assert once.fills == often.fills
    assert reached(once.trades) == extremes(once)
    assert reached(often.trades) == reached(once.trades)
    for trade in once.trades:
        assert trade.mae_usd_e6 <= min(0, trade.realised_usd_e6) <= max(0, trade.realised_usd_e6) <= trade.mfe_usd_e6


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk with nothing."""
    with made_desk() as made:
        yield made


def test_price_of_before_the_entry_does_not_count(desk: Desk) -> None:
    """A mark one bar old: the position was never worth that."""
    desk.learn(1, bar(0, 120, 130, 119, 120))
    desk.send(order(1.2, "buy", 1))
    desk.learn(3, bar(1, 100, 140, 60, 110), bar(2, 100, 101, 99, 100))
    desk.reconcile()
    [trade] = trades_of(desk)
    assert trade.entry_tick_at == NOON + 2 * MINUTE
    # It was bought at the open of the third bar, half a spread above 100, and saw that bar alone.
    assert (trade.entry_mark_e8, trade.entry_price_e8 // E8) == (120 * E8, 100)
    assert reached([trade]) == [(-1_010_020, 989_980)]


def test_bar_in_which_the_position_moved_counts_its_close_alone(desk: Desk) -> None:
    desk.send(order(1.5, "buy", 1))
    desk.learn(1.7, mid(1.7, 100))
    desk.reconcile()
    # Minutes without midpoints: the second has one, so that its bar does not count at all.
    desk.learn(4, bar(1, 100, 150, 50, 130), bar(2, 100, 103, 98, 101), bar(3, 101, 102, 100, 102))
    desk.reconcile()
    assert reached(trades_of(desk)) == [(-2_010_020, 2_989_980)]


def test_bar_whose_open_filled_the_order_counts_its_close_alone() -> None:
    """The fill came two seconds after the open, so nobody knows whether the extremes came before or after."""
    with made_desk("next_open") as desk:
        desk.learn(5, bar(0, 100, 100, 100, 100, minutes=5))
        desk.send(order(5.04, "buy", 1))
        desk.learn(10, bar(5, 100, 150, 50, 104, minutes=5))
        desk.reconcile()
        assert reached(trades_of(desk)) == [(0, 3_989_980)]
        desk.learn(15, bar(10, 104, 110, 99, 104, minutes=5))
        desk.reconcile()
        assert reached(trades_of(desk)) == [(-1_010_020, 9_989_980)]


def test_five_minutes_in_which_the_position_moved(desk: Desk) -> None:
    desk.learn(5, bar(0, 100, 100, 100, 100, minutes=5))
    desk.send(order(6, "buy", 1))
    desk.learn(7.2, mid(7, 100))
    desk.reconcile()
    desk.learn(10, bar(5, 100, 150, 50, 104, minutes=5))
    desk.reconcile()
    assert reached(trades_of(desk)) == [(-10_020, 3_989_980)]
    desk.learn(15, bar(10, 104, 110, 99, 104, minutes=5))
    desk.reconcile()
    assert reached(trades_of(desk)) == [(-1_010_020, 9_989_980)]


def test_bar_that_is_told_after_the_exit_changes_nothing() -> None:
    """Nor does it for a process that reconciles later than it is told."""
    entry, exit_price, silent = mid(0.2, 100), mid(2, 101), bar(1, 100, 150, 50, 100)
    orders = [(0.0, 1), (1.9, -1)]
    late = Story([(0.2, entry), (2, exit_price), (2.5, silent)], orders)
    assert reached(play(late, []).trades) == reached(play(late, [0.3, 2.1]).trades) == [(-10_020, 979_860)]
    in_time = Story([(0.2, entry), (2, silent), (2, exit_price)], orders)
    assert reached(play(in_time, []).trades) == [(-50_010_020, 49_989_980)]


def test_bar_that_is_told_late_counts_while_the_position_is_held() -> None:
    story = Story([(0.2, mid(0.2, 100)), (4, mid(4, 101)), (9, bar(1, 100, 150, 50, 100))], [(0, 1)])
    looks = [0.3, 4.1, 6, 8, 9.1]
    assert reached(play(story, looks).trades) == reached(play(story, []).trades) == [(-50_010_020, 49_989_980)]


def test_bar_of_a_liquidation_says_nothing_of_the_trade() -> None:
    with tempfile.TemporaryDirectory() as folder:
        poor = Desk(Path(folder) / "home")
        poor.send(order(0, "buy", 80, leverage=10))
        poor.learn(1, mid(1, 100))
        poor.reconcile()
        bars = [bar(minute, 100, 100, 99, 100) for minute in range(1, 9)]
        bars[3] = bar(4, 95, 140, 10, 95)
        poor.learn(9, *bars)
        poor.reconcile()
        [trade] = trades_of(poor)
        assert trade.mae_usd_e6 == trade.realised_usd_e6
        assert trade.mfe_usd_e6 == 0
        poor.rooms.close()


def test_path_goes_on_after_a_restart_where_it_was(desk: Desk) -> None:
    """How far it was taken is in the book: another process knows it too."""
    desk.send(order(0, "buy", 1))
    desk.learn(0.2, mid(0.2, 100))
    desk.reconcile()
    desk.learn(1, *[mid(0.3 + number / 60, 100 + number) for number in range(30)])
    desk.learn(1.1, mid(1.05, 100))
    desk.reconcile()
    assert desk.snapshot().happened_at == NOON + 66 * SECOND
    assert reached(trades_of(desk)) == [(-10_020, 28_989_980)]
