"""What a finished backtest is told from: its result, and the moments, trades and bars behind it."""

import msgspec

from tapebook.domain.agent import Deployment, deployment_id
from tapebook.lab.bars_of import Bars, bars_of
from tapebook.lab.chronicle import Ended, chronicle
from tapebook.lab.curve import Point, equity_points
from tapebook.lab.plan import Plan
from tapebook.lab.result import BacktestResult, ChunkResult
from tapebook.lab.spending import Spent
from tapebook.wiring import Rooms


class Story(msgspec.Struct, frozen=True):
    """Everything a report or an export shows."""

    result: BacktestResult
    points: list[Point]
    trades: list[Ended]
    stale: tuple[str, ...] = ()
    spent: Spent = Spent()

    def chunk_of(self, place: int) -> ChunkResult:
        """The chunk in which the trade at a place ended: trades stand in the order of their exits."""
        for chunk in self.result.chunks:
            place -= chunk.trades
            if place < 0:
                return chunk
        return self.result.chunks[-1]


def story(
    rooms: Rooms, plan: Plan, result: BacktestResult, *, stale: tuple[str, ...] = (), spent: Spent | None = None
) -> Story:
    """Reads the book of a backtest up to where it was measured; `stale` names inputs that are others by now."""
    deployment = Deployment(rooms.book.owner, deployment_id(plan.agent), plan.agent, plan.agent_version)
    book = chronicle(rooms, deployment, after=0, until=result.total.head_seq)
    last = Point(result.end, result.total.equity_end_usd_e6, result.total.insurance_usd_e6)
    return Story(result, [*equity_points(book), last], book.ended(), stale, spent or Spent())


def markets(rooms: Rooms, plan: Plan) -> list[Bars]:
    """The finest bars of every symbol of a plan."""
    found = (bars_of(rooms.tape, plan, symbol) for symbol in plan.symbols)
    return [bars for bars in found if bars is not None]
