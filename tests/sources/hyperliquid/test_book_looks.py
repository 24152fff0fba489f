"""Books between two rounds: kept when they changed enough, at most one a minute, within a share of the weight."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Liquidity
from tapebook.domain.units import HOUR, MINUTE, floor_to_step
from tapebook.errors import ConfigError
from tapebook.sources.hyperliquid.books import book_changed_enough
from tapebook.sources.hyperliquid.rest import RestRequest, SourceTime, encode_request
from tapebook.sources.hyperliquid.session import HyperliquidSession
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tests.sources.hyperliquid.candles import START
from tests.sources.hyperliquid.recorder import Recorder

NOW = floor_to_step(START, HOUR)
USUAL = HyperliquidSourceSettings(spot=False, audit=False)
KEPT = Liquidity("A", NOW, 100 * 10**8, 4.0, 1_000.0, 2_000.0, 4_000.0, 0.1)


class Exchange:
    """A session whose books are answered with what stands in a table: bid, ask and size by symbol."""

    def __init__(self, *symbols: str, settings: HyperliquidSourceSettings = USUAL, at: int = NOW, **more: Any) -> None:
        self.session = HyperliquidSession(settings, at=at, **({"resume": {}} | more))
        names = {"universe": [{"name": name} for name in symbols]}
        self.session.learn_names(RestRequest("names", "", 0), json.dumps(names).encode(), at=at)
        self.books = dict.fromkeys(symbols, (99.98, 100.02, 10.0))
        self.sink = Recorder()
        self.looked: list[tuple[int, str]] = []
        self.weight = 0

    def minute(self, at: int, *, answers: bool = True) -> list[tuple[str, int]]:
        """Time passes; gives the books that are kept then, with the minute of each."""
        self.session.tick(SourceTime(at, at / 1_000))
        before = len(self.sink.of(Liquidity))
        while (errand := self.session.errands.take_ready(at / 1_000, lambda errand: True)) is not None:
            if errand.kind not in ("books", "looks") or not answers:
                continue
            if errand.kind == "looks":
                self.looked.append((at, errand.subject))
                self.weight += encode_request(errand, now=at).weight
            bid, ask, size = self.books[errand.subject]
            sides = [[{"px": str(price), "sz": str(size), "n": 1}] for price in (bid, ask)]
            body = json.dumps({"coin": errand.subject, "time": at, "levels": sides}).encode()
            self.session.handle_answer(errand, body, asked_at=at, now=SourceTime(at, at / 1_000))
        self.session.outbox.flush(self.sink)
        return [(fact.symbol, (fact.bucket_ts - NOW) // MINUTE) for fact in self.sink.of(Liquidity)[before:]]


def test_a_book_is_kept_between_rounds_when_it_changed_enough() -> None:
    exchange = Exchange("A", "B")
    assert exchange.minute(NOW) == [("A", 0), ("B", 0)]
    assert exchange.minute(NOW + MINUTE) == [], "nothing has changed"
    exchange.books["A"] = (99.97, 100.03, 10.0)
    assert exchange.minute(NOW + 2 * MINUTE) == [], "the spread is wider, but not twice as wide"
    exchange.books["A"] = (99.95, 100.05, 10.0)
    assert exchange.minute(NOW + 3 * MINUTE) == [("A", 3)]
    assert exchange.minute(NOW + 3 * MINUTE + 5_000) == [], "at most one a minute"
    exchange.books["B"] = (99.98, 100.02, 25.0)
    assert exchange.minute(NOW + 4 * MINUTE) == [("B", 4)], "A is compared with what was kept last"
    assert exchange.minute(NOW + 5 * MINUTE) == [("A", 5), ("B", 5)], "the round takes all of them"
    assert {at for at, _ in exchange.looked} == {NOW + number * MINUTE for number in (1, 2, 3, 4)}
    assert not exchange.sink.gaps


def test_a_look_that_does_not_come_is_no_gap() -> None:
    exchange = Exchange("A")
    for number in range(12):
        exchange.minute(NOW + number * MINUTE, answers=number % 5 == 0)
    assert not exchange.sink.gaps and len(exchange.sink.of(Liquidity)) == 3


@pytest.mark.parametrize(("count", "share"), [(6, 0.6), (230, 0.6), (230, 0.1), (600, 1.0)])
def test_looks_keep_to_their_share_of_the_weight_and_reach_everybody(count: int, share: float) -> None:
    symbols = [f"S{number}" for number in range(count)]
    exchange = Exchange(*symbols, settings=msgspec.structs.replace(USUAL, weight_share=share))
    # Every look takes three questions at most as a rule; here each takes one.
    for number in range(90):
        exchange.weight = 0
        exchange.minute(NOW + number * MINUTE)
        assert 3 * exchange.weight <= 1_200 * share * 0.25 + 6
    assert {symbol for _, symbol in exchange.looked} == set(symbols)


def test_a_new_process_compares_with_what_the_tape_has() -> None:
    exchange = Exchange("A", at=NOW + 61_000, resume={"books": NOW}, books={"A": KEPT})
    exchange.books["A"] = (99.9, 100.1, 10.0)
    assert exchange.minute(NOW + 61_000, answers=False) == [], "a start asks for the whole round, here in vain"
    assert exchange.minute(NOW + 2 * MINUTE) == [("A", 2)]


def test_under_virtual_time_a_new_process_looks_no_second_time() -> None:
    settings = msgspec.structs.replace(USUAL, stepped=True)
    exchange = Exchange("A", settings=settings, at=NOW + 65_000, resume={"books": NOW}, books={"A": KEPT})
    exchange.books["A"] = (99.9, 100.1, 10.0)
    assert exchange.minute(NOW + 65_000) == [] and exchange.minute(NOW + 2 * MINUTE) == [("A", 2)]


def test_looks_can_be_left_out() -> None:
    exchange = Exchange("A", settings=msgspec.structs.replace(USUAL, book_looks_every_ms=0))
    for number in range(10):
        exchange.minute(NOW + number * MINUTE)
    assert not exchange.looked


@pytest.mark.parametrize("settings", [{"book_looks_every_ms": 90_000}, {"book_change_factor": 1.0}])
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        msgspec.structs.replace(USUAL, **settings).check()


FIGURES = ("spread_bps", "depth_usd_10bps", "depth_usd_50bps", "depth_usd_100bps")


@given(st.sampled_from(FIGURES), st.floats(1.05, 10.0), st.floats(1.1, 5.0), st.booleans())
def test_a_figure_counts_when_it_grows_or_shrinks_by_the_factor(name: str, by: float, factor: float, up: bool) -> None:
    before = getattr(KEPT, name)
    after = msgspec.structs.replace(KEPT, **{name: before * by if up else before / by})
    assert book_changed_enough(KEPT, after, factor=factor, imbalance=0.8) == (
        max(before, getattr(after, name)) >= factor * min(before, getattr(after, name))
    )


def test_imbalance_counts_by_its_step_and_nothing_to_nothing_does_not() -> None:
    turned = msgspec.structs.replace(KEPT, imbalance=-0.75)
    assert book_changed_enough(KEPT, turned, factor=2.0, imbalance=0.8)
    assert not book_changed_enough(KEPT, turned, factor=2.0, imbalance=0.86)
    empty = msgspec.structs.replace(KEPT, depth_usd_10bps=0.0)
    assert not book_changed_enough(empty, empty, factor=2.0, imbalance=0.8)
    assert book_changed_enough(empty, KEPT, factor=2.0, imbalance=0.8)
