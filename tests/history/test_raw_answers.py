"""Answers in a recorded stream: the facts the live source made of them, known when they came."""

from pathlib import Path
from typing import Any

import pytest

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation, PredictedFunding
from tapebook.domain.units import HOUR, MINUTE
from tapebook.history.importer import ParsedFile
from tests.history.files import parsed, whys
from tests.history.test_raw_stream import Line, candle_frame, mids_frame, recording, stream
from tests.sources.hyperliquid.candles import START

# On the hour.
NOON = START - START % HOUR
CONTEXT = {"funding": "0.0000125", "openInterest": "10.0", "premium": "0.5", "oraclePx": "5.0", "markPx": "6.0"}
META = {"universe": [{"name": "BTC"}, {"name": "MATIC", "isDelisted": True}]}
LEVELS = [[{"px": "99", "sz": "1", "n": 1}], [{"px": "101", "sz": "1", "n": 1}]]


def said(at: int, request: dict[str, Any], answer: Any, *, asked_at: int | None = None) -> Line:
    """An answer as a recorder keeps it."""
    data = {"asked_at": at - 200 if asked_at is None else asked_at, "request": request, "answer": answer}
    return at, {"channel": "info", "data": data}


def read(folder: Path, lines: list[Line]) -> ParsedFile:
    return parsed(folder, recording(lines), "a.jsonl", asked=stream())


def facts(found: ParsedFile, kind: type) -> list[tuple[Observation, int]]:
    return [(fact, found.known_at(fact)) for fact in found.rows if isinstance(fact, kind)]


def row(bar: Candle) -> dict[str, Any]:
    return dict(candle_frame(bar)["data"])


def bar(begins: int, trades: int) -> Candle:
    return Candle("BTC", 60, begins, 10**8, 2 * 10**8, 10**8, 10**8, float(trades), trades * 1.25, trades)


def test_contexts_and_predictions_belong_to_the_minute_they_were_asked_in(tmp_path: Path) -> None:
    venues = [["BinPerp", {"fundingRate": "0.0001", "nextFundingTime": NOON, "fundingIntervalHours": 4}]]
    late = NOON + MINUTE + 100
    found = read(
        tmp_path,
        [
            said(late, {"type": "metaAndAssetCtxs"}, [META, [CONTEXT, CONTEXT]], asked_at=NOON + 59_900),
            said(late + 1, {"type": "predictedFundings"}, [["BTC", venues], ["MATIC", venues]], asked_at=NOON + 59_950),
        ],
    )
    assert facts(found, AssetContext) == [
        (AssetContext("BTC", NOON, 12_500_000, 5 * 10**11, 10.0, 6 * 10**8, 5 * 10**8), late)
    ]
    assert facts(found, PredictedFunding) == [(PredictedFunding("BTC", NOON, "BinPerp", 10**8, 4, NOON), late + 1)]
    assert "2 contexts, books and rates" in found.told.notes


def test_rates_that_are_answered_again_are_known_since_the_first_time(tmp_path: Path) -> None:
    rates = [
        {"coin": "BTC", "fundingRate": "0.01", "premium": "0.02", "time": NOON + hour * HOUR + 39} for hour in (0, 1)
    ]
    asked = {"type": "fundingHistory", "coin": "BTC", "startTime": 0}
    found = read(tmp_path, [said(NOON + HOUR, asked, rates[:1]), said(NOON + 2 * HOUR, asked, rates)])
    assert facts(found, FundingRate) == [
        (FundingRate("BTC", NOON, 10**10, 2 * 10**10), NOON + HOUR),
        (FundingRate("BTC", NOON + HOUR, 10**10, 2 * 10**10), NOON + 2 * HOUR),
    ]


def test_bars_of_an_answer_complete_those_of_frames(tmp_path: Path) -> None:
    asked = {"type": "candleSnapshot", "req": {"coin": "BTC", "interval": "1m", "startTime": 0, "endTime": 1}}
    frames = [(NOON + 30_000, candle_frame(bar(NOON, 3))), (NOON + MINUTE + 500, candle_frame(bar(NOON + MINUTE, 1)))]
    answer = [row(bar(NOON - MINUTE, 7)), row(bar(NOON, 5)), row(bar(NOON + MINUTE, 1))]
    found = read(tmp_path, [*frames, said(NOON + MINUTE + 900, asked, answer)])
    assert facts(found, Candle) == [
        (bar(NOON, 3), NOON + MINUTE + 500),
        (bar(NOON - MINUTE, 7), NOON + MINUTE + 900),
        (bar(NOON, 5), NOON + MINUTE + 900),
    ]


def test_a_book_is_a_fact_once_its_pictures_reach(tmp_path: Path) -> None:
    tight = [[{"px": str(100 - n / 1_000), "sz": "1", "n": 1} for n in range(1, 21)]]
    tight.append([{"px": str(100 + n / 1_000), "sz": "1", "n": 1} for n in range(1, 21)])

    def book(at: int, levels: Any, figures: int | None = None, asked_at: int | None = None) -> Line:
        asked = {"type": "l2Book", "coin": "BTC", "nSigFigs": figures, "mantissa": None}
        return said(at, asked, {"coin": "BTC", "time": 1, "levels": levels}, asked_at=asked_at)

    lines = [
        book(NOON + 1_000, tight),
        book(NOON + 2_000, LEVELS, 4),
        # Asked for in one round and answered in the next, it came too late; without the full book it says nothing.
        book(NOON + 5 * MINUTE + 10, LEVELS, asked_at=NOON + 5 * MINUTE - 10),
        book(NOON + 10 * MINUTE, LEVELS, 3, asked_at=NOON + 10 * MINUTE - 5),
        book(NOON + 15 * MINUTE + 100, LEVELS, asked_at=NOON + 15 * MINUTE),
        said(NOON + 15 * MINUTE + 200, {"type": "l2Book", "coin": "NONE"}, None),
    ]
    found = facts(read(tmp_path, lines), Liquidity)
    assert [(fact.bucket_ts, fact.mid_e8, at) for fact, at in found if isinstance(fact, Liquidity)] == [
        (NOON, 100 * 10**8, NOON + 2_000),
        (NOON + 15 * MINUTE, 100 * 10**8, NOON + 15 * MINUTE + 100),
    ]


def test_what_is_delisted_is_not_watched_once_the_names_are_known(tmp_path: Path) -> None:
    lines: list[Line] = [
        (NOON + 100, mids_frame(BTC="1", MATIC="2", **{"@1": "3"})),
        said(NOON + 200, {"type": "meta"}, META),
        said(NOON + 300, {"type": "spotMeta"}, {"universe": [{"name": "@1", "index": 1}], "tokens": []}),
        (NOON + 5_100, mids_frame(BTC="1", MATIC="2", **{"@1": "3"})),
    ]
    found = [fact for fact, _ in facts(read(tmp_path, lines), Mid)]
    assert [(fact.symbol, fact.bucket_ts - NOON) for fact in found] == [
        *[("BTC", 0), ("MATIC", 0), ("@1", 0)],
        *[("BTC", 5_000), ("@1", 5_000)],
    ]


@pytest.mark.parametrize(
    "type_of",
    ["meta", "spotMeta", "metaAndAssetCtxs", "predictedFundings", "fundingHistory", "candleSnapshot", "l2Book"],
)
def test_an_answer_that_cannot_be_read_is_a_bad_line(type_of: str, tmp_path: Path) -> None:
    lines = [(NOON, mids_frame(BTC="1")), said(NOON + 1, {"type": type_of, "coin": "BTC"}, {"no": "answer"})]
    found = read(tmp_path, lines)
    assert [(number, why.partition(":")[0]) for number, why in whys(found)] == [(2, type_of)]
    assert len(found.rows) == 1


def test_other_questions_say_nothing_and_a_broken_record_is_a_bad_line(tmp_path: Path) -> None:
    lines: list[Line] = [(NOON, mids_frame(BTC="1")), said(NOON + 1, {"type": "exchangeStatus"}, {})]
    lines.append((NOON + 2, {"channel": "info", "data": {"request": 5}}))
    found = read(tmp_path, lines)
    assert [number for number, _ in whys(found)] == [3] and len(found.rows) == 1
    assert found.told.notes[0] == "1 midpoint and 0 bars of 1 symbol"
