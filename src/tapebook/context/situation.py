"""All that was known for one decision, read by the loop and handed over as one value."""

import msgspec

from tapebook.domain.agent import Deployment
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.position import Portfolio
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.domain.trade import ClosedTrade, TradeState


class Situation(msgspec.Struct, frozen=True):
    """One agent, one symbol, one moment. Bars are oldest first; closed trades newest exit first."""

    deployment: Deployment
    symbol: str
    as_of: int
    watermarks: Watermarks
    bars: tuple[Candle, ...]
    mid: Mid | None
    liquidity: Liquidity | None
    context: AssetContext | None
    portfolio: Portfolio
    marks: dict[str, int]
    open_trades: dict[str, TradeState]
    closed_trades: tuple[ClosedTrade, ...]
    last_run: DecisionRun | None
    degraded: tuple[str, ...] = ()

    @property
    def price_age_ms(self) -> int | None:
        """How old the newest price is; None when there is none."""
        return None if self.mid is None else self.as_of - self.mid.bucket_ts

    def held_usd_e6(self) -> int:
        """The signed value of the position in the symbol, at its mark."""
        held = self.portfolio.positions.get(self.symbol)
        return 0 if held is None else held.cost_usd_e6 + held.unrealised_usd_e6(self.marks[self.symbol])
