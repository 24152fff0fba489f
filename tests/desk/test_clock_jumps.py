"""A clock that goes ahead by hours and back: decisions go on, nothing of later is shown, and all of it replays."""

from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.context import Situation
from tapebook.desk.demo import VirtualDesk
from tapebook.desk.health import health_checks
from tapebook.domain.market import AssetContext, Liquidity, Mid, Observation
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND
from tapebook.errors import Busy
from tapebook.home import make_home
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.lab.replay import replay_runs
from tapebook.log import verify_log
from tapebook.tape.view import View
from tapebook.tick.prepare import gather_situation
from tapebook.wiring import BOOK_PACKAGES, Rooms
from tests.replay import desk

AHEAD = 6 * HOUR
JUMPS, RETURNS = desk.START + 70 * MINUTE, desk.START + 90 * MINUTE
END = desk.START + 110 * MINUTE


class JumpingClock:
    """Goes with the market, and for a while hours ahead of it."""

    never_goes_back = False
    is_invented = False

    def __init__(self) -> None:
        self.market = desk.START
        self.ahead = 0

    def now(self) -> int:
        return self.market + self.ahead

    def seconds(self) -> float:
        return self.market / SECOND

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def catch_up(self, instant: int) -> None:
        raise NotImplementedError

    def advance(self, to: int) -> None:
        self.market = to - self.ahead


def as_stamped(seen: Observation, clock: JumpingClock) -> Observation:
    """Bars carry the exchange's time; what has none is stamped by the clock."""
    if isinstance(seen, Mid | AssetContext | Liquidity):
        return msgspec.structs.replace(seen, bucket_ts=seen.bucket_ts + clock.ahead)
    return seen


def _trade(rooms: Rooms, clock: JumpingClock) -> None:
    intake = FactBuffer()

    def begin() -> tuple[Ingester, VirtualDesk]:
        ingester = Ingester(rooms, intake, keep=retention_by_channel(rooms.config))
        return ingester, VirtualDesk(rooms, desk.deployments(rooms), cast("VirtualClock", clock))

    ingester, virtual = begin()
    for step in desk.steps_after(0):
        if step.at > END:
            return
        clock.market = step.at
        ahead = AHEAD if JUMPS <= step.at < RETURNS else 0
        if ahead < clock.ahead:
            clock.ahead = ahead
            # As processes do that see their clock go back.
            ingester, virtual = begin()
        clock.ahead = ahead
        intake.add_observations([as_stamped(seen, clock) for seen in step.observations])
        assert ingester.flush() is None
        ingester.do_due_work()
        virtual.do_due_work()


def later_than(situation: Situation) -> list[str]:
    """What a packet tells of that lies after its moment."""
    market, as_of = situation.market, situation.as_of
    times = {
        "bar": [bar.end for bar in market.bars],
        "price": [market.mid.bucket_ts] if market.mid else [],
        "book": [market.liquidity.bucket_ts] if market.liquidity else [],
        "context": [market.context.bucket_ts] if market.context else [],
        "feature": [feature.bucket_ts for feature in market.features],
        "entry": [trade.entry_tick_at for trade in situation.open_trades.values()],
        "exit": [trade.exit_tick_at for trade in situation.closed_trades],
        "decision": [situation.last_run.as_of] if situation.last_run else [],
        "close": list(situation.activity.last_close_at.values()) if situation.activity else [],
    }
    return [f"{name} {at - as_of} ms after" for name, moments in times.items() for at in moments if at > as_of]


def test_a_clock_that_goes_ahead_and_back_is_survived(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    clock = JumpingClock()
    with closing(Rooms(tmp_path / "home", clock=clock)) as rooms:
        _trade(rooms, clock)
        runs = [run for run in map(rooms.book.run, rooms.book.run_ids(most=10_000)) if run is not None]
        deployments = {each.id: each for each in desk.deployments(rooms)}
        # A decision in every slot after the return, as before the jump.
        quick = sorted(run.as_of for run in runs if run.agent == "quick-2m" and run.symbol == "HYPE")
        after = [at for at in quick if RETURNS <= at < END]
        assert len(after) >= (END - RETURNS) // (2 * MINUTE) - 1
        assert any(at >= JUMPS + AHEAD for at in quick), "nothing was decided while the clock was ahead"
        for run in [run for run in runs if run.as_of >= JUMPS]:
            deployment = deployments[run.deployment]
            situation = gather_situation(rooms, deployment, run.symbol, as_of=run.as_of, watermarks=run.watermarks)
            assert later_than(situation) == [], run
            if RETURNS <= run.as_of < END:
                assert situation.market.mid is not None
                assert run.as_of - situation.market.mid.bucket_ts <= 5 * SECOND
                assert len(situation.market.bars) == 60, "bars of the jump are missing"
        assert rooms.tape.head()[1] <= END + SECOND
        # What the clock dated while it was ahead is gone for good, and channels have come as far as the market.
        assert rooms.tape.facts(Mid, "HYPE", since=END + MINUTE, until=END + DAY, view=View(END + DAY)) == []
        assert max(channel.newest_known_at for channel in rooms.tape.channels()) <= END + SECOND
        for name in deployments:
            assert rooms.book.seq_as_of(name, END + SECOND) == rooms.book.head(name)
        assert verify_log(rooms.log, rooms.book_db, packages=BOOK_PACKAGES, anchors={}) == []
        (said,) = [check for check in health_checks(rooms) if check.name == "clock"]
        assert not said.ok and "set back 1 time in" in said.detail
        assert rooms.book.cash_differences() == []
        replayed = replay_runs(rooms, [run.run_id for run in runs if run.as_of >= JUMPS])
        assert replayed.different == []


def test_a_clock_behind_the_newest_bar_writes_nothing(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    clock = JumpingClock()
    with closing(Rooms(tmp_path / "home", clock=clock)) as rooms:
        for step in desk.steps_after(0)[:40]:
            clock.market = step.at
            rooms.tape.commit(step.observations)
        seq = rooms.tape.head()
        clock.market = 0
        with pytest.raises(Busy, match="set the clock of this machine right"):
            rooms.tape.commit([Mid("HYPE", 5_000, 1)])
        assert rooms.tape.head() == seq
