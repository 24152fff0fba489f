"""A desk whose source brings bad ticks: none is traded on, none is valued on, and the doctor names them."""

from pathlib import Path

import msgspec

from tapebook.desk.demo import VirtualDesk
from tapebook.desk.health import health_checks
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.units import MINUTE, SECOND
from tapebook.home import make_home
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.tape.quarantine import RefusedObservation
from tapebook.world.market import WorldStep
from tests.replay import desk
from tests.replay.home_fingerprint import Remains, assert_whole

END = desk.START + 80 * MINUTE
FACTOR = 1_000


def _hurt(seen: Observation, at: int) -> Observation:
    """For nine seconds of every second minute midpoints are far too high, and a bar in ten minutes is so as well."""
    bad = at >= desk.START + 4 * MINUTE and at % (2 * MINUTE) < 9 * SECOND
    if isinstance(seen, Mid) and bad:
        return msgspec.structs.replace(seen, price_e8=seen.price_e8 * FACTOR)
    if isinstance(seen, Candle) and at >= desk.START + 4 * MINUTE and seen.bucket_ts % (10 * MINUTE) == 0:
        return msgspec.structs.replace(seen, high_e8=seen.high_e8 * FACTOR)
    return seen


def _trade(home: Path, steps: list[WorldStep], *, stops: tuple[int, ...] = ()) -> list[RefusedObservation]:
    """Trades on what an ingester takes in, with a restart of everything at some moments."""
    make_home(home)
    for until in (*stops, END):
        with desk.opened(home) as (rooms, clock):
            begins = rooms.tape.head()[1]
            ingester = Ingester(rooms, intake := FactBuffer(), keep=retention_by_channel(rooms.config))
            virtual = VirtualDesk(rooms, desk.deployments(rooms), clock)
            virtual.do_due_work()
            for step in (step for step in steps if begins < step.at <= until):
                virtual.decide_after_waits(before=step.at)
                clock.advance(step.at)
                intake.add_observations(step.observations)
                assert ingester.flush() is None
                virtual.do_due_work()
            refused = rooms.tape.quarantined_observations(since=0)
    return refused


def _range(steps: list[WorldStep], symbol: str) -> tuple[int, int]:
    prices = [
        seen.price_e8
        for step in steps
        for seen in step.observations
        if isinstance(seen, Mid) and seen.symbol == symbol and step.at <= END
    ]
    return min(prices), max(prices)


def test_bad_ticks_are_not_traded_on(tmp_path: Path) -> None:
    true = desk.steps_after(0)
    hurt = [WorldStep(step.at, tuple(_hurt(seen, step.at) for seen in step.observations)) for step in true]
    refused = _trade(tmp_path / "home", hurt)
    found = Remains.of(tmp_path / "home")
    with desk.opened(tmp_path / "home") as (rooms, _):
        fills = [fill for run in rooms.book.run_ids(most=1_000) for fill in rooms.book.fills_of_run(run)]
        (said, *_) = [
            check for check in health_checks(rooms) if check.name == "problems" and "refused row" in check.detail
        ]
    assert len(fills) > 3
    for fill in fills:
        low, high = _range(true, fill.symbol)
        assert low * 95 // 100 <= fill.price_e8 <= high * 105 // 100, fill
    # Every one that was hurt is kept beside the tape, and no other.
    bad = {
        (seen.symbol, seen.end if isinstance(seen, Candle) else seen.bucket_ts)
        for step, other in zip(hurt, true, strict=True)
        for seen, was in zip(step.observations, other.observations, strict=True)
        if seen != was and step.at <= END and isinstance(seen, Mid | Candle)
    }
    assert {(each.symbol, each.at) for each in refused} == bad
    assert not said.ok and "times" in said.detail
    assert all("liquidated" not in str(row) for row in found.tables["trade_history"])
    assert_whole(tmp_path / "home")


def test_restarts_among_bad_ticks_change_nothing(tmp_path: Path) -> None:
    hurt = [
        WorldStep(each.at, tuple(_hurt(seen, each.at) for seen in each.observations)) for each in desk.steps_after(0)
    ]
    hurt = [step for step in hurt if step.at <= desk.START + 20 * MINUTE]
    _trade(tmp_path / "whole", hurt)
    stops = tuple(desk.START + 6 * MINUTE + second * SECOND for second in (0, 10, 125))
    _trade(tmp_path / "stopped", hurt, stops=stops)
    Remains.of(tmp_path / "whole").assert_same_in(tmp_path / "stopped")
