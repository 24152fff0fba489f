"""Planning: only what lies above a changed day is computed again, and it is what a fresh start would give."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.horizons.aggregate import EMPTY_AGGREGATE, Aggregate, TradeExit
from tapebook.horizons.layers import PERIOD_KINDS, ContextLayer, Period, PeriodKind, parse_period, period_of
from tapebook.horizons.rollup import RollupPlan, plan_rollup
from tapebook.horizons.values import Values
from tests.horizons.makers import exit_at, leaves_of, ledgers
from tests.horizons.oracle import from_scratch, live, periods_of
from tests.matrix import examples


class Shelf:
    """Stored sums and values in memory; notes how many sums were read."""

    def __init__(self, dropped: set[str] | None = None) -> None:
        self.sums: dict[Period, Aggregate] = {}
        self.told: dict[tuple[ContextLayer, str], Values] = {}
        self.dropped = dropped or set()
        self.read = 0

    def folds(self, kind: PeriodKind, within: Period) -> dict[Period, Aggregate]:
        """The sums of a kind inside a period."""
        found = {each: whole for each, whole in self.sums.items() if each.kind == kind and each.start in within}
        self.read += len(found)
        return found

    def values(self, layer: ContextLayer, timeframe: str) -> Values:
        """What was told."""
        return self.told.get((layer, timeframe), {})

    def is_kept(self, layer: ContextLayer, timeframe: str) -> bool:
        """Whether it was not dropped."""
        return timeframe not in self.dropped

    def keep(self, plan: RollupPlan) -> None:
        """Applies a plan."""
        self.sums |= {parse_period(each.kind, each.timeframe): each.whole for each in plan.folds}
        for each in plan.told:
            self.told.setdefault((each.layer, each.timeframe), {}).update(each.values)


@settings(max_examples=examples(60))
@given(ledgers(), st.data())
def test_any_order_of_arrival_and_any_cut_into_runs_is_the_same(exits: list[TradeExit], data: st.DataObject) -> None:
    arriving = data.draw(st.permutations(exits))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(exits)), max_size=4)))
    shelf = Shelf()
    for end in [*cuts, len(arriving)]:
        known = arriving[:end]
        touched = {period_of("day", each.exited_at) for each in known}
        shelf.keep(plan_rollup({day: leaf for day, leaf in leaves_of(known).items() if day in touched}, shelf))
    assert live(shelf.told) == from_scratch(exits)


@settings(max_examples=examples(30))
@given(ledgers())
def test_the_same_leaves_again_change_nothing(exits: list[TradeExit]) -> None:
    shelf = Shelf()
    shelf.keep(plan_rollup(leaves_of(exits), shelf))
    again = [period for kind in PERIOD_KINDS for period in periods_of(exits, kind)]
    assert plan_rollup(leaves_of(exits), shelf, again=again) == RollupPlan((), ())


def test_a_late_trade_repairs_its_ancestors_and_nobody_else() -> None:
    exits = [exit_at(f"2026-{month:02d}-{day:02d}T10:00") for month in range(1, 13) for day in (3, 10, 28)]
    shelf = Shelf()
    shelf.keep(plan_rollup(leaves_of(exits), shelf))
    late = exit_at("2026-03-10T11:00", -5.0)
    plan = plan_rollup({day: leaf for day, leaf in leaves_of([*exits, late]).items() if day.key == "2026-03-10"}, shelf)
    assert {told.timeframe for told in plan.told} == {
        "2026-03-10",
        "2026-W11",
        "2026-03",
        "2026-Q1",
        "2026",
        "LEGACY",
    }
    assert [fold.timeframe for fold in plan.folds] == ["2026-03-10", "2026-03", "2026"]
    shelf.keep(plan)
    assert live(shelf.told) == from_scratch([*exits, late])


def test_the_cost_of_a_trade_does_not_grow_with_the_years() -> None:
    reads = []
    for years in (1, 10):
        exits = [
            exit_at(f"{2016 + year}-{month:02d}-{day:02d}T10:00")
            for year in range(years)
            for month in range(1, 13)
            for day in range(1, 29)
        ]
        shelf = Shelf()
        shelf.keep(plan_rollup(leaves_of(exits), shelf))
        shelf.read = 0
        day = max(leaves_of(exits))
        plan_rollup({day: leaves_of([exits[-1], exit_at(exits[-1].exited_at + 1)])[day]}, shelf)
        reads.append(shelf.read)
    # Nine years more are nine sums more; and its week may have had up to six days with trades.
    assert reads[1] <= reads[0] + 9 + 6 and reads[1] < 80


def test_a_day_that_lost_its_trades_is_told_so() -> None:
    shelf, day = Shelf(), parse_period("day", "2026-03-10")
    assert plan_rollup({day: EMPTY_AGGREGATE}, shelf) == RollupPlan((), ())
    shelf.keep(plan_rollup(leaves_of([exit_at("2026-03-10T10:00", confidence_e4=5_000)]), shelf))
    shelf.keep(plan_rollup({day: EMPTY_AGGREGATE}, shelf))
    told = shelf.told[ContextLayer.L6_DAILY, "2026-03-10"]
    assert (told["total_pnl"], told["trade_count"], told["win_rate"], told["avg_confidence"]) == (
        "0.0",
        "0",
        "null",
        "null",
    )
    assert shelf.told[ContextLayer.L1_LEGACY, "LEGACY"]["total_pnl"] == "0.0"


def test_what_is_as_it_was_costs_nothing_above_it() -> None:
    shelf, exits = Shelf(), [exit_at(f"2026-03-{day:02d}T10:00") for day in range(1, 29)]
    shelf.keep(plan_rollup(leaves_of(exits), shelf))
    shelf.read = 0
    assert plan_rollup(leaves_of(exits[:1]), shelf) == RollupPlan((), ()) and shelf.read == 1


def test_a_period_that_never_had_anything_has_nothing_to_say() -> None:
    quiet = [period_of(kind, exit_at("2026-03-10T10:00").exited_at) for kind in PERIOD_KINDS]
    assert plan_rollup({}, Shelf(), again=quiet) == RollupPlan((), ())


def test_dropped_timeframes_stay_dropped_and_still_count() -> None:
    shelf = Shelf(dropped={"2026-03-10", "2026-W11"})
    plan = plan_rollup(leaves_of([exit_at("2026-03-10T10:00")]), shelf)
    assert {told.timeframe for told in plan.told} == {"2026-03", "2026-Q1", "2026", "LEGACY"}
    assert [fold.timeframe for fold in plan.folds] == ["2026-03-10", "2026-03", "2026"]
