"""What a book says between two sequence numbers, and the moments at which equity is known from it."""

import hashlib
from types import SimpleNamespace
from typing import cast

from tapebook.backtest.book_range import AccountValue, BookRange, HoldingSpan, book_range
from tapebook.backtest.equity import EquityPoint, deepest_drawdown, equity_points, share_held
from tapebook.backtest.home import BacktestHome
from tapebook.book.store import Book
from tapebook.clock import VirtualClock
from tapebook.wiring import Rooms
from tests.backtest.books import Played, stage


def book(
    *,
    after: int = 0,
    spans: tuple[HoldingSpan, ...] = (),
    cash: tuple[AccountValue, ...] = (),
    valued: tuple[AccountValue, ...] = (),
    insured: tuple[AccountValue, ...] = (),
) -> BookRange:
    """A book that says this."""
    said = {"holding_spans": lambda: list(spans), "balances": lambda: list(cash), "snapshots": lambda: list(valued)}
    said["insurance_payments"] = lambda: list(insured)
    return cast(BookRange, SimpleNamespace(after=after, **said))


def test_cash_counts_while_nothing_is_held_and_marks_while_something_is() -> None:
    # A deposit; a fill that opens (fee, then trade), marks, a fill that closes (result, then trade).
    told = book(
        spans=(HoldingSpan(4, 10, 9, 30),),
        cash=(AccountValue(1, 0, 1_000), AccountValue(3, 10, 999), AccountValue(8, 30, 1_050)),
        valued=(AccountValue(5, 11, 990), AccountValue(6, 20, 1_020)),
    )
    assert [point[:2] for point in equity_points(told)] == [(0, 1_000), (11, 990), (20, 1_020), (30, 1_050)]


def test_whoever_turns_a_position_was_never_flat() -> None:
    # Cash is posted, the long ends and the short begins, one event after the other.
    told = book(
        after=3,
        spans=(HoldingSpan(2, 5, 6, 20), HoldingSpan(7, 20, None, None)),
        cash=(AccountValue(5, 20, 1_100),),
        valued=(AccountValue(8, 21, 1_090),),
    )
    assert [point[:2] for point in equity_points(told)] == [(21, 1_090)]


def test_what_is_made_up_after_a_loss_counts() -> None:
    told = book(after=3, spans=(HoldingSpan(2, 5, 6, 20),), cash=(AccountValue(5, 20, -40), AccountValue(7, 20, 0)))
    assert [point[:2] for point in equity_points(told)] == [(20, -40), (20, 0)]


def test_what_an_insurance_paid_is_no_part_of_what_is_left() -> None:
    """Two losses of 150 with 100 behind each; the second while something else is held, so that nobody was flat."""
    told = book(
        cash=(
            AccountValue(1, 0, 1_000),
            AccountValue(4, 2, 850),
            AccountValue(6, 2, 900),
            AccountValue(9, 5, 750),
            AccountValue(10, 5, 800),
        ),
        insured=(AccountValue(6, 2, 50), AccountValue(10, 5, 50)),
        valued=(AccountValue(3, 1, 990), AccountValue(8, 4, 900), AccountValue(12, 6, 800), AccountValue(13, 7, 850)),
        spans=(HoldingSpan(2, 1, 5, 2), HoldingSpan(7, 3, None, None), HoldingSpan(7, 3, 11, 5)),
    )
    points = equity_points(told)
    assert points[-2:] == [EquityPoint(6, 800, 100), EquityPoint(7, 850, 100)]
    assert deepest_drawdown(point.usd_e6 for point in points).usd_e6 == 190
    assert deepest_drawdown(point.own_usd_e6 for point in points).usd_e6 == 290


def test_with_another_position_open_a_close_says_nothing_of_equity() -> None:
    told = book(
        after=9, spans=(HoldingSpan(2, 5, 11, 40), HoldingSpan(3, 6, None, None)), cash=(AccountValue(10, 40, 500),)
    )
    assert equity_points(told) == []


def test_time_never_goes_back() -> None:
    told = book(cash=(AccountValue(1, 50, 10), AccountValue(4, 40, 20)))
    assert [point[:2] for point in equity_points(told)] == [(50, 10), (50, 20)]


def test_time_held_is_counted_once() -> None:
    told = book(
        spans=(
            HoldingSpan(1, 10, 5, 40),
            HoldingSpan(2, 20, 6, 30),
            HoldingSpan(7, 90, None, None),
            HoldingSpan(3, -50, 4, 5),
        )
    )
    assert share_held(told, 0, 100) == (5 + 30 + 10) / 100
    assert share_held(book(), 0, 100) == share_held(book(), 5, 5) == 0.0


def test_what_came_later_is_not_known(played: Played) -> None:
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    first, second = played.result.chunks[:2]
    with stage(home, home.plan()) as told:
        early = book_range(told.rooms.book, told.rooms.book_db, told.deployment, after=0, until=first.head_seq)
        assert len(early.ended_trades()) == first.trades and early.packets_digest() == (
            first.ticks,
            first.packets_sha256,
        )
        assert any(span.exit_seq is None for span in early.holding_spans())
        late = book_range(
            told.rooms.book, told.rooms.book_db, told.deployment, after=first.head_seq, until=second.head_seq
        )
        assert {span.entry_seq for span in late.holding_spans()} & {span.entry_seq for span in early.holding_spans()}
        stranger = BookRange(
            told.rooms.book_db,
            Book(told.rooms.log, told.rooms.book_db, owner="stranger"),
            deployment=told.deployment.id,
            after=0,
            until=10**9,
        )
        assert (stranger.ended_trades(), stranger.balances(), stranger.holding_spans()) == ([], [], [])
        assert stranger.packets_digest() == (0, hashlib.sha256(b"").hexdigest())


def test_outcomes_are_those_experience_learned(played: Played) -> None:
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    rooms = Rooms(home.folder, clock=VirtualClock(played.result.end))
    name, seq = "voter-1h.paper", played.result.total.head_seq
    ended = BookRange(rooms.book_db, rooms.book, deployment=name, after=0, until=seq).ended_trades()
    learned = {each.outcome.trade_id: each.outcome for each in rooms.experience.history(name, seq=seq)}
    rooms.close()
    for each in ended:
        known = learned[each.outcome.trade_id]
        assert (each.outcome.provider, each.outcome.votes) == (known.provider, known.votes)
        assert (each.outcome.result_ppm, each.outcome.regime) == (known.result_ppm, known.regime)
    assert len(ended) == len(learned) == played.result.total.trades
