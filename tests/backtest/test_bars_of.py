"""Bars over a range: the finest that reach over it, no others, and none the plan did not know."""

from collections.abc import Iterator

import numpy as np
import pytest

from tapebook.backtest.price_series import finest_bars
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E8, SECOND
from tapebook.history.importer import assumed_known_at
from tapebook.tape.store import MIGRATIONS, Tape
from tests.backtest.books import END, START, plan_of


@pytest.fixture
def tape() -> Iterator[Tape]:
    db = connect(":memory:")
    migrate(db, (MIGRATIONS,))
    yield Tape(db, clock=VirtualClock(END + DAY))
    db.close()


def fill(tape: Tape, seconds: int, *, since: int = START, until: int = END, price: int = 100) -> None:
    """Bars of a length, each a little higher than the one before."""
    step = seconds * SECOND
    rows = []
    for place, at in enumerate(range(since, until, step)):
        opened, closed = (price + place) * E8, (price + place + 1) * E8
        rows.append(Candle("BTC", seconds, at, opened, closed + E8, price * E8, closed, 1.0, 1.0, 1))
    tape.commit(rows, assumed=assumed_known_at)


def test_the_finest_that_reach_over_the_range(tape: Tape) -> None:
    fill(tape, 86_400)
    fill(tape, 3_600)
    found = finest_bars(tape, plan_of(tape.head()[0]), "BTC")
    assert found is not None and found.step_ms == 3_600_000
    assert len(found) == 28 * 24 and found.at[0] == START and found.end[-1] == END
    assert found.open[:3].tolist() == [100.0, 101.0, 102.0] and found.close[0] == 101.0
    assert (found.high[0], found.low[5]) == (102.0, 100.0) and bool((np.diff(found.at) == 3_600_000).all())


def test_a_last_day_of_minutes_does_not_stand_for_a_month(tape: Tape) -> None:
    fill(tape, 3_600)
    fill(tape, 60, since=END - DAY)
    found = finest_bars(tape, plan_of(tape.head()[0]), "BTC")
    assert found is not None and found.step_ms == 3_600_000


def test_a_symbol_that_came_late_has_what_there_is(tape: Tape) -> None:
    fill(tape, 300, since=END - 2 * DAY)
    fill(tape, 3_600, since=END - 2 * DAY)
    found = finest_bars(tape, plan_of(tape.head()[0]), "BTC")
    assert found is not None and (found.step_ms, len(found)) == (300_000, 2 * 288)


def test_nothing_beyond_the_plan(tape: Tape) -> None:
    fill(tape, 3_600, since=START - DAY, until=END + DAY)
    plan = plan_of(tape.head()[0])
    fill(tape, 300)
    found = finest_bars(tape, plan, "BTC")
    assert found is not None and (found.step_ms, len(found)) == (3_600_000, 28 * 24)
    assert (found.at[0], found.end[-1]) == (START, END)
    assert finest_bars(tape, plan, "ETH") is None
