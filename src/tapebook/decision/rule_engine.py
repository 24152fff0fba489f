"""What rule engines share: a signal is a target that depends on the market alone, and an answer follows from it.

A rule is a `RuleEngine` with one method: `signal` reads the typed facts of a packet and gives the target it wants,
from -10,000 (all short) over 0 (flat) to 10,000 (all long). It never asks what is held: where a rule enters at one
threshold and leaves at another, it walks the bars that are shown (`walk_side`), so between two bars nothing changes
its mind. `follow_signal` makes the proposal of a rule that decides alone:

1. It opens on the side of its target, when it is not there already and wants more than half of it.
2. It closes what it holds when that side is not its target any more.
3. Else it holds.

A rule that cannot see enough abstains: its target is None, and in an ensemble it has no voice.
"""

from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from tapebook.decision.port import EngineAnswer
from tapebook.decision.reply import make_answer_of
from tapebook.domain.packet import BarPrices, DecisionFacts, Packet, PositionSide
from tapebook.domain.run import Action, ActionKind
from tapebook.domain.targets import FULL_E4
from tapebook.domain.units import E6

WholeBars = Annotated[int, Meta(ge=1, le=500, description="a whole number of bars from 1 to 500")]
SettingUsd = Annotated[float, Meta(gt=0, le=1_000_000_000, description="a number of USD above 0, up to 1000000000")]
SettingLeverage = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
SettingBps = Annotated[float, Meta(ge=0, lt=10_000, description="a number of bps from 0 to below 10000")]


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What every rule can be told: the size of its orders and their leverage, both within the caps of the agent."""

    notional_usd: SettingUsd = 1_000.0
    leverage: SettingLeverage = 2


class Signal(msgspec.Struct, frozen=True, cache_hash=True):
    """What a rule wants of the market, how sure it is, and why; a target of None has no voice."""

    story: str
    target_e4: int | None
    confidence_e4: int = 5_000


USUAL_SETTINGS = RuleSettings()
SettingsKind = TypeVar("SettingsKind", bound=RuleSettings)


class RuleEngine:
    """A pure function of facts; a subclass gives `signal`, or `bar_signal` when bars are all it looks at."""

    identity = ""
    facts_alone = True

    def __init__(self, settings: RuleSettings = USUAL_SETTINGS) -> None:
        self.settings = settings
        # A cache: ticks come more often than bars end; one engine may look at several symbols.
        self._bar_signals: dict[str, tuple[BarPrices, Signal]] = {}

    def signal(self, facts: DecisionFacts) -> Signal:
        """The target, whatever is held."""
        bars, known = facts.bars, self._bar_signals.get(facts.symbol)
        if known is None or not (known[0] is bars or known[0] == bars):
            known = self._bar_signals[facts.symbol] = (bars, self.bar_signal(bars))
        return known[1]

    def bar_signal(self, bars: BarPrices) -> Signal:
        """The target that bars alone call for."""
        raise NotImplementedError(f"{type(self).__name__} gives neither `signal` nor `bar_signal`")

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens on the side of the target, closes when it is not the target any more, holds otherwise."""
        # The facts of a packet that was put together by hand do not name its symbol.
        facts = packet.facts if packet.facts.symbol else msgspec.structs.replace(packet.facts, symbol=packet.symbol)
        return follow_signal(facts, self.signal(facts), self.settings)


def abstain(why: str) -> Signal:
    """A signal without a voice."""
    return Signal(why, None, 0)


def walk_side(steps: Iterable[tuple[PositionSide | None, bool, bool]]) -> PositionSide | None:
    """The side a rule is on after some bars, flat before the first.

    A step says which side the bar calls for, if any, and whether it is a reason to stay long, and to stay short.
    """
    side: PositionSide | None = None
    for wants, stays_long, stays_short in steps:
        if wants is not None:
            side = wants
        elif side is not None and not (stays_long if side == "long" else stays_short):
            side = None
    return side


def side_target_e4(side: PositionSide | None) -> int:
    """All of a side; 0 for none."""
    return FULL_E4 if side == "long" else -FULL_E4 if side == "short" else 0


def target_side(target_e4: int) -> PositionSide | None:
    """The side of a target."""
    return "long" if target_e4 > 0 else "short" if target_e4 < 0 else None


def action_towards(target_e4: int | None, held: PositionSide | None) -> tuple[ActionKind, PositionSide | None]:
    """What a member that decides alone does: open a side, close, or hold."""
    if target_e4 is None:
        return "hold", None
    side = target_side(target_e4)
    if side == held:
        return "hold", None
    # Half a reason is enough to stay, and not enough to come.
    if side is not None and 2 * abs(target_e4) > FULL_E4:
        return "open", side
    return ("close", None) if held else ("hold", None)


def follow_signal(facts: DecisionFacts, signal: Signal, settings: RuleSettings = USUAL_SETTINGS) -> EngineAnswer:
    """The proposal that follows from a signal."""
    kind, side = action_towards(signal.target_e4, facts.held_side)
    symbol, sure, story = facts.symbol, signal.confidence_e4, signal.story
    if kind == "open" and signal.target_e4 is not None:
        size = unit_usd_e6(facts, settings) * abs(signal.target_e4) // FULL_E4
        if size > 0 and size >= facts.min_notional_usd_e6:
            leverage = min(settings.leverage, facts.max_leverage or 1)
            return make_answer_of(Action("open", symbol, side, size, leverage, "market", None, sure, story))
        if facts.held_side is None:
            story = f"the account leaves no room: {story}"
            return make_answer_of(Action("hold", symbol, None, 0, 1, "market", None, 0, story))
        kind = "close"
    story = f"no reason left: {story}" if kind == "close" else story
    return make_answer_of(Action(kind, symbol, None, 0, 1, "market", None, sure, story))


def unit_usd_e6(facts: DecisionFacts, settings: RuleSettings = USUAL_SETTINGS) -> int:
    """The notional of a whole target: what is asked for within the caps, in whole cents; 0 when nothing is allowed."""
    cap, equity, leverage = facts.max_position_usd_e6, facts.equity_usd_e6, facts.max_leverage
    if cap is None or equity is None or leverage is None or leverage < 1:
        return 0
    asked = round(settings.notional_usd * E6)
    # What is held in the symbol makes room for what takes its place.
    used = facts.account_used_usd_e6 - abs(facts.held_usd_e6)
    left = asked if facts.max_account_usd_e6 is None else facts.max_account_usd_e6 - used
    return max(0, min(asked, cap, equity, left) // 10_000 * 10_000)
