"""Questions wait for their turn, and none is lost."""

import json

import pytest

from tapebook.domain.instants import HOUR, MINUTE
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands, Kind, request_of

NOW = 1_000 * HOUR


def always(errand: Errand) -> bool:
    return True


def taken(errands: Errands, elapsed: float = 0.0) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while (errand := errands.take(elapsed, always)) is not None:
        found.append((errand.kind, errand.subject))
    return found


def queue(*errands: Errand) -> Errands:
    waiting = Errands()
    for errand in errands:
        waiting.add(errand)
    return waiting


@pytest.mark.parametrize(
    ("errand", "asked", "weight"),
    [
        (Errand("names", "", 0), {"type": "meta"}, 20),
        (Errand("names", "xyz", 0), {"type": "meta", "dex": "xyz"}, 20),
        (Errand("spots", "", 0), {"type": "spotMeta"}, 20),
        (Errand("contexts", "", NOW), {"type": "metaAndAssetCtxs"}, 20),
        (Errand("contexts", "xyz", NOW), {"type": "metaAndAssetCtxs", "dex": "xyz"}, 20),
        (Errand("predicted", "", NOW), {"type": "predictedFundings"}, 20),
        (Errand("books", "BTC", NOW), {"type": "l2Book", "coin": "BTC", "nSigFigs": None, "mantissa": None}, 2),
        (Errand("books", "BTC", NOW, figures=3), {"type": "l2Book", "coin": "BTC", "nSigFigs": 3, "mantissa": None}, 2),
        (Errand("funding", "BTC", NOW - HOUR), {"type": "fundingHistory", "coin": "BTC", "startTime": NOW - HOUR}, 21),
        (Errand("funding", "BTC", 0), {"type": "fundingHistory", "coin": "BTC", "startTime": 0}, 45),
    ],
)
def test_questions_and_their_weights(errand: Errand, asked: dict[str, object], weight: int) -> None:
    request = request_of(errand, now=NOW)
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
    request = request_of(Errand("candles", "BTC", since, until=until), now=NOW)
    assert json.loads(request.body)["req"] == {"coin": "BTC", "interval": "1m", "startTime": since, "endTime": end}
    assert request.weight == weight


def test_polls_go_before_repairs() -> None:
    kinds: tuple[Kind, ...] = ("funding", "candles", "books", "predicted", "contexts", "spots", "names")
    waiting = queue(*(Errand(kind, "BTC", 0) for kind in kinds))
    order = ["names", "spots", "contexts", "predicted", "books", "candles", "funding"]
    assert [kind for kind, _ in taken(waiting)] == order


def test_first_come_first_served_among_equals() -> None:
    waiting = queue(*(Errand("books", symbol, 0) for symbol in ("B", "A", "C")))
    assert [symbol for _, symbol in taken(waiting)] == ["B", "A", "C"]


def test_ranges_of_one_symbol_become_one() -> None:
    waiting = queue(Errand("candles", "BTC", 300), Errand("candles", "BTC", 100, until=200), Errand("candles", "A", 5))
    assert len(waiting) == 2
    assert waiting.take(0.0, always) == Errand("candles", "BTC", 100)
    both = queue(Errand("candles", "BTC", 300, until=400), Errand("candles", "BTC", 100, until=200))
    assert both.take(0.0, always) == Errand("candles", "BTC", 100, until=400)


def test_of_two_polls_the_later_one_counts() -> None:
    waiting = queue(Errand("books", "BTC", 200), Errand("books", "BTC", 100), Errand("books", "BTC", 300))
    assert waiting.take(0.0, always) == Errand("books", "BTC", 300) and len(waiting) == 0


def test_what_cannot_be_afforded_is_not_overtaken() -> None:
    waiting = queue(Errand("candles", "BTC", 0), Errand("contexts", "", 0))
    assert waiting.take(0.0, lambda errand: errand.kind == "candles") is None
    assert len(waiting) == 2


def test_a_refused_errand_comes_back_later_and_later_while_others_go_on() -> None:
    waiting, now = queue(Errand("candles", "BTC", 0)), 0.0
    for pause in (5, 20, 60, 300, 300):
        errand = waiting.take(now, always)
        assert errand is not None and errand.subject == "BTC"
        waiting.refused(errand, now)
        waiting.add(Errand("candles", "ETH", 0))
        assert taken(waiting, now + pause - 0.1) == [("candles", "ETH")]
        now += pause


def test_asking_too_much_holds_up_everything_for_five_and_then_twenty_seconds() -> None:
    waiting = queue(Errand("contexts", "", 0), Errand("books", "BTC", 0))
    now = 0.0
    for pause in (5, 20, 20, 20):
        errand = waiting.take(now, always)
        assert errand is not None and errand.kind == "contexts"
        waiting.refused(errand, now, limited=True)
        assert waiting.take(now + pause - 0.1, always) is None
        now += pause
    assert taken(waiting, now) == [("contexts", ""), ("books", "BTC")]


def test_a_refusal_does_not_lose_a_range_that_grew_meanwhile() -> None:
    waiting = queue(Errand("candles", "BTC", 200))
    flying = waiting.take(0.0, always)
    assert flying is not None
    waiting.add(Errand("candles", "BTC", 100))
    waiting.refused(flying, 0.0)
    back = waiting.take(5.0, always)
    assert back is not None and back.since == 100


def test_a_poll_expires_and_a_range_does_not() -> None:
    book = Errand("books", "BTC", 0, expires=300)
    waiting = queue(book, Errand("candles", "BTC", 0))
    assert waiting.expired(299) == []
    assert waiting.expired(300) == [book]
    assert taken(waiting) == [("candles", "BTC")]


def test_what_was_to_be_asked_about_a_symbol_can_be_dropped() -> None:
    waiting = queue(Errand("candles", "BTC", 7))
    assert waiting.drop("BTC", "candles") == Errand("candles", "BTC", 7)
    assert waiting.drop("BTC", "candles") is None
