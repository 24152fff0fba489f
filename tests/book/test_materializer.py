"""Position changes told as tables, and the ops they must give.

The upper half of a docstring is what happened: after each tick the position is as written, changed
by a fill at `price` (no price: nobody reported a fill, and the mark stands in). `price`, `mark`,
`fee` and `funding` belong to the position column on their left. The lower half is what the
materializer must say, in money of USD; what is zero is left out.
"""

import inspect
from collections.abc import Callable, Iterator

import msgspec
import pytest

from tapebook.book.materializer import (
    CloseTrade,
    FlipTrade,
    MaterializerContext,
    Op,
    OpenTrade,
    UpdateMfeMae,
    apply_fill,
    reconcile_portfolio_delta,
)
from tapebook.domain.order import Fill
from tapebook.domain.position import Portfolio, Position, TradeState
from tapebook.domain.units import E6, E8, HOUR, MINUTE, decimal_text, to_units

Row = dict[str, str]


def table(check: Callable[[list[Op]], None]) -> Callable[[], None]:
    """A test from a docstring: its table is played, the ops are compared, then handed to the body."""

    def test() -> None:
        happened, expected = halves(inspect.getdoc(check) or "")
        ops = list(play(happened))
        assert [f"{tick} {line}" for tick, op in ops for line in told(op)] == expected
        check([op for _, op in ops])

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def halves(text: str) -> tuple[list[Row], list[str]]:
    """The rows of the table, and the lines below it."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    start = next(at for at, line in enumerate(lines) if line.startswith("tick |"))
    rows = [line for line in lines[start:] if "|" in line]
    columns, symbol = [], ""
    for name in (cell.strip() for cell in rows[0].split("|")):
        symbol = name.removesuffix(" position") if name.endswith(" position") else symbol
        columns.append(f"{symbol} {name}" if name in ("price", "mark", "fee", "funding") else name)
    happened = [dict(zip(columns, (cell.strip() for cell in row.split("|")), strict=False)) for row in rows[1:]]
    return happened, [line for line in lines[start:] if line and "|" not in line]


def play(rows: list[Row]) -> Iterator[tuple[str, Op]]:
    """Every op with its tick; the trades that are open are kept as a caller would."""
    portfolio, trades = Portfolio({}), dict[str, TradeState]()
    for row in rows:
        after = moved(portfolio, row)
        for op in reconcile_portfolio_delta(portfolio, after, context(row, trades)):
            match op:
                case OpenTrade(trade) | UpdateMfeMae(trade) | FlipTrade(_, OpenTrade(trade)):
                    trades[trade.symbol] = trade
                case CloseTrade(closed):
                    del trades[closed.state.symbol]
            yield row["tick"], op
        portfolio = after


def moved(portfolio: Portfolio, row: Row) -> Portfolio:
    """The portfolio with the positions the row names."""
    for column, target in row.items():
        symbol = column.removesuffix(" position")
        held = portfolio.positions.get(symbol)
        size = to_units(target, E8) - (held.size_e8 if held else 0) if symbol != column and target else 0
        if size:
            price = to_units(row.get(f"{symbol} price") or row[f"{symbol} mark"], E8)
            fill = Fill("f", symbol, instant(row), size, price, 0, maker=False)
            portfolio, _ = apply_fill(portfolio, fill, leverage=2)
    return portfolio


def context(row: Row, trades: dict[str, TradeState]) -> MaterializerContext:
    """What the row says beside positions."""
    return MaterializerContext(
        at=instant(row),
        source_id=row["tick"],
        open_trades=dict(trades),
        prices=by_symbol(row, "price", E8),
        marks=by_symbol(row, "mark", E8),
        fees=by_symbol(row, "fee", E6),
        funding=by_symbol(row, "funding", E6),
        reason=row.get("reason", ""),
        run_id=f"run {row['tick']}" if row.get("reason") else None,
        exit_label=row.get("label") or None,
    )


def by_symbol(row: Row, name: str, unit: int) -> dict[str, int]:
    """One kind of number for every symbol that has one."""
    ending = f" {name}"
    cells = {column.removesuffix(ending): cell for column, cell in row.items() if column.endswith(ending)}
    return {symbol: to_units(cell, unit) for symbol, cell in cells.items() if cell}


def instant(row: Row) -> int:
    """`09:05` on the first day."""
    hours, minutes = row["tick"].split(":")
    return (int(hours) * 60 + int(minutes)) * MINUTE


def told(op: Op) -> list[str]:
    """An op as lines: what it does to which trade, then all that is not zero."""
    match op:
        case OpenTrade(trade):
            return [f"open {story(trade)}" + (f", {trade.entry_reason}" if trade.entry_reason else "")]
        case UpdateMfeMae(trade):
            return [f"update {story(trade)}"]
        case CloseTrade(closed):
            return [f"close {story(closed.state)}, {closed.exit_reason}"]
        case FlipTrade(close, opened):
            return [*told(close), *told(opened)]


def story(trade: TradeState) -> str:
    """A trade so far, as text."""
    words = [f"{trade.symbol} {trade.side} in {plain(trade.entered_e8, E8)} for {plain(trade.entered_usd_e6, E6)}"]
    if trade.exited_e8:
        words.append(f"out {plain(trade.exited_e8, E8)} for {plain(trade.exited_usd_e6, E6)}")
    for name in ("realised", "fees", "funding", "mfe", "mae"):
        if amount := getattr(trade, f"{name}_usd_e6"):
            words.append(f"{name} {plain(amount, E6)}")
    return ", ".join(words)


def plain(value: int, unit: int) -> str:
    """A number without the zeros nobody writes."""
    return decimal_text(value, unit, len(str(unit)) - 1).rstrip("0").rstrip(".")


@table
def test_absent_to_open_is_an_open_trade(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark | fee  | reason
    09:00 | +2           | 100   | 101  | 0.09 | breakout

    09:00 open BTC long in 2 for 200, fees 0.09, breakout
    """
    [op] = ops
    assert isinstance(op, OpenTrade)
    trade = op.trade
    assert (trade.entry_price_e8, trade.entry_mark_e8, trade.entry_leverage) == (100 * E8, 101 * E8, 2)
    assert (trade.entry_tick_at, trade.entry_run_id) == (540 * MINUTE, "run 09:00")


@table
def test_absent_to_open_short(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark | reason
    09:00 | -2           | 100   | 101  | fade

    09:00 open BTC short in 2 for 200, fade
    """


@table
def test_open_to_absent_is_a_close_trade(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark | fee  | reason
    09:00 | +2           | 100   | 100  | 0.09 | breakout
    09:45 | 0            | 110   | 112  | 0.10 | target

    09:00 open BTC long in 2 for 200, fees 0.09, breakout
    09:45 close BTC long in 2 for 200, out 2 for 220, realised 20, fees 0.19, mfe 20, target
    """
    close = ops[1]
    assert isinstance(close, CloseTrade)
    assert (close.trade.exit_price_e8, close.trade.holding_ms) == (110 * E8, 45 * MINUTE)
    assert (close.trade.exit_run_id, close.trade.state.entry_run_id) == ("run 09:45", "run 09:00")
    assert close.trade.state.net_usd_e6 == 19_810_000


@table
def test_same_size_is_an_update_only(ops: list[Op]) -> None:
    """Marks widen the extremes and never narrow them.

    tick  | BTC position | price | mark
    09:00 | +2           | 100   | 100
    09:05 | +2           |       | 104
    09:10 | +2           |       | 97
    09:15 | +2           |       | 101
    09:20 | +2           |       |

    09:00 open BTC long in 2 for 200
    09:05 update BTC long in 2 for 200, mfe 8
    09:10 update BTC long in 2 for 200, mfe 8, mae -6
    09:15 update BTC long in 2 for 200, mfe 8, mae -6
    09:20 update BTC long in 2 for 200, mfe 8, mae -6
    """


@table
def test_short_has_the_signs_reversed(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark
    09:00 | -2           | 100   | 100
    09:05 | -2           |       | 104
    09:10 | -2           |       | 97
    09:15 | 0            | 99    |

    09:00 open BTC short in 2 for 200
    09:05 update BTC short in 2 for 200, mae -8
    09:10 update BTC short in 2 for 200, mfe 6, mae -8
    09:15 close BTC short in 2 for 200, out 2 for 198, realised 2, mfe 6, mae -8, unknown
    """


@table
def test_add_is_the_same_trade(ops: list[Op]) -> None:
    """The entry price becomes the average of the entering fills; reason and entry time stay.

    tick  | BTC position | price | mark | fee  | reason
    09:00 | +1           | 100   | 100  | 0.05 | breakout
    09:05 | +4           | 120   | 121  | 0.16 | more of it
    09:10 | 0            | 130   |      |      | done

    09:00 open BTC long in 1 for 100, fees 0.05, breakout
    09:05 update BTC long in 4 for 460, fees 0.21, mfe 20
    09:10 close BTC long in 4 for 460, out 4 for 520, realised 60, fees 0.21, mfe 60, done
    """
    opened, added, closed = ops
    assert isinstance(opened, OpenTrade)
    assert isinstance(added, UpdateMfeMae)
    assert isinstance(closed, CloseTrade)
    assert opened.trade.trade_id == added.trade.trade_id == closed.trade.state.trade_id
    assert added.trade.entry_price_e8 == 115 * E8
    assert (added.trade.entry_reason, added.trade.entry_tick_at) == ("breakout", 540 * MINUTE)


@table
def test_partial_close_is_the_same_trade(ops: list[Op]) -> None:
    """The exit price is the average of the leaving fills; what was realised stays in the extremes.

    tick  | BTC position | price | mark | reason
    09:00 | +4           | 100   | 100  | breakout
    09:05 | +3           | 120   | 118  | take some
    09:10 | +3           |       | 90   |
    09:15 | 0            | 104   |      | done

    09:00 open BTC long in 4 for 400, breakout
    09:05 update BTC long in 4 for 400, out 1 for 120, realised 20, mfe 80
    09:10 update BTC long in 4 for 400, out 1 for 120, realised 20, mfe 80, mae -10
    09:15 close BTC long in 4 for 400, out 4 for 432, realised 32, mfe 80, mae -10, done
    """
    close = ops[-1]
    assert isinstance(close, CloseTrade)
    assert (close.trade.state.entry_price_e8, close.trade.exit_price_e8) == (100 * E8, 108 * E8)


@table
def test_flip_from_long_to_short_is_two_trades(ops: list[Op]) -> None:
    """The fee is borne in proportion to the two parts of the fill: 2 of 5 and 3 of 5.

    tick  | BTC position | price | mark | fee  | reason
    09:00 | +2           | 100   | 100  | 0.09 | breakout
    09:05 | -3           | 110   | 109  | 0.25 | it failed

    09:00 open BTC long in 2 for 200, fees 0.09, breakout
    09:05 close BTC long in 2 for 200, out 2 for 220, realised 20, fees 0.19, mfe 20, it failed
    09:05 open BTC short in 3 for 330, fees 0.15, it failed
    """
    flip = ops[1]
    assert isinstance(flip, FlipTrade)
    assert flip.close.trade.state.trade_id != flip.open.trade.trade_id
    assert flip.close.trade.exit_tick_at == flip.open.trade.entry_tick_at
    assert flip.close.trade.exit_run_id == flip.open.trade.entry_run_id == "run 09:05"


@table
def test_flip_from_short_to_long_is_the_mirror(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark | fee  | reason
    09:00 | -2           | 100   | 100  | 0.09 | fade
    09:05 | +3           | 110   | 111  | 0.25 | squeezed

    09:00 open BTC short in 2 for 200, fees 0.09, fade
    09:05 close BTC short in 2 for 200, out 2 for 220, realised -20, fees 0.19, mae -20, squeezed
    09:05 open BTC long in 3 for 330, fees 0.15, squeezed
    """


@table
def test_fee_of_a_flip_is_split_without_loss(ops: list[Op]) -> None:
    """A third of 0.000005 has no µUSD of its own: 2 and 3.

    tick  | BTC position | price | fee
    09:00 | +1           | 100   |
    09:05 | -2           | 100   | 0.000005

    09:00 open BTC long in 1 for 100
    09:05 close BTC long in 1 for 100, out 1 for 100, fees 0.000002, unknown
    09:05 open BTC short in 2 for 200, fees 0.000003
    """


@table
def test_liquidation_is_labelled(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | fee | reason   | label
    09:00 | +2           | 100   |     | breakout |
    09:05 | 0            | 51    | 1   |          | liquidated

    09:00 open BTC long in 2 for 200, breakout
    09:05 close BTC long in 2 for 200, out 2 for 102, realised -98, fees 1, mae -98, liquidated
    """
    close = ops[1]
    assert isinstance(close, CloseTrade)
    assert close.trade.exit_run_id is None


@table
def test_label_wins_over_the_reason_of_the_tick(ops: list[Op]) -> None:
    """An agent that proposed something else in that tick did not close the position.

    tick  | BTC position | price | reason   | label
    09:00 | +2           | 100   | breakout |
    09:05 | 0            | 99    | hold on  | external_flatten

    09:00 open BTC long in 2 for 200, breakout
    09:05 close BTC long in 2 for 200, out 2 for 198, realised -2, mae -2, external_flatten
    """


@table
def test_delisting_without_a_fill_ends_at_the_mark(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark | label
    09:00 | -2           | 100   | 100  |
    09:05 | 0            |       | 80   | delisted

    09:00 open BTC short in 2 for 200
    09:05 close BTC short in 2 for 200, out 2 for 160, realised 40, mfe 40, delisted
    """


@table
def test_unexplained_end_is_unknown(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark
    09:00 | +2           | 100   | 100
    09:05 | 0            |       | 95

    09:00 open BTC long in 2 for 200
    09:05 close BTC long in 2 for 200, out 2 for 190, realised -10, mae -10, unknown
    """


@table
def test_unexplained_changes_take_the_mark_for_the_price(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | mark
    09:00 | +2           |       | 100
    09:05 | +3           |       | 110
    09:10 | +1           |       | 120
    09:15 | -1           |       | 130

    09:00 open BTC long in 2 for 200
    09:05 update BTC long in 3 for 310, mfe 20
    09:10 update BTC long in 3 for 310, out 2 for 240, realised 33.333333, mfe 50
    09:15 close BTC long in 3 for 310, out 3 for 370, realised 60, mfe 60, unknown
    09:15 open BTC short in 1 for 130
    """


@table
def test_funding_belongs_to_the_open_trade(ops: list[Op]) -> None:
    """Funding and fees have their own columns: neither realised nor the extremes know them.

    tick  | BTC position | price | mark | funding
    09:00 | +2           | 100   | 100  |
    10:00 | +2           |       |      | -0.02
    11:00 | +2           |       |      | 0.005
    11:30 | 0            | 100   |      |

    09:00 open BTC long in 2 for 200
    10:00 update BTC long in 2 for 200, funding -0.02
    11:00 update BTC long in 2 for 200, funding -0.015
    11:30 close BTC long in 2 for 200, out 2 for 200, funding -0.015, unknown
    """
    opened, _, funded, closed = ops
    assert isinstance(opened, OpenTrade)
    assert isinstance(funded, UpdateMfeMae)
    assert isinstance(closed, CloseTrade)
    assert opened.trade.funded_until == 540 * MINUTE
    assert funded.trade.funded_until == closed.trade.state.funded_until == 660 * MINUTE


@table
def test_funding_in_the_step_of_a_close_belongs_to_what_closed(ops: list[Op]) -> None:
    """
    tick  | BTC position | price | funding
    09:00 | +2           | 100   |
    10:00 | 0            | 100   | -0.02

    09:00 open BTC long in 2 for 200
    10:00 close BTC long in 2 for 200, out 2 for 200, funding -0.02, unknown
    """


@table
def test_funding_in_the_step_of_a_flip_is_counted_once(ops: list[Op]) -> None:
    """It was paid on the position that was held.

    tick  | BTC position | price | funding
    09:00 | +2           | 100   |
    10:00 | -1           | 100   | -0.02

    09:00 open BTC long in 2 for 200
    10:00 close BTC long in 2 for 200, out 2 for 200, funding -0.02, unknown
    10:00 open BTC short in 1 for 100
    """


@table
def test_a_closed_symbol_can_be_opened_again(ops: list[Op]) -> None:
    """
    tick  | BTC position | price
    09:00 | +1           | 100
    09:05 | 0            | 101
    09:10 | 0            |
    09:15 | +1           | 102

    09:00 open BTC long in 1 for 100
    09:05 close BTC long in 1 for 100, out 1 for 101, realised 1, mfe 1, unknown
    09:15 open BTC long in 1 for 102
    """
    first, _, second = ops
    assert isinstance(first, OpenTrade)
    assert isinstance(second, OpenTrade)
    assert first.trade.trade_id != second.trade.trade_id


@table
def test_symbols_come_in_alphabetical_order_and_alone(ops: list[Op]) -> None:
    """
    tick  | ETH position | price | mark | BTC position | price | mark
    09:00 | +5           | 10    | 10   | -1           | 100   | 100
    09:05 | +5           |       | 11   | -1           |       | 99
    09:10 | 0            | 12    |      | -1           |       |
    09:15 |              |       |      | +1           | 98    |

    09:00 open BTC short in 1 for 100
    09:00 open ETH long in 5 for 50
    09:05 update BTC short in 1 for 100, mfe 1
    09:05 update ETH long in 5 for 50, mfe 5
    09:10 update BTC short in 1 for 100, mfe 1
    09:10 close ETH long in 5 for 50, out 5 for 60, realised 10, mfe 10, unknown
    09:15 close BTC short in 1 for 100, out 1 for 98, realised 2, mfe 2, unknown
    09:15 open BTC long in 1 for 98
    """


@table
def test_a_price_far_below_a_cent(ops: list[Op]) -> None:
    """
    tick  | kPEPE position | price     | mark
    09:00 | -8000          | 0.01234   | 0.01234
    09:05 | -3000          | 0.01201   | 0.01199
    09:10 | 0              | 0.0130007 |

    09:00 open kPEPE short in 8000 for 98.72
    09:05 update kPEPE short in 8000 for 98.72, out 5000 for 60.05, realised 1.65, mfe 2.64
    09:10 close kPEPE short in 8000 for 98.72, out 8000 for 99.0521, realised -0.3321, mfe 2.64, mae -0.3321, unknown
    """


HELD = Portfolio({"BTC": Position("BTC", 2 * E8, 200 * E6, 3)})
NOTHING = Portfolio({})


def seen(**words: object) -> MaterializerContext:
    """A step with a mark of 104."""
    step = MaterializerContext(at=0, source_id="s", marks={"BTC": 104 * E8})
    return msgspec.structs.replace(step, **words)


def opened(portfolio: Portfolio = HELD) -> dict[str, TradeState]:
    """The trade of a portfolio that has just been opened."""
    [op] = reconcile_portfolio_delta(NOTHING, portfolio, seen(prices={"BTC": 100 * E8}))
    assert isinstance(op, OpenTrade)
    return {"BTC": op.trade}


def test_nothing_held_gives_no_ops() -> None:
    assert reconcile_portfolio_delta(NOTHING, NOTHING, seen()) == []


def test_a_position_without_a_recorded_trade_is_adopted_as_it_stands() -> None:
    [op] = reconcile_portfolio_delta(HELD, HELD, seen(reason="found at start"))
    assert isinstance(op, OpenTrade)
    assert told(op) == ["open BTC long in 2 for 200, found at start"]
    assert (op.trade.entry_price_e8, op.trade.entry_mark_e8, op.trade.entry_leverage) == (100 * E8, 104 * E8, 3)


def test_a_position_without_a_recorded_trade_is_adopted_at_cost_where_no_mark_is_known() -> None:
    [op] = reconcile_portfolio_delta(HELD, HELD, seen(marks={}))
    assert told(op) == ["open BTC long in 2 for 200"]
    assert isinstance(op, OpenTrade)
    assert op.trade.entry_mark_e8 == 100 * E8


def test_funding_in_the_step_of_an_adoption_belongs_to_the_adopted() -> None:
    [op] = reconcile_portfolio_delta(HELD, HELD, seen(funding={"BTC": -20_000}))
    assert told(op) == ["open BTC long in 2 for 200, funding -0.02"]


def test_funding_that_comes_late_does_not_turn_the_clock_back() -> None:
    trades = {"BTC": msgspec.structs.replace(opened()["BTC"], funded_until=11 * HOUR)}
    [op] = reconcile_portfolio_delta(HELD, HELD, seen(at=10 * HOUR, open_trades=trades, funding={"BTC": -20_000}))
    assert isinstance(op, UpdateMfeMae)
    assert (op.trade.funded_until, op.trade.funding_usd_e6) == (11 * HOUR, -20_000)


def test_a_position_without_a_recorded_trade_that_ends_leaves_no_trade() -> None:
    assert reconcile_portfolio_delta(HELD, NOTHING, seen()) == []


def test_an_adopted_position_is_then_a_trade_like_any_other() -> None:
    [op] = reconcile_portfolio_delta(HELD, NOTHING, seen(open_trades=opened(), reason="out"))
    assert told(op) == ["close BTC long in 2 for 200, out 2 for 208, realised 8, mfe 8, out"]


def test_regime_and_lessons_are_stamped_at_entry_and_kept() -> None:
    stamps = seen(regimes={"BTC": "trend_up_lowvol"}, lessons_hash="abc")
    [op] = reconcile_portfolio_delta(NOTHING, HELD, stamps)
    assert isinstance(op, OpenTrade)
    assert (op.trade.entry_regime_tag, op.trade.entry_lessons_hash) == ("trend_up_lowvol", "abc")
    later = seen(regimes={"BTC": "chop_hivol"}, lessons_hash="def", open_trades={"BTC": op.trade}, marks={})
    assert reconcile_portfolio_delta(HELD, HELD, later) == [UpdateMfeMae(op.trade)]


def test_a_regime_that_could_not_be_told_is_none() -> None:
    assert opened()["BTC"].entry_regime_tag is None


def test_the_same_step_gives_the_same_id_and_another_step_another() -> None:
    def trade_id(source_id: str) -> str:
        [op] = reconcile_portfolio_delta(NOTHING, HELD, seen(source_id=source_id))
        assert isinstance(op, OpenTrade)
        return op.trade.trade_id

    assert trade_id("fill 1") == trade_id("fill 1") != trade_id("fill 2")


def test_the_arguments_are_not_changed() -> None:
    trades = opened()
    step = seen(open_trades=trades)
    before = msgspec.json.encode((HELD, NOTHING, step))
    reconcile_portfolio_delta(HELD, NOTHING, step)
    assert msgspec.json.encode((HELD, NOTHING, step)) == before


@pytest.mark.parametrize("size_e8", [2 * E8, -2 * E8])
def test_a_size_of_zero_is_absent(size_e8: int) -> None:
    """Exchanges may report a closed position as one of size zero."""
    held = Portfolio({"BTC": Position("BTC", size_e8, cost_usd_e6=size_e8)})
    flat = Portfolio({"BTC": Position("BTC", 0, 0)})
    step = seen(open_trades=opened(held))
    assert reconcile_portfolio_delta(held, flat, step) == reconcile_portfolio_delta(held, NOTHING, step)
    assert reconcile_portfolio_delta(NOTHING, flat, seen()) == []
    assert reconcile_portfolio_delta(flat, held, seen()) == reconcile_portfolio_delta(NOTHING, held, seen())
