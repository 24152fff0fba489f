"""What rule engines share: reading a packet, and turning a signal into a proposal.

`read_packet` gives the bars and facts of a packet; whatever is missing or is no number is left out, never guessed.
The members of an ensemble read the same packet, so it is read once; and bars that were in the packet before are not
read again. `follow_signal` makes the proposal, the same for every rule:

1. It opens on the side it wants, when it is not there already (`_order_within_caps` gives the size).
2. It closes what it holds when the reason for that side is gone.
3. Else it holds.

A rule that cannot see enough abstains: it holds with no confidence, so that in an ensemble its word counts nothing.
"""

import math
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from tapebook.decision.port import EngineAnswer
from tapebook.decision.reply import make_answer_on
from tapebook.domain.cache import LastCall, SlidingMap
from tapebook.domain.packet import Packet, PositionSide, Section

_PRICE_COLUMNS = ("high", "low", "close")
_BarFigures = tuple[float, float, float]
Facts = dict[str, str]
"""Names and values of a section: of a name that stands twice the first value, none of a row without one."""


class PacketBars(msgspec.Struct, frozen=True, cache_hash=True):
    """The prices of the bars that are shown, oldest first, in columns of the same length."""

    highs: tuple[float, ...] = ()
    lows: tuple[float, ...] = ()
    closes: tuple[float, ...] = ()


class PacketReading(msgspec.Struct, frozen=True):
    """A packet as rule engines see it: the symbol, the bars, the facts of two sections, and the side that is held."""

    symbol: str
    bars: PacketBars
    market: Facts
    portfolio: Facts
    held: PositionSide | None


def parse_number(text: str | None) -> float | None:
    """A cell as a number; None when it is none that can be reckoned with."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class _PacketReader:
    """The bars that were read last; of the next packet most are the same."""

    def __init__(self) -> None:
        self._prices = LastCall(_price_reader)
        self._bars = LastCall(_packet_bars)

    def read_packet(self, packet: Packet) -> PacketReading:
        shown = packet.section("bars")
        bars = self._bars(self._prices(shown.columns)(shown.rows)) if shown else PacketBars()
        portfolio = _facts(packet.section("portfolio"))
        return PacketReading(packet.symbol, bars, _facts(packet.section("market")), portfolio, _held_side(portfolio))


@lru_cache(maxsize=256)
def _packet_reader(_agent: str, _symbol: str) -> _PacketReader:
    return _PacketReader()


read_packet: LastCall[Packet, PacketReading] = LastCall(
    lambda packet: _packet_reader(packet.agent, packet.symbol).read_packet(packet)
)
"""What a packet says; the members of an ensemble ask one after the other."""


def _facts(section: Section | None) -> Facts:
    if section is None:
        return {}
    # Backwards, so that of two values the first stays.
    rows = section.rows[::-1]
    try:
        return dict(rows)  # type: ignore[arg-type]
    except ValueError:
        return {row[0]: row[1] for row in rows if len(row) > 1}


def _held_side(portfolio: Facts) -> PositionSide | None:
    side = portfolio.get("position_side")
    return "long" if side == "long" else "short" if side == "short" else None


def _packet_bars(prices: tuple[_BarFigures | None, ...]) -> PacketBars:
    found = [each for each in prices if each is not None]
    return PacketBars(*zip(*found, strict=True)) if found else PacketBars()


def _price_reader(columns: tuple[str, ...]) -> SlidingMap[tuple[str, ...], _BarFigures | None]:
    """What gives the prices of rows under these columns, or None for a row that is not whole."""
    if not set(_PRICE_COLUMNS) <= set(columns):
        return SlidingMap(lambda rows: [None] * len(rows))
    high, low, close = (columns.index(name) for name in _PRICE_COLUMNS)

    def prices(row: tuple[str, ...]) -> _BarFigures | None:
        try:
            # Plus zero: a zero has no sign, so that equal bars tell equal stories.
            found = float(row[high]) + 0.0, float(row[low]) + 0.0, float(row[close]) + 0.0
        except (ValueError, IndexError):
            return None
        return found if all(map(math.isfinite, found)) else None

    return SlidingMap(lambda rows: [prices(row) for row in rows])


_CAP_FACTS = (
    "max_position_usd",
    "equity_usd",
    "max_leverage",
    "min_notional_usd",
    "max_account_usd",
    "account_used_usd",
)


WholeBars = Annotated[int, Meta(ge=1, le=500, description="a whole number of bars from 1 to 500")]
SettingUsd = Annotated[float, Meta(gt=0, le=1_000_000_000, description="a number of USD above 0, up to 1000000000")]
SettingLeverage = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
SettingBps = Annotated[float, Meta(ge=0, lt=10_000, description="a number of bps from 0 to below 10000")]


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What every rule can be told: the size of its orders and their leverage, both within the caps of the agent."""

    notional_usd: SettingUsd = 1_000.0
    leverage: SettingLeverage = 2


class Signal(msgspec.Struct, frozen=True, cache_hash=True):
    """What a rule sees: the side it wants, with how much confidence, and the sides it would stay on.

    To leave because a reason is gone is a weaker word than to go because of one, and an ensemble holds
    positions that another member wanted; `leave_confidence` says how weak.
    """

    story: str
    wants: PositionSide | None
    confidence: float
    stays: tuple[PositionSide, ...]
    leave_confidence: float = 0.4


_USUAL_SETTINGS = RuleSettings()


def follow_signal(reading: PacketReading, signal: Signal, settings: RuleSettings = _USUAL_SETTINGS) -> EngineAnswer:
    """The proposal that follows from a signal."""
    held = reading.held
    if signal.wants is None or signal.wants == held:
        return _close_or_hold(reading.symbol, signal, held)
    order = _order_within_caps(reading.portfolio, settings)
    if order:
        sure, side = signal.confidence, signal.wants
        return make_answer_on(reading.symbol, "open", reason=signal.story, confidence=sure, side=side, **order)
    if held and held not in signal.stays:
        return _close_or_hold(reading.symbol, signal, held)
    return abstain(reading.symbol, f"the account leaves no room: {signal.story}")


@lru_cache(maxsize=1_024)
def _close_or_hold(symbol: str, signal: Signal, held: PositionSide | None) -> EngineAnswer:
    """To leave what there is no reason for, or to hold; cached, since both go on for as long as the bars stay."""
    if held and held not in signal.stays and held != signal.wants:
        reason = f"no reason left: {signal.story}"
        return make_answer_on(symbol, "close", reason=reason, confidence=signal.leave_confidence)
    return make_answer_on(symbol, "hold", reason=signal.story)


def abstain(symbol: str, why: str) -> EngineAnswer:
    """A hold that carries no weight."""
    return make_answer_on(symbol, "hold", reason=why, confidence=0.0)


def _order_within_caps(portfolio: Facts, settings: RuleSettings) -> dict[str, object] | None:
    """Size and leverage within what the portfolio section allows; None when it allows nothing or is not there."""
    cap, equity, leverage, least, account, used = [parse_number(portfolio.get(name)) for name in _CAP_FACTS]
    if cap is None or equity is None or leverage is None or leverage < 1:
        return None
    # No less than asked for where the cap of the whole account is not shown.
    left = settings.notional_usd if account is None or used is None else account - used
    size = round(min(settings.notional_usd, cap, equity, left), 2)
    enough = size > 0 and size >= (least or 0.0)
    return {"notional_usd": size, "leverage": int(min(settings.leverage, leverage))} if enough else None
