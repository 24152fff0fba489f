"""Derived rows: all of them every five minutes, in between what changed enough since it was written."""

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import AssetContext, Liquidity
from tapebook.domain.units import MINUTE
from tapebook.errors import StoreFailed
from tapebook.ingest.ingester import FeatureDeriver, SymbolFeatures, compute_features
from tapebook.tape.features import PREMIUM_STEP_E12
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View

T0 = 1_767_571_200_000


class Market:
    """A tape with a context a minute, and a book where one is given."""

    def __init__(self) -> None:
        self.clock = VirtualClock(T0)
        db = connect(":memory:")
        migrate(db, (MIGRATIONS,))
        self.tape = Tape(db, clock=self.clock)
        self.deriver = FeatureDeriver(self.tape)
        self.now = T0

    def minute(self, *, premium_e12: int = 0, imbalance: float = 0.0, written: bool = True) -> list[str]:
        """A minute passes; gives the families that are due at its end."""
        context = AssetContext("BTC", self.now, 0, premium_e12, 100.0, 10**8, 10**8)
        self.tape.commit([context, Liquidity("BTC", self.now, 10**8, 1.0, 1.0, 1.0, 1.0, imbalance)])
        self.now += MINUTE
        self.clock.advance(self.now)
        derived, problems = self.deriver.rows_due(["BTC", "NOPE"], now=self.now)
        assert not problems
        assert all(each.row.symbol == "BTC" and each.row.bucket_ts == self.now for each in derived)
        if written:
            self.deriver.mark_written(derived, now=self.now)
        return [each.row.family for each in derived]


@pytest.fixture
def market() -> Market:
    """A market after its first minute."""
    made = Market()
    made.minute()
    return made


def test_everything_is_due_at_the_start_and_every_five_minutes() -> None:
    market = Market()
    due = [len(market.minute()) for _ in range(12)]
    assert due == [2, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0]


def test_five_minutes_that_were_missed_are_made_up_for(market: Market) -> None:
    market.now += 5 * MINUTE
    assert market.minute() == ["pressure", "positioning"]
    assert not market.minute()


def test_a_jump_is_written_at_once_and_what_it_became_is_no_news(market: Market) -> None:
    assert market.minute(premium_e12=PREMIUM_STEP_E12) == ["pressure"]
    assert not market.minute(premium_e12=PREMIUM_STEP_E12)


def test_slow_drifts_add_up_although_another_family_is_written_every_minute(market: Market) -> None:
    """Three steps of a third, between two rows of five minutes."""
    steps = ((1, 0.9), (2, -0.9), (3, 0.9))
    found = [market.minute(premium_e12=step * PREMIUM_STEP_E12 // 3, imbalance=lean) for step, lean in steps]
    assert found == [["positioning"], ["positioning"], ["pressure", "positioning"]]


def test_symbols_may_be_asked_about_one_after_the_other(market: Market) -> None:
    market.minute()
    market.now += 3 * MINUTE
    assert market.minute(written=False)
    for symbol in ("NOPE", "BTC"):
        due, _ = market.deriver.rows_due([symbol], now=market.now)
        market.deriver.mark_written(due, now=market.now)
        assert {each.row.symbol for each in due} == ({"BTC"} if symbol == "BTC" else set())


def test_what_was_not_written_is_due_again(market: Market) -> None:
    assert market.minute(premium_e12=PREMIUM_STEP_E12, written=False) == ["pressure"]
    assert market.minute(premium_e12=PREMIUM_STEP_E12) == ["pressure"]
    assert not market.minute(premium_e12=PREMIUM_STEP_E12)


def test_features_are_null_where_too_little_is_known(market: Market) -> None:
    found = compute_features(market.tape, "BTC", view=View(market.now))
    assert found.pressure is not None and found.volatility is None
    unknown = compute_features(market.tape, "NOPE", view=View(market.now))
    assert not any(msgspec.structs.astuple(unknown))


def test_a_symbol_whose_features_fail_is_a_problem_of_its_own(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(tape: Tape, symbol: str, *, view: View) -> SymbolFeatures:
        if symbol == "AAA":
            raise ZeroDivisionError("no price")
        return compute_features(tape, symbol, view=view)

    monkeypatch.setattr("tapebook.ingest.ingester.compute_features", odd)
    market.now += 5 * MINUTE
    found, problems = market.deriver.rows_due(["AAA", "BTC"], now=market.now)
    assert {each.row.symbol for each in found} == {"BTC"}
    said = "ZeroDivisionError: no price"
    assert [(each.kind, each.subject, each.said) for each in problems] == [("features", "AAA", said)]


def test_a_full_disk_is_a_problem_of_all(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(tape: Tape, symbol: str, *, view: View) -> SymbolFeatures:
        raise StoreFailed("the disk is full")

    monkeypatch.setattr("tapebook.ingest.ingester.compute_features", full)
    with pytest.raises(StoreFailed):
        market.deriver.rows_due(["BTC"], now=market.now)
