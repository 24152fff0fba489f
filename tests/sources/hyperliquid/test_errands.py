"""Questions wait for their turn, and none is lost."""

import json

import pytest

from tapebook.domain.units import HOUR, MINUTE
from tapebook.sources.hyperliquid.rest import RequestKind, RestQueue, RestRequest, encode_request

NOW = 1_000 * HOUR


def always(errand: RestRequest) -> bool:
    return True


def taken(errands: RestQueue, elapsed: float = 0.0) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while (errand := errands.take_ready(elapsed, always)) is not None:
        found.append((errand.kind, errand.subject))
    return found


def queue(*errands: RestRequest) -> RestQueue:
    waiting = RestQueue()
    for errand in errands:
        waiting.add(errand)
    return waiting


@pytest.mark.parametrize(
    ("errand", "asked", "weight"),
    [
        (RestRequest("names", "", 0), {"type": "meta"}, 20),
        (RestRequest("names", "xyz", 0), {"type": "meta", "dex": "xyz"}, 20),
        (RestRequest("spots", "", 0), {"type": "spotMeta"}, 20),
        (RestRequest("contexts", "", NOW), {"type": "metaAndAssetCtxs"}, 20),
        (RestRequest("contexts", "xyz", NOW), {"type": "metaAndAssetCtxs", "dex": "xyz"}, 20),
        (RestRequest("predicted", "", NOW), {"type": "predictedFundings"}, 20),
        (RestRequest("books", "BTC", NOW), {"type": "l2Book", "coin": "BTC", "nSigFigs": None, "mantissa": None}, 2),
        (
            RestRequest("books", "BTC", NOW, figures=3),
            {"type": "l2Book", "coin": "BTC", "nSigFigs": 3, "mantissa": None},
            2,
        ),
        (
            RestRequest("funding", "BTC", NOW - HOUR),
            {"type": "fundingHistory", "coin": "BTC", "startTime": NOW - HOUR},
            21,
        ),
        (RestRequest("funding", "BTC", 0), {"type": "fundingHistory", "coin": "BTC", "startTime": 0}, 45),
    ],
)
def test_questions_and_their_weights(errand: RestRequest, asked: dict[str, object], weight: int) -> None:
    request = encode_request(errand, now=NOW)
    assert json.loads(request.body) == asked and request.weight == weight


@pytest.mark.parametrize(
    ("since", "until", "end", "weight"),
    [
        (NOW - 59 * MINUTE, 0, NOW, 21),
        (NOW - 60 * MINUTE, 0, NOW, 22),
        (NOW - 1_439 * MINUTE, 0, NOW, 44),
        (0, 0, NOW, 104),
        (NOW - 2 * HOUR, NOW - HOUR, NOW - HOUR, 22),
    ],
)
def test_a_range_of_candles_weighs_what_its_rows_weigh(since: int, until: int, end: int, weight: int) -> None:
    request = encode_request(RestRequest("candles", "BTC", since, until=until), now=NOW)
    assert json.loads(request.body)["req"] == {"coin": "BTC", "interval": "1m", "startTime": since, "endTime": end}
    assert request.weight == weight


def test_polls_go_before_repairs() -> None:
    kinds: tuple[RequestKind, ...] = ("funding", "candles", "books", "predicted", "contexts", "spots", "names")
    waiting = queue(*(RestRequest(kind, "BTC", 0) for kind in kinds))
    order = ["names", "spots", "contexts", "predicted", "books", "candles", "funding"]
    assert [kind for kind, _ in taken(waiting)] == order


def test_first_come_first_served_among_equals() -> None:
    waiting = queue(*(RestRequest("books", symbol, 0) for symbol in ("B", "A", "C")))
    assert [symbol for _, symbol in taken(waiting)] == ["B", "A", "C"]


def test_ranges_of_one_symbol_become_one() -> None:
    waiting = queue(
        RestRequest("candles", "BTC", 300),
        RestRequest("candles", "BTC", 100, until=200),
        RestRequest("candles", "A", 5),
    )
    assert len(waiting) == 2
    assert waiting.take_ready(0.0, always) == RestRequest("candles", "BTC", 100)
    both = queue(RestRequest("candles", "BTC", 300, until=400), RestRequest("candles", "BTC", 100, until=200))
    assert both.take_ready(0.0, always) == RestRequest("candles", "BTC", 100, until=400)


def test_of_two_polls_the_later_one_counts() -> None:
    waiting = queue(
        RestRequest("books", "BTC", 200), RestRequest("books", "BTC", 100), RestRequest("books", "BTC", 300)
    )
    assert waiting.take_ready(0.0, always) == RestRequest("books", "BTC", 300) and len(waiting) == 0


def test_what_cannot_be_afforded_is_not_overtaken() -> None:
    waiting = queue(RestRequest("candles", "BTC", 0), RestRequest("contexts", "", 0))
    assert waiting.take_ready(0.0, lambda errand: errand.kind == "candles") is None
    assert len(waiting) == 2


def test_a_refused_errand_comes_back_later_and_later_while_others_go_on() -> None:
    waiting, now = queue(RestRequest("candles", "BTC", 0)), 0.0
    for pause in (5, 20, 60, 300, 300):
        errand = waiting.take_ready(now, always)
        assert errand is not None and errand.subject == "BTC"
        waiting.retry_later(errand, now)
        waiting.add(RestRequest("candles", "ETH", 0))
        assert taken(waiting, now + pause - 0.1) == [("candles", "ETH")]
        now += pause


def test_asking_too_much_holds_up_everything_for_five_and_then_twenty_seconds() -> None:
    waiting = queue(RestRequest("contexts", "", 0), RestRequest("books", "BTC", 0))
    now = 0.0
    for pause in (5, 20, 20, 20):
        errand = waiting.take_ready(now, always)
        assert errand is not None and errand.kind == "contexts"
        waiting.retry_later(errand, now, limited=True)
        assert waiting.take_ready(now + pause - 0.1, always) is None
        now += pause
    assert taken(waiting, now) == [("contexts", ""), ("books", "BTC")]


def test_a_refusal_does_not_lose_a_range_that_grew_meanwhile() -> None:
    waiting = queue(RestRequest("candles", "BTC", 200))
    flying = waiting.take_ready(0.0, always)
    assert flying is not None
    waiting.add(RestRequest("candles", "BTC", 100))
    waiting.retry_later(flying, 0.0)
    back = waiting.take_ready(5.0, always)
    assert back is not None and back.since == 100


def test_a_poll_expires_and_a_range_does_not() -> None:
    book = RestRequest("books", "BTC", 0, expires=300)
    waiting = queue(book, RestRequest("candles", "BTC", 0))
    assert waiting.remove_expired(299) == []
    assert waiting.remove_expired(300) == [book]
    assert taken(waiting) == [("candles", "BTC")]


def test_what_was_to_be_asked_about_a_symbol_can_be_dropped() -> None:
    waiting = queue(RestRequest("candles", "BTC", 7))
    assert waiting.remove("BTC", "candles") == RestRequest("candles", "BTC", 7)
    assert waiting.remove("BTC", "candles") is None
