"""All that was known for one decision as one value, the versions of a packet, and the cache of markets.

A run stores the number of the renderer that made its packet. Replay reads and renders with the same number for
ever, so a rule that changes what a packet says is a field of `PacketVersion`, false for the versions before it.

`MarketCache` keeps markets for the agents that are due at the same moment. A market is a function of its key: a
symbol, the bars that are wanted, the moment and the tape's watermark name rows that never change. So nothing
invalidates an entry, and the cache only saves the reading.
"""

import msgspec

from tapebook.domain.agent import (
    NO_LESSONS_FOLLOWED,
    OWN_SUBSCRIPTIONS,
    Deployment,
    ExperienceRow,
    FollowedLessons,
    LayerRow,
    Lessons,
    Subscriptions,
)
from tapebook.domain.market import AssetContext, Candle, Liquidity, LookbackBars, Mid, SettledFunding
from tapebook.domain.order import Order, OrderOutcome
from tapebook.domain.packet import AnalogFacts, Citation
from tapebook.domain.position import ClosedTrade, Portfolio, TradeState
from tapebook.domain.run import Activity, DecisionRun, Watermarks
from tapebook.domain.targets import NO_TRUST, LearnedTrust


class PacketVersion(msgspec.Struct, frozen=True):
    """The rules of one renderer.

    `complete_bars`     a bar that lacks a minute is not shown as finished, and the missing minute is named
    `scaled_regimes`    the thresholds of a regime scale with the square root of the time its window covers
    `derived_features`  features are derived from imported bars and rates where none were stored
    `sanitised`         words from outside are shown, and asked about, as `domain/text.py` leaves them
    `expired_orders`    a decision whose order expired at the send gate is still the last decision
    `paper_twins`       members of an ensemble are trusted by what they alone would have made
    `lookbacks`         a situation is seen at fixed look-backs of the tape, whatever bars the packet shows
    `hypotheses`        lessons are conditions with a claim that later trades confirm or retire
    `market_phases`     layers speak of sectors, phases and exposure, and of the day that is running
    `market_context`    the market has rows of prediction markets and of capital, where a source brings them
    """

    renderer: int
    complete_bars: bool
    scaled_regimes: bool
    derived_features: bool
    expired_orders: bool
    sanitised: bool
    paper_twins: bool = False
    lookbacks: bool = False
    hypotheses: bool = False
    market_phases: bool = False
    market_context: bool = False


PACKET_VERSIONS = {
    2: PacketVersion(2, False, False, False, False, False),
    3: PacketVersion(3, True, True, True, True, False),
    4: PacketVersion(4, True, True, True, True, True),
    5: PacketVersion(5, True, True, True, True, True, True, True, True, True, True),
}

CURRENT_RENDERER = max(PACKET_VERSIONS)
"""The renderer of new packets."""

CURRENT_VERSION = PACKET_VERSIONS[CURRENT_RENDERER]


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
    come; `regime` is the tag of the bars, None when they could not be classified. `settled_funding` is that of history,
    which has no context. `lookback` is read for agents with memory alone.
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
    settled_funding: SettledFunding | None = None
    lookback: LookbackBars | None = None


class Situation(msgspec.Struct, frozen=True):
    """One agent, one symbol, one moment. Closed trades are newest exit first, working orders oldest first.

    `degraded` names what could not be read: it is missing here, which is not the same as empty. `trust` is what was
    learned of an ensemble's members, and `cost_ppm` what a trade costs: the home's fee, and half the spread.
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
    followed: FollowedLessons = NO_LESSONS_FOLLOWED
    experience: tuple[ExperienceRow, ...] = ()
    analog: AnalogFacts | None = None
    horizons: tuple[LayerRow, ...] = ()
    citations: tuple[Citation, ...] = ()
    degraded: tuple[str, ...] = ()
    renderer: int = CURRENT_RENDERER
    trust: LearnedTrust = NO_TRUST
    cost_ppm: int = 0

    @property
    def symbol(self) -> str:
        """The symbol the decision is about."""
        return self.market.symbol

    @property
    def price_age_ms(self) -> int | None:
        """How old the newest price is; None when there is none."""
        mid = self.market.mid
        return None if mid is None else self.as_of - mid.bucket_ts


def agent_name(situation: Situation) -> str:
    """Whose decision it is: the name to show where the agent has to be changed."""
    return situation.deployment.agent.name


MAX_CACHED_MARKETS = 512
"""Some 20 KB each; more than the symbols that are due at one moment."""


class MarketKey(msgspec.Struct, frozen=True):
    """All that a market depends on."""

    symbol: str
    bar_minutes: int
    bar_count: int
    as_of: int
    watermark: int
    lookback: bool = False
    subscriptions: Subscriptions = OWN_SUBSCRIPTIONS


class MarketCache:
    """The newest markets of one tape; the oldest gives way."""

    def __init__(self, most: int = MAX_CACHED_MARKETS) -> None:
        self._most = most
        self._markets: dict[MarketKey, Market] = {}
        self._prices: tuple[tuple[int, int], dict[str, Mid | None]] = ((0, 0), {})

    def __len__(self) -> int:
        return len(self._markets)

    def get(self, key: MarketKey) -> Market | None:
        """The market of a key, if it was read before."""
        return self._markets.get(key)

    def prices(self, *, as_of: int, watermark: int) -> dict[str, Mid | None]:
        """The prices that were last observed as of a look, as far as they were read, to be added to."""
        if self._prices[0] != (as_of, watermark):
            self._prices = (as_of, watermark), {}
        return self._prices[1]

    def store_market(self, key: MarketKey, market: Market) -> None:
        """Keeps a market for others."""
        # Markets come in the order of time, so the oldest entry is the one nobody asks for again.
        while len(self._markets) >= self._most:
            del self._markets[next(iter(self._markets))]
        self._markets[key] = market
