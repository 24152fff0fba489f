"""The session as a whole: names, frames, losses, polls and answers, without a network."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, PredictedFunding
from tapebook.domain.units import HOUR, MINUTE, floor_to_step
from tapebook.sources.hyperliquid.gaps import KEPT_BARS
from tapebook.sources.hyperliquid.rest import RestRequest, SourceTime
from tapebook.sources.hyperliquid.session import HyperliquidSession
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import Subscription
from tapebook.sources.hyperliquid.wire import Ack, CandlesFrame, ErrorFrame, Malformed, MidsFrame
from tests.sources.hyperliquid.candles import START, Market, flat, markets, picture
from tests.sources.hyperliquid.recorder import Recorder

# On the hour, so that all polls begin a bucket.
NOW = floor_to_step(START, HOUR)
CONTEXT = {"funding": "0.0000125", "openInterest": "10.0", "premium": "0.0", "oraclePx": "5.0", "markPx": "5.0"}


class Desk:
    """A session with its recorder, and an exchange that answers from tables."""

    def __init__(
        self, *symbols: str, settings: HyperliquidSourceSettings | None = None, at: int = NOW, **resume: int
    ) -> None:
        usual = HyperliquidSourceSettings(spot=False, audit=False, book_looks_every_ms=0)
        self.session = HyperliquidSession(settings or usual, resume=resume, at=at)
        self.sink = Recorder()
        self.symbols = list(symbols)
        self.session.learn_names(RestRequest("names", "", 0), self.meta(), at=at)

    def meta(self) -> bytes:
        return body({"universe": [{"name": name} for name in self.symbols]})

    def moment(self, at: int) -> SourceTime:
        return SourceTime(at, at / 1_000)

    def tick(self, at: int) -> list[RestRequest]:
        """Lets time pass and takes the questions that are ready."""
        self.session.tick(self.moment(at))
        return self.questions(at)

    def questions(self, at: int) -> list[RestRequest]:
        found = []
        while (errand := self.session.errands.take_ready(at / 1_000, lambda errand: True)) is not None:
            found.append(errand)
        return found

    def answer(self, errand: RestRequest, value: Any, *, at: int) -> None:
        self.session.handle_answer(errand, body(value), asked_at=at, now=self.moment(at))

    def flush(self) -> Recorder:
        self.session.outbox.flush(self.sink)
        return self.sink

    def contexts(self) -> list[Any]:
        return [{"universe": [{"name": name} for name in self.symbols]}, [CONTEXT for _ in self.symbols]]


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def rows(candles: list[Candle]) -> list[dict[str, Any]]:
    return [
        {
            **{"t": bar.bucket_ts, "T": bar.end - 1, "s": bar.symbol, "i": "1m", "n": bar.sample_count},
            **{"o": price(bar.open_e8), "h": price(bar.high_e8), "l": price(bar.low_e8), "c": price(bar.close_e8)},
            "v": str(bar.volume_base),
        }
        for bar in candles
    ]


def price(price_e8: int) -> str:
    return f"{price_e8 / 10**8:.8f}"


def book(bid: str = "99.0", ask: str = "101.0", *, coin: str = "A") -> dict[str, Any]:
    return {"coin": coin, "time": 1, "levels": [[{"px": bid, "sz": "1", "n": 1}], [{"px": ask, "sz": "1", "n": 1}]]}


def held(*symbols: str) -> list[Subscription]:
    return [Subscription("candles", symbol) for symbol in symbols]


def stands(desk: Desk, symbol: str, at: int) -> None:
    desk.session.handle_frame(Ack("subscribe", "candle", symbol, ""), at)


# Polls.


def test_what_is_asked_on_the_hour_and_when_again() -> None:
    desk = Desk(
        "A", "B", settings=HyperliquidSourceSettings(spot=False, dexes=("xyz",), audit=False, book_looks_every_ms=0)
    )
    first = [(errand.kind, errand.subject) for errand in desk.tick(NOW)]
    polls = [("contexts", ""), ("contexts", "xyz"), ("predicted", "")]
    assert first == [*polls, ("books", "A"), ("books", "B"), ("funding", "A"), ("funding", "B")]
    assert {one.kind for one in desk.tick(NOW + 15_000)} == {"funding"}
    assert desk.tick(NOW + 59_999) == []
    assert [(one.kind, one.subject) for one in desk.tick(NOW + MINUTE)] == polls
    assert [one.kind for one in desk.tick(NOW + 5 * MINUTE)][3:] == ["books", "books"]
    assert "funding" not in [one.kind for one in desk.tick(NOW + HOUR + 14_999)]
    assert "funding" in [one.kind for one in desk.tick(NOW + HOUR + 15_000)]


def test_contexts_and_predictions_become_facts_of_their_minute() -> None:
    desk = Desk("A", "B")
    contexts, predicted, *_ = desk.tick(NOW + 61_000)
    desk.answer(contexts, desk.contexts(), at=NOW + 61_200)
    slot = {"fundingRate": "0.0001", "nextFundingTime": NOW + 8 * HOUR}
    desk.answer(
        predicted, [["A", [["BinPerp", slot], ["HlPerp", None]]], ["OLD", [["BinPerp", slot]]]], at=NOW + 62_000
    )
    sink = desk.flush()
    assert [(fact.symbol, fact.bucket_ts) for fact in sink.of(AssetContext)] == [
        ("A", NOW + MINUTE),
        ("B", NOW + MINUTE),
    ]
    assert sink.of(PredictedFunding) == [
        PredictedFunding("A", NOW + MINUTE, "BinPerp", 100_000_000, None, NOW + 8 * HOUR)
    ]


def test_missed_minutes_of_contexts_are_a_gap_with_its_reason() -> None:
    desk = Desk("A")
    desk.answer(desk.tick(NOW)[0], desk.contexts(), at=NOW)
    refused = desk.tick(NOW + MINUTE)[0]
    desk.session.handle_refusal(refused, "500 null", now=desk.moment(NOW + MINUTE))
    late = desk.tick(NOW + 3 * MINUTE)[0]
    desk.answer(late, desk.contexts(), at=NOW + 3 * MINUTE)
    sink = desk.flush()
    assert sink.named() == [("contexts", "*", NOW + MINUTE, NOW + 3 * MINUTE)]
    assert sink.gaps[0].reason == "500 null"


def test_a_context_refused_once_is_asked_for_again_within_its_minute() -> None:
    desk = Desk("A")
    first = desk.tick(NOW)[0]
    desk.session.handle_refusal(first, "429 null", now=desk.moment(NOW), limited=True)
    assert desk.questions(NOW + 4_999) == []
    again = desk.questions(NOW + 5_000)[0]
    desk.answer(again, desk.contexts(), at=NOW + 5_000)
    desk.answer(desk.tick(NOW + MINUTE)[0], desk.contexts(), at=NOW + MINUTE)
    assert not desk.flush().gaps and len(desk.sink.of(AssetContext)) == 2


def test_a_context_nobody_can_read_is_asked_for_again() -> None:
    desk = Desk("A")
    desk.answer(desk.tick(NOW)[0], None, at=NOW)
    assert desk.questions(NOW + 5_000)[0].kind == "contexts"
    assert desk.session.outbox.problems == {"malformed": 1, "refused": 1}


def test_books_are_asked_for_until_they_reach_and_belong_to_their_five_minutes() -> None:
    desk = Desk("A")
    asked = next(errand for errand in desk.tick(NOW) if errand.kind == "books")
    dense = [
        [{"px": str(round(100 - side * 0.001 * (1 + n), 3)), "sz": "1", "n": 1} for n in range(20)] for side in (1, -1)
    ]
    desk.answer(asked, book() | {"levels": dense}, at=NOW + 100)
    assert not desk.flush().facts
    further = desk.questions(NOW + 100)
    assert [(errand.kind, errand.figures) for errand in further] == [("books", 4)]
    wide = [[{"px": str(100 - side * n), "sz": "1", "n": 1} for n in range(1, 21)] for side in (1, -1)]
    desk.answer(further[0], book() | {"levels": wide}, at=NOW + 200)
    (found,) = desk.flush().of(Liquidity)
    assert found.bucket_ts == NOW and found.mid_e8 == 100 * 10**8 and found.depth_usd_100bps == 200.0


@pytest.mark.parametrize("levels", [[[], []], [[{"px": "1", "sz": "1"}], []]])
def test_an_empty_book_is_no_fact_and_no_gap(levels: Any) -> None:
    desk = Desk("A", "B")
    for errand in desk.tick(NOW):
        if errand.kind == "books":
            odd = {"levels": levels} if errand.subject == "A" else {}
            desk.answer(errand, book(coin=errand.subject) | odd, at=NOW)
    desk.tick(NOW + 5 * MINUTE)
    assert [fact.symbol for fact in desk.flush().of(Liquidity)] == ["B"] and not desk.sink.gaps


def test_a_book_nobody_knows_is_a_problem_and_no_gap() -> None:
    desk = Desk("A")
    desk.answer(next(errand for errand in desk.tick(NOW) if errand.kind == "books"), None, at=NOW)
    assert desk.session.outbox.problems == {"unknown": 1} and not desk.flush().gaps


def test_a_book_that_never_came_is_a_gap_of_its_symbol() -> None:
    desk = Desk("A", "B")
    for errand in desk.tick(NOW):
        if errand.kind == "books" and errand.subject == "A":
            desk.answer(errand, book(), at=NOW)
        elif errand.kind == "books":
            desk.session.handle_refusal(errand, "no answer within 10 s", now=desk.moment(NOW))
    desk.tick(NOW + 5 * MINUTE)
    assert desk.flush().named() == [("books", "B", NOW, NOW + 5 * MINUTE)]
    assert desk.sink.gaps[0].reason == "no answer within 10 s"


def test_books_that_all_stayed_away_are_one_gap() -> None:
    desk = Desk("A", "B")
    for at in (NOW, NOW + 5 * MINUTE, NOW + 10 * MINUTE):
        for errand in desk.tick(at):
            if errand.kind == "books" and at != NOW + 5 * MINUTE:
                desk.answer(errand, book(coin=errand.subject), at=at)
            elif errand.kind == "books":
                desk.session.handle_refusal(errand, "500 null", now=desk.moment(at))
    assert desk.flush().named() == [("books", "*", NOW + 5 * MINUTE, NOW + 10 * MINUTE)]


def test_a_book_refused_after_its_time_does_not_push_the_next_one_out() -> None:
    desk = Desk("A")
    late = next(errand for errand in desk.tick(NOW) if errand.kind == "books")
    desk.session.tick(desk.moment(NOW + 5 * MINUTE))
    desk.session.handle_refusal(late, "no answer", now=desk.moment(NOW + 5 * MINUTE + 1))
    asked = [errand for errand in desk.questions(NOW + 6 * MINUTE) if errand.kind == "books"]
    assert [errand.since for errand in asked] == [NOW + 5 * MINUTE]


def test_a_book_that_comes_after_its_time_is_a_gap_and_mixes_with_nothing() -> None:
    desk = Desk("A", "B")
    books = [errand for errand in desk.tick(NOW) if errand.kind == "books"]
    desk.answer(books[1], book(coin="B"), at=NOW)
    desk.session.tick(desk.moment(NOW + 5 * MINUTE))
    desk.session.handle_answer(
        books[0], body(book()), asked_at=NOW + 5 * MINUTE - 1, now=desk.moment(NOW + 5 * MINUTE + 1)
    )
    assert desk.flush().named() == [("books", "A", NOW, NOW + 5 * MINUTE)]


def funding(*hours: int) -> list[dict[str, Any]]:
    return [{"coin": "A", "fundingRate": "0.0001", "premium": "0.0", "time": NOW + hour * HOUR + 7} for hour in hours]


def test_funding_is_asked_from_the_newest_rate_and_given_once() -> None:
    desk = Desk("A", funding=NOW - 3 * HOUR)
    first = desk.tick(NOW + 20_000)[-1]
    assert (first.kind, first.since) == ("funding", NOW - 3 * HOUR)
    desk.answer(first, funding(-3, -2, -1, 0), at=NOW + 20_000)
    second = desk.tick(NOW + HOUR + 20_000)[-1]
    assert second.since == NOW
    desk.answer(second, funding(0, 1), at=NOW + HOUR + 20_000)
    sink = desk.flush()
    assert [fact.bucket_ts for fact in sink.of(FundingRate)] == [NOW + hour * HOUR for hour in (-3, -2, -1, 0, 1)]
    assert not sink.gaps


def test_an_hour_not_yet_published_is_asked_for_again() -> None:
    desk = Desk("A", funding=NOW - HOUR)
    desk.answer(desk.tick(NOW + 20_000)[-1], funding(-1), at=NOW + 20_000)
    assert desk.questions(NOW + 79_000) == []
    (again,) = desk.questions(NOW + 80_000)
    desk.answer(again, funding(-1, 0), at=NOW + 80_000)
    assert desk.questions(NOW + 200_000) == []
    assert [fact.bucket_ts for fact in desk.flush().of(FundingRate)] == [NOW - HOUR, NOW]


def test_a_rate_that_never_comes_is_not_asked_for_without_end() -> None:
    desk = Desk("A")
    asked = 0
    desk.session.tick(desk.moment(NOW + 20_000))
    for at in range(NOW + 20_000, NOW + HOUR, 10_000):
        for errand in desk.questions(at):
            if errand.kind == "funding":
                asked += 1
                desk.answer(errand, [], at=at)
    assert asked == 4


def test_an_hour_the_exchange_does_not_have_is_a_gap() -> None:
    desk = Desk("A", funding=NOW - 5 * HOUR)
    desk.answer(desk.tick(NOW + 20_000)[-1], funding(-5, -4, -1, 0), at=NOW + 20_000)
    desk.answer(desk.tick(NOW + 2 * HOUR + 20_000)[-1], funding(0, 2), at=NOW + 2 * HOUR + 20_000)
    assert desk.flush().named() == [
        ("funding", "A", NOW - 3 * HOUR, NOW - HOUR),
        ("funding", "A", NOW + HOUR, NOW + 2 * HOUR),
    ]


def test_funding_comes_in_pages() -> None:
    desk = Desk("A", funding=NOW - 600 * HOUR)
    desk.answer(desk.tick(NOW + 20_000)[-1], funding(*range(-600, -100)), at=NOW + 20_000)
    (page,) = desk.questions(NOW + 20_000)
    assert page.since == NOW - 100 * HOUR
    desk.answer(page, funding(*range(-100, 1)), at=NOW + 20_000)
    assert len(desk.flush().of(FundingRate)) == 601 and not desk.sink.gaps


# Mids.


def mids(desk: Desk, at: int, **prices_e8: int) -> None:
    desk.session.handle_frame(MidsFrame("", list(prices_e8), list(prices_e8.values())), at)


def test_a_gap_of_mids_ends_with_the_frame_that_ends_it() -> None:
    desk = Desk("A")
    mids(desk, NOW, A=1)
    mids(desk, NOW + 5_000, A=2)
    desk.session.on_disconnected([Subscription("mids", "")], since=NOW + 6_000, reason="closed by the exchange (1006)")
    mids(desk, NOW + 62_345, A=3)
    sink = desk.flush()
    assert sink.named() == [("mids", "*", NOW + 10_000, NOW + 60_000)]
    assert sink.gaps[0].reason == "closed by the exchange (1006)"
    assert [kind for kind, _ in sink.calls] == ["gap", "take"]
    assert [mid.bucket_ts for mid in sink.of(Mid)] == [NOW, NOW + 5_000, NOW + 60_000]
    mids(desk, NOW + 80_000, A=4)
    assert desk.flush().gaps[1].reason == "no frame", "the loss before is not why"


@pytest.mark.parametrize(("second", "gaps"), [(7_500, []), (7_501, [("mids", "*", NOW + 5_000, NOW + 10_000)])])
def test_an_empty_bucket_is_a_gap_when_a_frame_stayed_away_and_not_when_it_drifted(
    second: int, gaps: list[tuple[str, str, int, int]]
) -> None:
    desk = Desk("A")
    mids(desk, NOW + 4_000, A=1)
    mids(desk, NOW + 4_000 + second, A=2)
    assert desk.flush().named() == gaps


def test_the_outage_of_a_killed_process_is_a_gap() -> None:
    desk = Desk("A", mids=NOW - HOUR, contexts=NOW - HOUR, books=NOW - HOUR)
    mids(desk, NOW + 1, A=1)
    for errand in desk.tick(NOW + 1):
        if errand.kind == "contexts":
            desk.answer(errand, desk.contexts(), at=NOW + 1)
        elif errand.kind == "books":
            desk.answer(errand, book(), at=NOW + 1)
    assert desk.flush().named() == [
        ("mids", "*", NOW - HOUR + 5_000, NOW),
        ("contexts", "*", NOW - HOUR + MINUTE, NOW),
        ("books", "*", NOW - HOUR + 5 * MINUTE, NOW),
    ]
    assert {gap.reason for gap in desk.sink.gaps} == {"not running"}


def test_a_start_within_the_same_bucket_repeats_nothing() -> None:
    desk = Desk("A", mids=NOW, contexts=NOW)
    mids(desk, NOW + 4_000, A=1)
    assert "contexts" not in [errand.kind for errand in desk.tick(NOW + 4_000)]
    assert not desk.flush().calls


def test_mids_of_a_builder_dex_are_told_by_the_frame_or_by_the_names() -> None:
    desk = Desk("A", settings=HyperliquidSourceSettings(dexes=("xyz",)))
    names = body({"universe": [{"name": "xyz:TSLA"}]})
    desk.session.learn_names(RestRequest("names", "xyz", 0), names, at=NOW)
    desk.session.handle_frame(MidsFrame("xyz", ["xyz:TSLA"], [1]), NOW)
    desk.session.handle_frame(MidsFrame("", ["xyz:TSLA"], [2]), NOW + 5_000)
    desk.session.handle_frame(MidsFrame("abc", ["abc:X"], [2]), NOW + 5_000)
    mids(desk, NOW + 20_000, A=3)
    desk.session.handle_frame(MidsFrame("xyz", ["xyz:TSLA"], [4]), NOW + 20_000)
    assert [mid.symbol for mid in desk.flush().of(Mid)] == ["xyz:TSLA", "xyz:TSLA", "A", "xyz:TSLA"]
    assert desk.sink.named() == [("mids", "xyz:*", NOW + 10_000, NOW + 20_000)]


def test_a_delisting_ends_mids_and_subscriptions() -> None:
    desk = Desk("A", "B")
    mids(desk, NOW, A=1, B=1)
    desk.symbols = ["B"]
    desk.answer(desk.tick(NOW)[0], desk.contexts(), at=NOW)
    mids(desk, NOW + 5_000, A=1, B=1)
    assert [(mid.symbol, mid.bucket_ts - NOW) for mid in desk.flush().of(Mid)] == [("A", 0), ("B", 0), ("B", 5_000)]
    assert desk.session.wanted_subscriptions() == [Subscription("mids", ""), *held("B")]


# Candles.


def test_the_first_start_looks_back_an_hour_once_the_subscription_stands() -> None:
    desk = Desk("A", at=NOW + 30_000)
    assert "candles" not in [errand.kind for errand in desk.tick(NOW + 30_000)]
    stands(desk, "A", NOW + 30_000)
    (errand,) = desk.questions(NOW + 30_000)
    assert (errand.kind, errand.subject, errand.since) == ("candles", "A", NOW - HOUR)
    stands(desk, "A", NOW + 30_000)
    assert desk.questions(NOW + 30_000) == []


def test_a_restart_begins_behind_the_newest_bar() -> None:
    desk = Desk("A", candles=NOW - 10 * MINUTE)
    stands(desk, "A", NOW)
    assert desk.questions(NOW)[0].since == NOW - 65 * MINUTE


def test_after_a_long_outage_what_the_exchange_has_lost_is_one_gap_given_with_the_first_bar() -> None:
    newest = NOW - 9_000 * MINUTE
    oldest = NOW - (KEPT_BARS - 1) * MINUTE
    desk = Desk("A", "B", candles=newest)
    stands(desk, "A", NOW)
    (errand,) = desk.questions(NOW)
    owed = ("candles", "A", oldest, NOW - MINUTE)
    assert errand.since == oldest and desk.flush().named() == [owed], "what the exchange still has is to be filled"
    bar = Candle("A", 60, oldest, 1, 1, 1, 1, 1.0, 1.0, 1)
    desk.answer(errand, rows([bar]), at=NOW)
    assert desk.flush().named() == [owed, ("candles", "*", newest + MINUTE, oldest)]
    desk.answer(errand, rows([Candle("A", 60, oldest + MINUTE, 1, 1, 1, 1, 1.0, 1.0, 1)]), at=NOW)
    assert len(desk.flush().of(Candle)) == 2 and len(desk.sink.gaps) == 2


def test_a_loss_is_repaired_from_when_the_line_was_last_heard() -> None:
    desk = Desk("A", "B", at=START)
    for symbol in ("A", "B"):
        stands(desk, symbol, START)
    desk.questions(START)
    desk.session.on_disconnected(held("A", "GONE"), since=START + 3 * MINUTE + 1_000, reason="closed")
    desk.session.on_disconnected(held("A"), since=START + 4 * MINUTE, reason="cannot connect")
    stands(desk, "A", START + 5 * MINUTE)
    (errand,) = desk.questions(START + 5 * MINUTE)
    assert (errand.subject, errand.since) == ("A", START + 2 * MINUTE)


def test_a_repaired_outage_is_a_gap_that_gets_filled() -> None:
    desk = Desk("A", at=START)
    stands(desk, "A", START)
    desk.questions(START)
    desk.session.on_disconnected(held("A"), since=START + MINUTE + 1_000, reason="closed")
    stands(desk, "A", START + 4 * MINUTE + 5_000)
    assert desk.flush().named() == [("candles", "A", START, START + 4 * MINUTE)]
    assert desk.sink.gaps[0].reason == "closed" and not desk.sink.filled_ranges
    (errand,) = desk.questions(START + 4 * MINUTE + 5_000)
    shown = [picture("A", 0, [5]), flat("A", 1), picture("A", 2, [5]), picture("A", 3, [5]), picture("A", 4, [5])]
    desk.answer(errand, rows(shown), at=START + 4 * MINUTE + 6_000)
    desk.flush()
    assert [(each.from_ts, each.to_ts) for each in desk.sink.filled_ranges] == [(START, START + 4 * MINUTE)]
    assert desk.sink.calls[-1][0] == "take", "with the bars, so that both are committed or neither"


def test_an_outage_within_one_minute_is_no_gap() -> None:
    desk = Desk("A", at=START)
    stands(desk, "A", START)
    desk.session.on_disconnected(held("A"), since=START + 10_000, reason="closed")
    stands(desk, "A", START + 50_000)
    assert not desk.flush().gaps


def test_what_the_exchange_does_not_have_of_an_outage_stays_open() -> None:
    desk = Desk("A", at=START)
    stands(desk, "A", START)
    desk.questions(START)
    desk.session.on_disconnected(held("A"), since=START + 2_000, reason="closed")
    stands(desk, "A", START + 5 * MINUTE + 5_000)
    (errand,) = desk.questions(START + 5 * MINUTE + 5_000)
    shown = rows([picture("A", 0, [5]), picture("A", 3, [5]), picture("A", 4, [5]), picture("A", 5, [5])])
    desk.answer(errand, shown, at=START + 5 * MINUTE + 6_000)
    (again,) = desk.questions(START + 11 * MINUTE)
    desk.answer(again, shown, at=START + 11 * MINUTE)
    assert ("candles", "A", START + MINUTE, START + 3 * MINUTE) in desk.flush().named()
    covered = {minute for each in desk.sink.filled_ranges for minute in range(each.from_ts, each.to_ts, MINUTE)}
    assert {START, START + 3 * MINUTE, START + 4 * MINUTE} <= covered
    assert not covered & {START + MINUTE, START + 2 * MINUTE}


def test_a_minute_missing_here_and_there_while_the_connection_stood_was_quiet() -> None:
    desk = Desk("A", settings=HyperliquidSourceSettings(spot=False), at=START, candles=START - MINUTE, mids=START)
    stands(desk, "A", START)
    desk.questions(START)
    bars = [picture("A", number, [5]) for number in range(130) if number != 66]
    for bar in bars:
        desk.session.handle_frame(CandlesFrame((bar,)), bar.bucket_ts + 1_000)
    for at in range(START + 70 * MINUTE, START + 135 * MINUTE, MINUTE):
        for errand in desk.tick(at):
            if errand.kind == "candles":
                ends = errand.until or at
                desk.answer(errand, rows([bar for bar in bars if errand.since <= bar.bucket_ts < ends]), at=at)
    assert not [gap for gap in desk.flush().gaps if gap.channel == "candles"]


def test_a_bar_cut_off_by_a_loss_is_not_given_out_before_it_is_whole() -> None:
    desk = Desk("A", at=START)
    stands(desk, "A", START)
    desk.questions(START)
    desk.session.handle_frame(CandlesFrame((picture("A", 0, [5]),)), START + 1_000)
    desk.session.on_disconnected(held("A"), since=START + 1_000, reason="closed")
    desk.session.tick(desk.moment(START + 3 * MINUTE))
    assert not desk.flush().facts
    stands(desk, "A", START + 3 * MINUTE)
    (errand,) = [errand for errand in desk.questions(START + 3 * MINUTE) if errand.kind == "candles"]
    whole = [picture("A", 0, [5, 6, 7]), picture("A", 1, [4])]
    desk.answer(errand, rows(whole), at=START + 3 * MINUTE)
    assert [(bar.bucket_ts, bar.sample_count) for bar in desk.flush().of(Candle)] == [(START, 3), (START + MINUTE, 1)]


def test_a_bar_in_doubt_does_not_wait_for_ever() -> None:
    desk = Desk("A", at=START)
    desk.session.handle_frame(CandlesFrame((picture("A", 0, [5]),)), START + 1_000)
    desk.session.on_disconnected(held("A"), since=START + 1_000, reason="closed")
    stands(desk, "A", START + 2 * MINUTE)
    at = START + 2 * MINUTE
    for _ in range(4):
        at += 5 * MINUTE
        for errand in desk.questions(at):
            desk.session.handle_refusal(errand, "500 null", now=desk.moment(at))
        desk.session.tick(desk.moment(at))
    assert [bar.bucket_ts for bar in desk.flush().of(Candle)] == [START]
    assert [errand.kind for errand in desk.questions(at + HOUR)].count("candles") == 1, "the range is still owed"


def test_an_answer_from_before_a_second_loss_does_not_end_its_doubts() -> None:
    desk = Desk("A", at=START)
    stands(desk, "A", START)
    (errand,) = desk.questions(START)
    desk.session.handle_frame(CandlesFrame((picture("A", 0, [5]),)), START + 1_000)
    desk.session.on_disconnected(held("A"), since=START + 1_000, reason="closed")
    desk.answer(errand, [], at=START + 2_000)
    desk.session.tick(desk.moment(START + 9 * MINUTE))
    assert not desk.flush().of(Candle)


def test_a_minute_missing_from_an_answer_is_asked_for_once_more_before_it_is_a_gap() -> None:
    desk = Desk("A", at=START + 6 * MINUTE)
    stands(desk, "A", START + 6 * MINUTE)
    (errand,) = desk.questions(START + 6 * MINUTE)
    shown = [picture("A", 0, [5]), picture("A", 2, [5]), picture("A", 5, [5])]
    desk.answer(errand, rows(shown), at=START + 6 * MINUTE)
    assert desk.questions(START + 11 * MINUTE - 1_000) == [] and not desk.flush().gaps
    (again,) = desk.questions(START + 11 * MINUTE)
    assert (again.since, again.until) == (START, START + 5 * MINUTE)
    # The first one was quiet, which shows late; the others the exchange does not have.
    desk.answer(again, rows([*shown[:1], flat("A", 1), *shown[1:]]), at=START + 11 * MINUTE)
    assert desk.flush().named() == [("candles", "A", START + 3 * MINUTE, START + 5 * MINUTE)]
    desk.answer(again, rows([*shown[:1], flat("A", 1), *shown[1:]]), at=START + 12 * MINUTE)
    assert len(desk.flush().gaps) == 1, "a gap was named twice"
    assert desk.questions(START + HOUR) == []


def test_minutes_from_the_socket_fill_the_holes_of_an_answer() -> None:
    desk = Desk("A", at=START + 2 * MINUTE)
    stands(desk, "A", START + 2 * MINUTE)
    (errand,) = desk.questions(START + 2 * MINUTE)
    desk.session.handle_frame(CandlesFrame((picture("A", 1, [5]),)), START + 2 * MINUTE)
    desk.answer(errand, rows([picture("A", 0, [5]), picture("A", 2, [5])]), at=START + 2 * MINUTE + 1)
    assert desk.questions(START + HOUR) == []


def test_a_symbol_delisted_before_its_repair_leaves_a_gap() -> None:
    desk = Desk("A", "B", at=START)
    for symbol in ("A", "B"):
        stands(desk, symbol, START)
    desk.questions(START)
    desk.session.on_disconnected(held("A"), since=START + MINUTE, reason="closed")
    desk.symbols = ["B"]
    desk.session.learn_names(RestRequest("names", "", 0), desk.meta(), at=START + 5 * MINUTE + 1)
    assert desk.flush().named() == [("candles", "A", START, START + 5 * MINUTE)]


def test_a_bar_from_the_future_is_a_problem_and_ends_no_other() -> None:
    desk = Desk("A", at=START)
    desk.session.handle_frame(CandlesFrame((picture("A", 0, [5]), picture("A", 500, [5]))), START + 1_000)
    assert not desk.flush().facts and desk.session.outbox.problems == {"malformed": 1}


def test_a_candle_that_could_not_be_read_is_asked_for_when_its_minute_is_over() -> None:
    desk = Desk("A", "B", at=START)
    for symbol in ("A", "B"):
        stands(desk, symbol, START)
    desk.questions(START)
    desk.session.handle_frame(CandlesFrame((picture("A", 0, [5]),)), START + 1_000)
    cut = Malformed("frame", "cut off", '{"channel":"candle","data":{"t":1785053340000,"T":1785053399999,"s":"A","i":')
    desk.session.on_damaged_frame(cut, held("A", "B"), at=START + 50_000)
    desk.session.tick(desk.moment(START + MINUTE + 1_999))
    assert "candles" not in [errand.kind for errand in desk.questions(START + MINUTE + 1_999)]
    (errand,) = [errand for errand in desk.tick(START + MINUTE + 2_000) if errand.kind == "candles"]
    assert (errand.subject, errand.since) == ("A", START) and not desk.flush().of(Candle)
    desk.answer(errand, rows([picture("A", 0, [5, 6])]), at=START + MINUTE + 2_000)
    assert [bar.sample_count for bar in desk.flush().of(Candle)] == [2]


def test_damage_without_a_name_concerns_all_candles_of_its_line_and_damaged_mids_none() -> None:
    desk = Desk("A", "B", at=START)
    desk.session.on_damaged_frame(Malformed("frame", "why", "<html>502"), held("A", "B"), at=START)
    desk.session.on_damaged_frame(
        Malformed("frame", "why", '{"channel":"allMids","data'), held("A", "B"), at=START + 5 * MINUTE
    )
    found = [errand for errand in desk.tick(START + 9 * MINUTE) if errand.kind == "candles"]
    assert [(errand.subject, errand.since) for errand in found] == [("A", START - MINUTE), ("B", START - MINUTE)]


def test_every_symbol_is_audited_once_an_hour() -> None:
    symbols = [f"S{number:02}" for number in range(25)]
    desk = Desk(*symbols, settings=HyperliquidSourceSettings(spot=False), at=NOW)
    for symbol in symbols:
        stands(desk, symbol, NOW)
    desk.questions(NOW)
    asked = []
    for at in range(NOW + MINUTE, NOW + HOUR + MINUTE, 15_000):
        asked += [(errand.subject, at - errand.since) for errand in desk.tick(at) if errand.kind == "candles"]
    assert sorted(symbol for symbol, _ in asked) == symbols
    assert all(span == HOUR + 10 * MINUTE for _, span in asked)


# What goes wrong.


def test_complaints_and_damage_are_counted_and_the_latest_are_kept() -> None:
    desk = Desk("A")
    for number in range(30):
        desk.session.on_damaged_frame(Malformed("frame", "why", f"text {number}"), [], at=NOW)
    desk.session.handle_frame(ErrorFrame("Cannot track more than 15 total users."), NOW)
    desk.session.handle_frame(Ack("refuse", "candle", "A", ""), NOW)
    desk.session.handle_frame(MidsFrame("", ["A"], [1], bad=("X", "Y")), NOW)
    outbox = desk.session.outbox
    assert outbox.problems == {"malformed": 32, "complaint": 2}
    assert len(outbox.recent) == 20 and outbox.recent[-1].startswith("malformed: no price of Y")


def test_what_the_exchange_says_cannot_steer_a_terminal() -> None:
    desk = Desk("A")
    desk.session.handle_frame(ErrorFrame("\x1b[2J\nbad " + "x" * 1_000), NOW)
    (problem,) = desk.session.outbox.recent
    assert problem.startswith("complaint: [2J bad x") and len(problem) < 400


def test_names_nobody_can_read_are_no_names() -> None:
    desk = Desk("A")
    assert not desk.session.learn_names(RestRequest("names", "", 0), b"null", at=NOW)
    assert not desk.session.learn_names(RestRequest("spots", "", 0), b"null", at=NOW)
    assert desk.session.wanted_subscriptions() == [Subscription("mids", ""), *held("A")]


def test_spot_pairs_are_asked_for_every_hour() -> None:
    desk = Desk("A", settings=HyperliquidSourceSettings())
    assert [errand.kind for errand in desk.session.name_requests()] == ["names", "spots"]
    (errand,) = [errand for errand in desk.tick(NOW + HOUR) if errand.kind == "spots"]
    desk.answer(errand, {"universe": [{"name": "@1", "index": 1}], "tokens": []}, at=NOW + HOUR)
    assert not desk.session.outbox.problems


@given(markets(), st.data())
def test_whatever_is_lost_on_the_way_repairs_bring_every_bar(market: Market, data: st.DataObject) -> None:
    """Frames come, come twice, or are lost with their connection; REST fails as often as it likes, but not for ever."""
    desk = Desk(*market.symbols, at=START)
    up = True
    for symbol in market.symbols:
        stands(desk, symbol, START)
    heard = START
    for at, candle in market.frames():
        happens = data.draw(st.sampled_from(["frame", "frame", "frame", "twice", "lost", "back", "rest"]))
        desk.session.tick(desk.moment(at))
        if happens == "lost" and up:
            desk.session.on_disconnected(held(*market.symbols), since=heard, reason="closed")
            up = False
        elif happens == "back" and not up:
            up = True
            for symbol in market.symbols:
                stands(desk, symbol, at)
        elif happens == "rest":
            ask(desk, market, at, fails=data.draw(st.booleans()))
        if up:
            heard = at
            for _ in range(2 if happens == "twice" else 1):
                desk.session.handle_frame(CandlesFrame((candle,)), at)
    for symbol in market.symbols:
        stands(desk, symbol, market.end)
    for later in range(4):
        desk.session.tick(desk.moment(market.end + later * HOUR))
        ask(desk, market, market.end + later * HOUR, fails=False)
    assert counted(desk.flush().bars()) == counted(market.final())
    assert not set(desk.sink.unfilled()) & set(market.final()), "what was fetched is filled"


def counted(bars: dict[tuple[str, int], Candle]) -> dict[tuple[str, int], tuple[int, int, int, int, int]]:
    return {
        place: (bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8, bar.sample_count) for place, bar in bars.items()
    }


def ask(desk: Desk, market: Market, at: int, *, fails: bool) -> None:
    """Answers the candle questions as the exchange would at that moment; the others it refuses."""
    for errand in desk.questions(at):
        if errand.kind != "candles" or fails:
            desk.session.handle_refusal(errand, "500 null", now=desk.moment(at))
            continue
        shown = []
        for row in market.rows(errand.subject):
            if errand.since - MINUTE < row.bucket_ts <= min(at, errand.until or at):
                known = [candle for sent, candle in market.frames() if sent <= at and same_bar(candle, row)]
                shown.append(known[-1] if known else flat(errand.subject, (row.bucket_ts - START) // MINUTE))
        desk.answer(errand, rows(shown), at=at)


def same_bar(one: Candle, other: Candle) -> bool:
    return (one.symbol, one.bucket_ts) == (other.symbol, other.bucket_ts)
