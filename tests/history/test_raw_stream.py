"""A recorded stream: what was live is known again, at the moment it was received."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import E8, MINUTE
from tapebook.errors import BadInput
from tapebook.history.import_file import parse_file
from tapebook.history.importer import ImportRequest, ParsedFile
from tests.history.files import NOW, parsed, whys, write
from tests.sources.hyperliquid.candles import START, Market, markets

Line = tuple[int, Any]


def stream(symbol: str | None = None) -> ImportRequest:
    return ImportRequest("stream", symbol, None, NOW)


def candle_frame(candle: Candle) -> dict[str, Any]:
    """A bar as the exchange sends it; prices of the small market are whole numbers of e8."""
    prices = (candle.open_e8, candle.high_e8, candle.low_e8, candle.close_e8)
    texts = (f"{price / E8:.8f}" for price in prices)
    row = {"t": candle.bucket_ts, "T": candle.end - 1, "s": candle.symbol, "i": "1m", "n": candle.sample_count}
    return {"channel": "candle", "data": row | dict(zip("ohlc", texts, strict=True)) | {"v": str(candle.volume_base)}}


def mids_frame(**prices: str) -> dict[str, Any]:
    return {"channel": "allMids", "data": {"mids": prices}}


def recording(lines: Iterable[Line], *, tabs: bool = False, as_text: bool = False) -> str:
    """Lines of a recording in one of its three shapes."""
    if tabs:
        return "".join(f"{at}\t{json.dumps(frame)}\n" for at, frame in lines)
    return "".join(
        json.dumps({"at": at, "frame": json.dumps(frame) if as_text else frame}) + "\n" for at, frame in lines
    )


MIDS: list[Line] = [
    (START + 100, mids_frame(BTC="100.5", ETH="7")),
    (START + 1_200, mids_frame(BTC="101", ETH="8")),
    (START + 5_050, mids_frame(BTC="102", ETH="9")),
]


@pytest.mark.parametrize("shape", [{}, {"tabs": True}, {"as_text": True}])
@pytest.mark.parametrize("name", ["a.jsonl", "a.log.gz"])
def test_mids_are_the_first_of_their_bucket_known_when_received(
    shape: dict[str, bool], name: str, tmp_path: Path
) -> None:
    found = parsed(tmp_path, recording(MIDS, **shape), name, asked=stream())
    assert [(fact, found.known_at(fact)) for fact in found.rows] == [
        (Mid("BTC", START, 100 * E8 + E8 // 2), START + 100),
        (Mid("ETH", START, 7 * E8), START + 100),
        (Mid("BTC", START + 5_000, 102 * E8), START + 5_050),
        (Mid("ETH", START + 5_000, 9 * E8), START + 5_050),
    ]
    assert (found.told.rows_read, found.stated) == (3, ())
    assert found.told.notes == ("4 midpoints and 0 bars of 2 symbols",)


def test_one_symbol_alone(tmp_path: Path) -> None:
    found = parsed(tmp_path, recording(MIDS), "a.jsonl", asked=stream("ETH"))
    assert {fact.symbol for fact in found.rows} == {"ETH"}
    with pytest.raises(BadInput, match="neither midpoints nor whole bars of SOL"):
        parsed(tmp_path, recording(MIDS), "a.jsonl", asked=stream("SOL"))


def test_every_dex_has_its_own_first_of_a_bucket(tmp_path: Path) -> None:
    named = {"channel": "allMids", "data": {"dex": "xyz", "mids": {"TSLA": "3"}}}
    lines = [MIDS[0], (START + 200, mids_frame(**{"xyz:TSLA": "2"})), (START + 300, named), (START + 5_100, named)]
    found = parsed(tmp_path, recording(lines), "a.jsonl", asked=stream())
    assert [(fact.symbol, fact.bucket_ts - START, found.known_at(fact) - START) for fact in found.rows] == [
        *(("BTC", 0, 100), ("ETH", 0, 100), ("xyz:TSLA", 0, 200), ("xyz:TSLA", 5_000, 5_100)),
    ]


def test_sides_of_outcomes_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    text = recording([(START, mids_frame(**{"#1710": "0.5", "BTC": "1"}))])
    assert [fact.symbol for fact in parsed(tmp_path, text, "a.jsonl", asked=stream()).rows] == ["BTC"]
    assert [fact.symbol for fact in parsed(tmp_path, text, "a.jsonl", asked=stream("#1710")).rows] == ["#1710"]


def test_a_bar_ahead_of_time_is_bad_and_makes_no_other_final(tmp_path: Path) -> None:
    bars = Market({("A", 0): [5, 6], ("A", 3): [7]}).final()
    lines: list[Line] = [
        (START + 1_000, candle_frame(bars["A", START])),
        (START + 2_000, candle_frame(bars["A", START + 3 * MINUTE])),
        (START + 3_000, mids_frame(A="1")),
    ]
    found = parsed(tmp_path, recording(lines), "a.jsonl", asked=stream())
    assert whys(found) == [(2, "a bar of A begins after it was received")]
    assert found.rows == [Mid("A", START, E8)]


def final(found: ParsedFile) -> dict[tuple[str, int], tuple[Candle, int]]:
    bars = [fact for fact in found.rows if isinstance(fact, Candle)]
    return {(bar.symbol, bar.bucket_ts): (bar, found.known_at(bar)) for bar in bars}


@given(market=markets())
def test_bars_end_as_they_did_live(market: Market, tmp_path_factory: pytest.TempPathFactory) -> None:
    sent: list[Line] = [(at, candle_frame(candle)) for at, candle in market.frames()]
    # Something every second, as live; the last of it is received when all bars are over.
    sent += [(at, mids_frame(BTC="1")) for at in range(START, market.end + 3_000, 1_000)]
    sent.sort(key=lambda line: line[0])
    path = write(tmp_path_factory.getbasetemp(), recording(sent), "market.jsonl")
    found = final(parse_file(path, stream()))
    expected = market.final()
    assert found.keys() == expected.keys()
    for place, bar in expected.items():
        seen, known_at = found[place]
        assert (seen.open_e8, seen.high_e8, seen.low_e8, seen.close_e8) == (
            *(bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8),
        )
        assert seen.sample_count == bar.sample_count
        # By the next bar's first frame, or by the clock.
        assert bar.end <= known_at <= bar.end + 2_000


def test_a_bar_is_final_by_the_clock_at_the_moment_it_was_live(tmp_path: Path) -> None:
    bar = Market({("A", 0): [5, 6, 7]}).final()["A", START]
    lines = [(START + 30_000, candle_frame(bar)), (bar.end + 20_000, mids_frame(BTC="1"))]
    found = parsed(tmp_path, recording(lines), "a.jsonl", asked=stream())
    ((_, known_at),) = final(found).values()
    assert known_at == bar.end + 2_000
    assert found.told.notes == ("1 midpoint and 1 bar of 2 symbols",)


def test_what_had_not_ended_or_was_interrupted_is_left_out(tmp_path: Path) -> None:
    bars = Market({("A", 0): [5, 6], ("A", 5): [7], ("A", 6): [8]}).final()
    back = START + 5 * MINUTE
    lines: list[Line] = [
        (START + 10_000, mids_frame(BTC="1")),
        # After this come five minutes of silence: whether the bar was whole, nobody knows.
        (START + 11_000, candle_frame(bars["A", START])),
        (back + 1_000, candle_frame(bars["A", back])),
        *((back + after, mids_frame(BTC="1")) for after in range(5_000, 60_000, 5_000)),
        (back + 61_000, candle_frame(bars["A", back + MINUTE])),
    ]
    found = parsed(tmp_path, recording(lines), "a.jsonl", asked=stream("A"))
    assert list(final(found)) == [("A", back)]
    assert (found.told.gap_count, found.told.longest_gaps) == (1, ((START + 11_000, back + 1_000),))
    assert "left out: 2 bars that had not ended when the recording did or broke off" in found.told.notes


def test_bad_lines(tmp_path: Path) -> None:
    good = recording(MIDS).splitlines()
    text = [
        *(good[0], "not a line", '{"at": 5, "frame": {"channel": "pong"}}', f'{{"at": {NOW + 1}, "frame": {{}}}}'),
        *(f'{{"at": {START}, "frame": {{}}}}', good[1], f'{{"at": {START + 2_000}, "frame": "broken"}}'),
        f'{{"at": {START + 3_000}, "frame": {{"channel": "allMids", "data": {{"mids": {{"BTC": "x", "ETH": "1"}}}}}}}}',
        *("", f'{{"at": {START + 4_000}, "frame": {{"channel": "l2Book", "data": {{}}}}}}', good[2]),
    ]
    found = parsed(tmp_path, text, "a.jsonl", asked=stream())
    assert [row for row, _ in whys(found)] == [2, 3, 4, 5, 7, 8]
    reasons = dict(whys(found))
    assert reasons[2].startswith("is no frame with a moment: ")
    assert reasons[3] == "was received at 5, which is no moment of the past in milliseconds"
    assert reasons[5] == f"was received at {START}, before the line above it"
    assert reasons[8] == "no price of BTC among the mids"
    assert len(found.rows) == 4
    assert "2 frames of other channels" in found.told.notes


@given(lines=st.lists(st.tuples(st.integers(0, 400_000), st.sampled_from(MIDS)), max_size=20))
def test_moments_go_forward(lines: list[tuple[int, Line]], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = recording([(START + after, frame) for after, (_, frame) in lines])
    path = write(tmp_path_factory.getbasetemp(), text + recording([(START + 500_000, MIDS[0][1])]), "moments.jsonl")
    found = parse_file(path, stream())
    known = [found.known_at(fact) for fact in found.rows]
    assert known == sorted(known)
    assert all(fact.bucket_ts <= at < fact.bucket_ts + 5_000 for fact, at in zip(found.rows, known, strict=True))
    assert len({(fact.symbol, fact.bucket_ts) for fact in found.rows}) == len(found.rows)
