"""All that was known for one decision, read by the loop and handed over as one value."""

import msgspec

from tapebook.context.versions import RENDERER
from tapebook.domain.activity import Activity
from tapebook.domain.agent import Deployment
from tapebook.domain.citation import Citation
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid, SettledFunding
from tapebook.domain.memory import ExperienceRow, LayerRow, Lessons
from tapebook.domain.order import Order, OrderOutcome
from tapebook.domain.position import Portfolio
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.domain.trade import ClosedTrade, TradeState


class Feature(msgspec.Struct, frozen=True):
    """A derived row of the tape, such as `fundingPressure`: when it was taken, and its figures as text.

    `line` is those that a packet shows, where they were written as one.
    """

    name: str
    bucket_ts: int
    metrics: tuple[tuple[str, str], ...] = ()
    line: str = ""


class Market(msgspec.Struct, frozen=True):
    """What is known of one symbol at a moment: the same for every agent that looks at bars of the same size.

    Bars are oldest first. `unfinished` are the minutes of the newest bar that were not final when its time had
    come; `regime` is the tag of the bars, None when they could not be classified. `settled` is the funding of history,
    which has no context.
    """

    symbol: str
    as_of: int
    bar_minutes: int
    bars: tuple[Candle, ...] = ()
    mid: Mid | None = None
    liquidity: Liquidity | None = None
    context: AssetContext | None = None
    features: tuple[Feature, ...] = ()
    unfinished: tuple[int, ...] = ()
    regime: str | None = None
    settled: SettledFunding | None = None


class Situation(msgspec.Struct, frozen=True):
    """One agent, one symbol, one moment. Closed trades are newest exit first, working orders oldest first.

    `degraded` names what could not be read: it is missing here, which is not the same as empty.
    """

    deployment: Deployment
    as_of: int
    watermarks: Watermarks
    market: Market
    portfolio: Portfolio
    marks: dict[str, int]
    open_trades: dict[str, TradeState]
    closed_trades: tuple[ClosedTrade, ...] = ()
    last_run: DecisionRun | None = None
    last_orders: tuple[OrderOutcome, ...] = ()
    working: tuple[Order, ...] = ()
    activity: Activity | None = None
    lessons: Lessons | None = None
    experience: tuple[ExperienceRow, ...] = ()
    horizons: tuple[LayerRow, ...] = ()
    citations: tuple[Citation, ...] = ()
    degraded: tuple[str, ...] = ()
    renderer: int = RENDERER

    @property
    def symbol(self) -> str:
        """The symbol the decision is about."""
        return self.market.symbol

    @property
    def price_age_ms(self) -> int | None:
        """How old the newest price is; None when there is none."""
        mid = self.market.mid
        return None if mid is None else self.as_of - mid.bucket_ts


def agent_of(situation: Situation) -> str:
    """Whose decision it is: the name to show where the agent has to be changed."""
    return situation.deployment.agent.name
