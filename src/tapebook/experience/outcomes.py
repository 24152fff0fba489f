"""How a closed trade ended, and who wanted it: the one fact everything here is learned from."""

from typing import Literal

import msgspec

from tapebook.domain.money import divide
from tapebook.domain.run import Action, ActionKind, DecisionRun
from tapebook.domain.trade import ClosedTrade, TradeSide

UNKNOWN_REGIME = "unknown"
PPM = 1_000_000
# Ten times what was put in: beyond it sums of squares would outgrow 64 bits before a hundred thousand trades.
MOST_PPM = 10 * PPM


class Proposal(msgspec.Struct, frozen=True):
    """What one member of an ensemble had proposed."""

    provider: str
    action: ActionKind
    side: Literal["long", "short"] | None
    confidence_e4: int


class Outcome(msgspec.Struct, frozen=True):
    """A round trip with its result and the decision that began it.

    `provider` is the engine of the entering run, empty when no run of ours did it. `conditions` are
    pairs of a name and a text, such as the volatility at the entry.
    """

    trade_id: str
    run_id: str | None
    symbol: str
    side: TradeSide
    provider: str
    votes: tuple[Proposal, ...]
    confidence_e4: int | None
    regime: str
    conditions: tuple[tuple[str, str], ...]
    entry_price_e8: int
    exit_price_e8: int
    entered_at: int
    exited_at: int
    notional_usd_e6: int
    gross_usd_e6: int
    net_usd_e6: int
    exit_reason: str

    @property
    def result_ppm(self) -> int:
        """The net result in millionths of the notional entered: hundredths of a basis point."""
        return ppm_of(self.net_usd_e6, self.notional_usd_e6)

    @property
    def gross_ppm(self) -> int:
        """The same before fees and funding."""
        return ppm_of(self.gross_usd_e6, self.notional_usd_e6)

    @property
    def won(self) -> bool:
        """A win is a net result above zero; everything else is a loss."""
        return self.net_usd_e6 > 0

    @property
    def holding_ms(self) -> int:
        """How long the position lived."""
        return self.exited_at - self.entered_at


def outcome_of(
    closed: ClosedTrade, run: DecisionRun | None, *, conditions: tuple[tuple[str, str], ...] = ()
) -> Outcome:
    """The outcome of a closed trade; `run` is the one that entered it, None when nobody of ours did."""
    state = closed.state
    entering = _entering(closed, run) if run else None
    votes = run.votes if run else ()
    return Outcome(
        trade_id=state.trade_id,
        run_id=state.entry_run_id,
        symbol=state.symbol,
        side=state.side,
        provider=run.engine if run else "",
        votes=tuple(Proposal(vote.engine, vote.action, vote.side, vote.confidence_e4) for vote in votes),
        confidence_e4=entering.confidence_e4 if entering else None,
        regime=state.entry_regime_tag or UNKNOWN_REGIME,
        conditions=conditions,
        entry_price_e8=state.entry_price_e8 if state.entered_e8 else 0,
        exit_price_e8=closed.exit_price_e8 if state.exited_e8 else 0,
        entered_at=state.entry_tick_at,
        exited_at=closed.exit_tick_at,
        notional_usd_e6=state.entry_notional_usd_e6,
        gross_usd_e6=state.realised_usd_e6,
        net_usd_e6=state.net_usd_e6,
        exit_reason=closed.exit_reason,
    )


def ppm_of(amount_usd_e6: int, notional_usd_e6: int) -> int:
    """An amount in millionths of a notional, within bounds; 0 of nothing."""
    if not notional_usd_e6:
        return 0
    return max(-MOST_PPM, min(MOST_PPM, divide(amount_usd_e6 * PPM, notional_usd_e6)))


def _entering(closed: ClosedTrade, run: DecisionRun) -> Action | None:
    """The allowed action that asked for this position."""
    wanted = (closed.state.symbol, closed.state.side)
    for action, verdict in zip(run.actions, run.verdicts, strict=True):
        if verdict.allowed and action.action in ("open", "adjust") and (action.symbol, action.side) == wanted:
            return action
    return None
