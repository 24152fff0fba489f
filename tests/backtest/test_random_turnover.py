"""The same trades at random moments: their costs, their spread against what chance must give, the agent's place."""

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import scipy

from tapebook.backtest.baselines import REPLICATIONS, random_turnover, replicate_trades, trade_columns
from tapebook.backtest.price_series import OrderCosts, PriceSeries
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import E6, HOUR
from tests.backtest.books import CHUNKS, START, Played, plan_of
from tests.experience.makers import closed

HOURS = 28 * 24
FREE = OrderCosts(0.0, 0.0)


def path(prices: npt.ArrayLike, funding: float = 0.0) -> PriceSeries:
    price = np.asarray(prices, dtype=np.float64)
    at = START + HOUR * np.arange(len(price), dtype=np.int64)
    return PriceSeries("BTC", HOUR, at, price, np.asarray(funding * np.arange(len(price)), dtype=np.float64))


def trades(counts: tuple[int, ...], *, hours: int = 3, usd: float = 1_000.0) -> list[ClosedTrade]:
    made = []
    for chunk, count in zip(CHUNKS, counts, strict=True):
        for number in range(count):
            trade = closed(number, net_bps=0.0, trade_id=f"{chunk.name} {number}")
            state = msgspec.structs.replace(trade.state, entry_tick_at=chunk.start, entered_usd_e6=round(usd * E6))
            made.append(ClosedTrade(state, chunk.start + hours * HOUR, "test", None))
    return made


def chunks_with(result: BacktestResult, counts: tuple[int, ...]) -> list[ChunkResult]:
    return [msgspec.structs.replace(chunk, trades=count) for chunk, count in zip(result.chunks, counts, strict=True)]


DAYS = np.array([START + day * 24 * HOUR for day in range(29)], dtype=np.int64)


def test_in_a_still_market_only_costs_are_left(played: Played) -> None:
    counts = (3, 0, 2, 5)
    chunks = chunks_with(played.result, counts)
    tickets = trade_columns([path(np.full(HOURS + 1, 50.0))], trades(counts), chunks=chunks)
    throws = replicate_trades(plan_of(1), tickets, costs=OrderCosts(0.0004, 0.0001), days=DAYS)
    # 1,000 in and 1,000 out, at five hundredths of a percent each way.
    assert throws.nets.tolist() == pytest.approx([-10.0] * REPLICATIONS)
    assert throws.by_chunk[0].tolist() == pytest.approx([-3.0, 0.0, -2.0, -5.0])
    assert throws.by_day[7, -1] == pytest.approx(-10.0) and throws.by_day[7, 0] == 0.0


def shorts(made: list[ClosedTrade]) -> list[ClosedTrade]:
    """The same trades on the other side."""
    return [msgspec.structs.replace(each, state=msgspec.structs.replace(each.state, side="short")) for each in made]


def test_always_long_in_a_rising_market_is_no_merit(played: Played) -> None:
    """Whoever was long, whenever, had the same rise: it is beaten by nobody, and beats nobody."""
    counts = (50, 50, 50, 50)
    rising = 100.0 * 1.001 ** np.arange(HOURS + 1)
    chunks = chunks_with(played.result, counts)
    throws = replicate_trades(
        plan_of(1), trade_columns([path(rising)], trades(counts), chunks=chunks), costs=FREE, days=DAYS
    )
    earned = 200 * 1_000 * (1.001**3 - 1)
    assert throws.nets.tolist() == pytest.approx([earned] * REPLICATIONS)
    total = msgspec.structs.replace(played.result.total, net_usd_e6=round(earned * E6))
    assert random_turnover(throws, total, chunks).beaten.value == 0.0
    # And whoever was short had to lose.
    tickets = trade_columns([path(rising)], shorts(trades(counts)), chunks=chunks)
    assert replicate_trades(plan_of(1), tickets, costs=FREE, days=DAYS).nets.tolist() == pytest.approx(
        [-earned] * REPLICATIONS
    )


def test_moments_are_thrown_and_funding_is_paid(played: Played) -> None:
    counts = (50, 50, 50, 50)
    wavy = 100.0 + 10 * np.sin(np.linspace(0, 200, HOURS + 1))
    chunks = chunks_with(played.result, counts)
    long, paying, short = (
        replicate_trades(plan_of(1), trade_columns([made], each, chunks=chunks), costs=FREE, days=DAYS)
        for made, each in (
            (path(wavy), trades(counts)),
            (path(wavy, funding=0.02), trades(counts)),
            (path(wavy), shorts(trades(counts))),
        )
    )
    # The sum of 200 independent moments is near normal.
    assert scipy.stats.kstest((long.nets - long.nets.mean()) / long.nets.std(), "norm").pvalue > 1e-3
    assert short.nets.tolist() == pytest.approx((-long.nets).tolist())
    # 1,000 USD at about 100 pay two hundredths for each of ten units, three hours long.
    assert (long.nets - paying.nets).mean() == pytest.approx(200 * 1_000 / 100 * 0.02 * 3, rel=0.02)
    assert long.by_chunk.sum(axis=1).tolist() == pytest.approx(long.nets.tolist(), abs=1e-9)


def test_moments_lie_in_their_chunk_and_hold_as_long(played: Played) -> None:
    counts = (0, 400, 0, 0)
    chunks = chunks_with(played.result, counts)
    # A market that moves in the second week alone: there every trade is worth as many steps as it was held.
    second = slice(7 * 24, 14 * 24 + 1)
    prices = np.full(HOURS + 1, 1.0)
    prices[second] = np.exp(0.01 * np.arange(7 * 24 + 1))
    prices[14 * 24 + 1 :] = prices[14 * 24]
    tickets = trade_columns([path(prices)], trades(counts, hours=5), chunks=chunks)
    throws = replicate_trades(plan_of(1), tickets, costs=FREE, days=DAYS)
    grown = 1_000 * (np.exp(0.05) - 1)
    assert throws.nets.tolist() == pytest.approx([400 * grown] * REPLICATIONS)
    assert not throws.by_day[:, :8].any() and throws.by_day[:, 14].tolist() == pytest.approx(throws.nets.tolist())


def test_what_was_held_longer_than_its_chunk_is_thrown_anywhere(played: Played) -> None:
    counts = (0, 0, 1, 0)
    tickets = trade_columns(
        [path(np.linspace(1, 2, HOURS + 1))], trades(counts, hours=200), chunks=chunks_with(played.result, counts)
    )
    (ticket,) = tickets
    assert (ticket.first.tolist(), ticket.bars.tolist()) == ([0], [200]) and ticket.room.tolist() == [HOURS - 200 + 1]
    longest = trades(counts, hours=10_000)
    (whole,) = trade_columns([path(np.linspace(1, 2, HOURS + 1))], longest, chunks=chunks_with(played.result, counts))
    assert (whole.bars.tolist(), whole.room.tolist()) == ([HOURS], [1])


def test_the_agents_place_is_a_share_with_n_and_interval(played: Played) -> None:
    counts = (20, 0, 20, 0)
    chunks = chunks_with(played.result, counts)
    rng = np.linspace(0, 40, HOURS + 1)
    tickets = trade_columns([path(100 + 10 * np.sin(rng))], trades(counts), chunks=chunks)
    throws = replicate_trades(plan_of(1), tickets, costs=FREE, days=DAYS)
    for usd, expected in ((1e6, 1.0), (-1e6, 0.0), (float(np.median(throws.nets)), 0.5)):
        total = msgspec.structs.replace(played.result.total, net_usd_e6=round(usd * E6))
        found = random_turnover(throws, total, chunks)
        assert found.beaten.value == pytest.approx(expected, abs=0.003) and found.beaten.n == REPLICATIONS >= 200
        assert found.beaten.low <= found.beaten.value <= found.beaten.high
    assert found.low_usd_e6 < found.high_usd_e6
    assert [each is None for each in found.beaten_by_chunk] == [False, True, False, True]
    assert len(found.daily_low_usd_e6) == len(DAYS) and found.daily_low_usd_e6[-1] - 10_000 * E6 == found.low_usd_e6


def test_a_plan_has_its_own_dice(played: Played) -> None:
    counts = (20, 20, 20, 20)
    made = [path(100 + 10 * np.sin(np.linspace(0, 40, HOURS + 1)))]
    tickets = trade_columns(made, trades(counts), chunks=chunks_with(played.result, counts))
    one, same, other = (
        replicate_trades(plan_of(seq), tickets, costs=FREE, days=DAYS).nets.tolist() for seq in (1, 1, 2)
    )
    assert one == same != other
    assert trade_columns(made, [], chunks=chunks_with(played.result, (0, 0, 0, 0))) == []
