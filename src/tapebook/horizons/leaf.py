"""The leaf of a day: its closed trades, by the UTC day of their exit, as an aggregate."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from tapebook.domain.instants import DAY
from tapebook.domain.trade import ClosedTrade, TradeSide
from tapebook.horizons.aggregate import Aggregate, Notable, Sums, Tally, best_of, worst_of
from tapebook.horizons.path import Path, joined, step
from tapebook.horizons.period import Period

EXTERNAL = "external"
"""The strategy of a trade that no run of ours began."""

_MOST_REASON = 80


class Exit(msgspec.Struct, frozen=True):
    """A trade that ended: what a leaf needs of it.

    `entered_usd_e6` is the notional at its entry, `strategy` the engine that began it.
    """

    trade_id: str
    symbol: str
    side: TradeSide
    exited_at: int
    held_ms: int
    entered_usd_e6: int
    gross_usd_e6: int
    fees_usd_e6: int
    funding_usd_e6: int
    strategy: str = EXTERNAL
    confidence_e4: int | None = None
    regime: str | None = None
    reason: str = ""

    @property
    def net_usd_e6(self) -> int:
        """Gross result less fees, plus funding."""
        return self.gross_usd_e6 - self.fees_usd_e6 + self.funding_usd_e6

    @property
    def won(self) -> bool:
        """A win is a net result above zero."""
        return self.net_usd_e6 > 0


def exit_of(trade: ClosedTrade, strategy: str | None = None, confidence_e4: int | None = None) -> Exit:
    """A closed trade, with the engine that entered it and how sure that was; None when nobody of ours did."""
    state = trade.state
    return Exit(
        trade_id=state.trade_id,
        symbol=state.symbol,
        side=state.side,
        exited_at=trade.exit_tick_at,
        held_ms=trade.holding_ms,
        entered_usd_e6=state.entry_notional_usd_e6,
        gross_usd_e6=state.realised_usd_e6,
        fees_usd_e6=state.fees_usd_e6,
        funding_usd_e6=state.funding_usd_e6,
        strategy=strategy or EXTERNAL,
        confidence_e4=confidence_e4,
        regime=state.entry_regime_tag,
        # Models write reasons: one line of them is enough to recognise a trade by.
        reason=" ".join(trade.exit_reason.split())[:_MOST_REASON],
    )


def leaf_of(day: Period, exits: Iterable[Exit], *, ledger_usd_e6: int | None = None) -> Aggregate:
    """The leaf of a day; in whatever order its trades come, the same leaf."""
    ended = sorted(exits, key=lambda each: (each.exited_at, each.trade_id))
    if any(each.exited_at not in day for each in ended):
        raise ValueError(f"a trade that did not end on {day.key} is no part of its leaf")
    if not ended:
        return Aggregate(ledger_usd_e6=ledger_usd_e6)
    net = sum(each.net_usd_e6 for each in ended)
    said = [each.confidence_e4 for each in ended if each.confidence_e4 is not None]
    notable = [_notable(each) for each in ended]
    return Aggregate(
        trades=len(ended),
        wins=sum(each.won for each in ended),
        net_usd_e6=net,
        gross_usd_e6=sum(each.gross_usd_e6 for each in ended),
        fees_usd_e6=sum(each.fees_usd_e6 for each in ended),
        funding_usd_e6=sum(each.funding_usd_e6 for each in ended),
        entered_usd_e6=sum(each.entered_usd_e6 for each in ended),
        notional_ms=sum(each.entered_usd_e6 * each.held_ms for each in ended),
        ledger_usd_e6=ledger_usd_e6,
        first_day=day.start // DAY,
        last_day=day.start // DAY,
        daily=Sums(1, net, net * net),
        confidence_e4=Sums(len(said), sum(said), sum(value * value for value in said)),
        path=_path(ended),
        symbols=_tallies([(each.symbol, each) for each in ended]),
        strategies=_tallies([(each.strategy, each) for each in ended]),
        regimes=dict(Counter(each.regime for each in ended if each.regime)),
        years=(int(day.key[:4]),),
        best=best_of(notable),
        worst=worst_of(notable),
    )


def _path(ended: Sequence[Exit]) -> Path:
    path = Path()
    for each in ended:
        path = joined(path, step(each.net_usd_e6))
    return path


def _tallies(named: Sequence[tuple[str, Exit]]) -> dict[str, Tally]:
    sums: dict[str, Tally] = {}
    for name, each in named:
        sums[name] = sums.get(name, Tally()) + Tally(1, int(each.won), each.net_usd_e6, each.entered_usd_e6)
    # Of the day's sum, not of each trade: days are what is compared.
    return {name: msgspec.structs.replace(one, square_e12=one.net_usd_e6**2) for name, one in sums.items()}


def _notable(each: Exit) -> Notable:
    return Notable(each.trade_id, each.symbol, each.side, each.exited_at, each.net_usd_e6, each.reason)
