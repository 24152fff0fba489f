"""Reads every room for one decision. The only reader across rooms; replay calls it with stored watermarks."""

from collections.abc import Mapping

from tapebook.context import Situation
from tapebook.domain.agent import Deployment
from tapebook.domain.instants import MINUTE
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.position import Position
from tapebook.domain.run import Watermarks
from tapebook.tape.features import classify_regime
from tapebook.tape.rollup import roll_up
from tapebook.tape.store import Tape, View
from tapebook.wiring import Rooms


def watermarks_now(rooms: Rooms, deployment: Deployment) -> Watermarks:
    """How far each store reaches at this moment."""
    return Watermarks(tape=rooms.tape.head()[0], book=rooms.book.head(deployment.id))


def gather(rooms: Rooms, deployment: Deployment, symbol: str, *, as_of: int, watermarks: Watermarks) -> Situation:
    """Everything one decision may know, and nothing beyond its watermarks."""
    view = View(as_of, watermarks.tape)
    account = rooms.book.account(deployment.id, seq=watermarks.book)
    profile = deployment.agent.context
    most = profile.recent_trades_k
    return Situation(
        deployment=deployment,
        symbol=symbol,
        as_of=as_of,
        watermarks=watermarks,
        bars=tuple(bars(rooms.tape, symbol, minutes=profile.bar_minutes, count=profile.bar_count, view=view)),
        mid=rooms.tape.newest(Mid, symbol, view=view),
        liquidity=rooms.tape.newest(Liquidity, symbol, view=view),
        context=rooms.tape.newest(AssetContext, symbol, view=view),
        portfolio=account.portfolio,
        marks=marks(rooms.tape, account.portfolio.positions, view=view),
        open_trades=account.open_trades,
        closed_trades=tuple(rooms.book.closed_trades(deployment.id, seq=watermarks.book, most=most)),
        last_run=rooms.book.last_run(deployment.id, symbol, seq=watermarks.book),
    )


def bars(tape: Tape, symbol: str, *, minutes: int, count: int, view: View) -> list[Candle]:
    """The newest complete bars, rolled up from one-minute bars that had ended."""
    step = minutes * MINUTE
    end = view.as_of - view.as_of % step
    found = tape.candles(symbol, granularity_sec=60, since=end - count * step, view=view)
    return roll_up((minute for minute in found if minute.bucket_ts < end), granularity_sec=minutes * 60)


def marks(tape: Tape, positions: Mapping[str, Position], *, view: View) -> dict[str, int]:
    """What each position is valued at: the newest midpoint, or its cost where no price is known any more."""
    newest = {symbol: tape.newest(Mid, symbol, view=view) for symbol in positions}
    return {symbol: mid.price_e8 if mid else positions[symbol].entry_price_e8 for symbol, mid in newest.items()}


def regime(tape: Tape, deployment: Deployment, symbol: str, *, view: View) -> str:
    """The regime tag of the bars an agent would have seen at a moment."""
    profile = deployment.agent.context
    window = bars(tape, symbol, minutes=profile.bar_minutes, count=profile.bar_count, view=view)
    return classify_regime([bar.close_e8 / 1e8 for bar in window])
