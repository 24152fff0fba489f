"""The same eyes in backtests: what live ingestion stores of a market, imported bars and rates say by themselves."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import tapebook
from tapebook.backtest.result import BacktestResult
from tapebook.book.events import RunDecided, event_body
from tapebook.clock import SystemClock
from tapebook.domain.market import FundingRate
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.history.importer import assumed_known_at
from tapebook.log import Stream
from tapebook.wiring import Rooms
from tests.backtest.bars import START, bars

DAYS = 4
# 0.08 % for eight hours is 0.01 % an hour, twice what the carry engine asks for.
RATE = 800_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with bars of five minutes and funding every eight hours, as imported, and nothing else."""
    home = tmp_path_factory.mktemp("history") / "home"
    tapebook.init(home)
    with tapebook.open(home) as book:
        chosen = {"watch": "BTC", "engine": "ensemble", "members": "trend, carry", "every_minutes": "15"}
        book.add_agent("tester", chosen)
    rates = [FundingRate("BTC", at, RATE, 0) for at in range(START, START + DAYS * DAY, 8 * HOUR)]
    with closing(Rooms(home, clock=SystemClock())) as rooms:
        rooms.tape.commit([*bars("BTC", seed=1, days=DAYS), *rates], assumed=assumed_known_at)
    return home


@pytest.fixture(scope="module")
def result(home: Path) -> BacktestResult:
    with tapebook.open(home) as book:
        return book.backtest("tester", chunks="none")


@pytest.fixture
def decided(home: Path, result: BacktestResult) -> Iterator[list[DecisionRun]]:
    """Every decision of the backtest."""
    with closing(Rooms(home / "backtests" / result.id, clock=SystemClock())) as rooms:
        events = rooms.log.events(Stream("local", "tester.paper"))
        yield [event_body(event, RunDecided).run for event in events if event.kind == "run.decided"]


def market_of(packet: Packet) -> dict[str, str]:
    """The rows of the market section."""
    section = packet.section("market")
    assert section is not None
    return {row[0]: row[1] for row in section.rows}


def packet_at(home: Path, as_of: int) -> Packet:
    with tapebook.open(home) as book:
        return book.context("tester", "BTC", as_of=as_of)


def test_carry_votes_in_a_backtest_on_imported_funding(decided: list[DecisionRun]) -> None:
    votes = [vote for run in decided for vote in run.votes if vote.engine == "carry"]
    heard = [vote for vote in votes if "funding is 0.01000 % an hour: longs pay shorts" in vote.reason]
    assert len(decided) == DAYS * 96
    # Of one rate alone nobody knows for how long it was paid: the second one says so.
    silent = 8 * HOUR // (15 * MINUTE)
    assert len(heard) >= len(votes) - silent - 1
    assert {vote.side for vote in heard if vote.action == "open"} == {"short"}


def test_a_backtest_sees_volatility_positioning_regime_and_funding(home: Path, result: BacktestResult) -> None:
    as_of = START + 3 * DAY + 7 * MINUTE
    found = market_of(packet_at(home / "backtests" / result.id, as_of))
    assert found["funding_rate_1h_pct"] == "0.01000" and found["funding_interval_h"] == "8"
    assert found["funding_age_s"] == str(7 * 60)
    assert found["regime"].rpartition("_")[0] in {"trend_up", "trend_down", "chop"}
    expected = "fundingRate8h=0.0008000000 fundingRateAnnual=0.876000 regime=crowded_long age_s=120"
    assert found["fundingPressure"] == expected
    assert "realizedVol1h=0." in found["volatilityProfile"] and "realizedVol24h=0." in found["volatilityProfile"]
    assert found["positioningPressure"].startswith("direction=")
    # Taken at the boundary of five minutes before.
    assert all(found[name].endswith(" age_s=120") for name in ("volatilityProfile", "positioningPressure"))
    packet = packet_at(home / "backtests" / result.id, as_of)
    assert packet.section_tokens["market"] >= 150


def test_its_packets_replay(home: Path, result: BacktestResult) -> None:
    with tapebook.open(home / "backtests" / result.id) as book:
        # Every third; a bar that is read wrongly is in the packets of many decisions.
        reports = [book.replay(run["run_id"]) for run in book.runs("tester", most=10_000)[::3]]
        assert len(reports) > 50 and not [each for each in reports if each.different] and book.verify() == []
