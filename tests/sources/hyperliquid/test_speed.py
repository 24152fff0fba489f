"""What decoding costs. The bounds are several times what a quiet core takes, so that a busy one passes."""

import gc
import json
import time
from collections.abc import Callable

import pytest

from tapebook.sources.hyperliquid.prices import MIDS_BUCKET_MS, BarFinalizer, MidStream
from tapebook.sources.hyperliquid.wire import CandlesFrame, MidsFrame, read_frame
from tests.sources.hyperliquid.candles import START


def best(work: Callable[[int], object], times: int) -> float:
    """The seconds of the fastest of several runs: what the work takes when nobody else is in the way."""
    gc.collect()
    fastest = float("inf")
    for number in range(times):
        began = time.perf_counter()
        work(number)
        fastest = min(fastest, time.perf_counter() - began)
    return fastest


def test_a_frame_of_a_thousand_mids(record_property: Callable[[str, object], None]) -> None:
    prices = {f"@{number}": f"{(number * 7919 % 100_000 + 1) / 10 ** (number % 6):.8g}" for number in range(1_000)}
    text = json.dumps({"channel": "allMids", "data": {"mids": prices}}, separators=(",", ":"))
    mids = MidStream("", wanted=lambda name: True)

    def work(number: int) -> None:
        frame = read_frame(text)
        assert isinstance(frame, MidsFrame)
        assert len(mids.mids_of_frame(frame, at=START + number * MIDS_BUCKET_MS)) == 1_000

    micros = best(work, 200) * 1e6
    record_property("thousand_mids_us", round(micros))
    print(f"1,000 mids, from text to facts: {micros:.0f} µs")
    assert micros < 1_500


@pytest.mark.parametrize("symbols", [200])
def test_a_thousand_candle_frames(symbols: int, record_property: Callable[[str, object], None]) -> None:
    texts = [
        json.dumps(
            {
                "channel": "candle",
                "data": {
                    **{"t": START, "T": START + 59_999, "s": f"S{number % symbols}", "i": "1m", "n": number + 1},
                    **{"o": "64340.0", "c": "64352.0", "h": "64354.0", "l": "64340.0", "v": "1.07768"},
                },
            }
        )
        for number in range(1_000)
    ]
    bars = BarFinalizer(grace_ms=2_000)

    def work(number: int) -> None:
        for text in texts:
            frame = read_frame(text)
            assert isinstance(frame, CandlesFrame)
            for candle in frame.candles:
                bars.add_frame(candle)

    rate = 1_000 / best(work, 20)
    record_property("candle_frames_per_second", round(rate))
    print(f"candle frames, from text to bars: {rate:,.0f} per second")
    assert rate > 10_000
