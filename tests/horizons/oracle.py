"""What naive arithmetic says of a span of trades, and what every layer must say then."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate

from tapebook.horizons.aggregate import TradeExit, fold_spans
from tapebook.horizons.contexts import LayerConnection
from tapebook.horizons.layers import LAYER_OF, PERIOD_KINDS, ContextLayer, Period, PeriodKind, period_of
from tapebook.horizons.rollup import rollup_values
from tapebook.horizons.values import RollupTerms, Values, values_of
from tests.horizons.makers import SCOPE, leaves_of

PNL: dict[PeriodKind, str] = {
    **{"day": "total_pnl", "week": "weekly_pnl", "month": "monthly_pnl", "quarter": "quarterly_pnl"},
    **{"year": "annual_pnl", "legacy": "total_pnl"},
}


def in_time(exits: Sequence[TradeExit], within: Period) -> list[TradeExit]:
    """The exits of a period, in the order of time."""
    return sorted(
        (each for each in exits if each.exited_at in within), key=lambda each: (each.exited_at, each.trade_id)
    )


def periods_of(exits: Sequence[TradeExit], kind: PeriodKind) -> list[Period]:
    """Every period of a kind something ended in."""
    return sorted({period_of(kind, each.exited_at) for each in exits})


def deepest_fall(amounts: Sequence[int]) -> int:
    """The largest fall from any peak to any later trough, by looking at all pairs."""
    totals = [0, *accumulate(amounts)]
    return max(high - low for at, high in enumerate(totals) for low in totals[at:])


def from_scratch(exits: list[TradeExit]) -> dict[tuple[ContextLayer, str], Values]:
    """Every value of every layer, each period straight from its day leaves."""
    leaves = leaves_of(exits)
    return {
        (LAYER_OF[kind], period.key): values_of(
            period, fold_spans(leaf for day, leaf in leaves.items() if day.start in period), RollupTerms()
        )
        for kind in PERIOD_KINDS
        for period in periods_of(exits, kind)
    }


def live(told: dict[tuple[ContextLayer, str], Values]) -> dict[tuple[ContextLayer, str], Values]:
    """Without what is gone."""
    return {place: {key: value for key, value in values.items() if value != "null"} for place, values in told.items()}


def stored(
    conn: LayerConnection, exits: list[TradeExit], *, scope: str = SCOPE
) -> dict[tuple[ContextLayer, str], Values]:
    """Every stored value of the periods of some exits."""
    seq = conn.head(scope)
    places = [(LAYER_OF[kind], period.key) for kind in PERIOD_KINDS for period in periods_of(exits, kind)]
    return live({place: rollup_values(conn.store, scope, *place, seq=seq) for place in places})


def check_conservation(conn: LayerConnection, exits: list[TradeExit], *, scope: str = SCOPE) -> None:
    """Σ days = Σ weeks = Σ months = Σ quarters = Σ years = all time = Σ trades, in millionths of a dollar."""
    seq, total = conn.head(scope), sum(each.net_usd_e6 for each in exits)
    for kind in PERIOD_KINDS:
        told = [rollup_values(conn.store, scope, LAYER_OF[kind], each.key, seq=seq) for each in periods_of(exits, kind)]
        assert sum(Decimal(values[PNL[kind]]) for values in told) * 10**6 == total
        assert sum(int(values["trade_count"]) for values in told) == len(exits)
