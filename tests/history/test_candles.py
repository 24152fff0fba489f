"""Bars from files: what is kept, what is told, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput
from tapebook.history import tables
from tapebook.history.import_file import parse_file
from tapebook.history.importer import ParsedFile
from tapebook.tape.view import span_ms
from tests.history.files import HEADER, MIDNIGHT, ask, bars, lines, parsed, whys, write
from tests.matrix import examples


def table(*changed: str) -> list[str]:
    """A CSV file of five bars, with lines put in place of the second and following ones."""
    rows = lines(5)
    return [HEADER, rows[0], *changed, *rows[1 + len(changed) :]]


def test_a_plain_file(tmp_path: Path) -> None:
    found = parsed(tmp_path, [HEADER, *lines(5)])
    assert found.rows == bars(5)
    assert (found.problem_count, found.stated) == (0, ("open_e8", "high_e8", "low_e8", "close_e8", "volume_base"))
    told = found.told
    assert (told.format, told.row_name, told.rows_read) == ("CSV separated by commas", "line", 5)
    assert told.columns == {"time": "timestamp", **{name: name for name in HEADER.split(",")[1:]}}
    assert (told.times, told.unused) == ("milliseconds since 1970, UTC", ())
    assert told.values == "prices as written, to 8 decimals (the file uses 1)"
    assert (told.first_ts, told.last_ts, told.spacing_ms) == (MIDNIGHT, MIDNIGHT + 4 * MINUTE, MINUTE)
    assert (told.duplicates, told.gap_count, told.missing) == (0, 0, 0)
    assert told.notes == ("no quote volume: estimated from the bar's prices", "no number of trades: stored as 0")
    assert [found.known_at(bar) for bar in found.rows[:2]] == [MIDNIGHT + 62_000, MIDNIGHT + 122_000]


def test_all_that_a_file_can_state(tmp_path: Path) -> None:
    text = ["time,open,high,low,close,volume,quote_volume,trades,interval,note", f"{MIDNIGHT},1,2,1,2,3,4.5,7,1m,x"]
    found = parsed(tmp_path, text)
    (bar,) = found.rows
    assert (bar.volume_base, bar.volume_quote_usd, bar.sample_count) == (3.0, 4.5, 7)  # type: ignore[union-attr]
    assert found.stated[-2:] == ("volume_quote_usd", "sample_count")
    assert found.told.unused == ("note",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{at},101,103.5,100.5,,1", "close is missing"),
        ("{at},101,103.5,100.5,NaN,1", "close is missing (NaN)"),
        ("{at},101,103.5,100.5,abc,1", "close 'abc' is not a number"),
        ("{at},-101,103.5,100.5,102,1", "open -101 is negative"),
        ("{at},101,103.5,0,102,1", "low is 0"),
        ("{at},101,99,100.5,102,1", "high 99 is below low 100.5"),
        ("{at},104,103.5,100.5,102,1", "open 104 is not between low 100.5 and high 103.5"),
        ("{at},101,103.5,100.5,99,1", "close 99 is not between low 100.5 and high 103.5"),
        ("{at},101,103.5,100.5,102,-1", "volume -1 is negative"),
        ("{at},101,103.5,100.5,102,inf", "volume inf is more than the tape can hold"),
        ("{at},101,103.5,100.5,102", "has 5 fields instead of 6"),
        ("{at},101,103.5,100.5,102,1,1", "has 7 fields instead of 6"),
        (",101,103.5,100.5,102,1", "has no time"),
        (
            "now,101,103.5,100.5,102,1",
            "time 'now' cannot be read: write it like 2026-01-31T12:05:00Z or as epoch milliseconds",
        ),
        ("{off},101,103.5,100.5,102,1", "2023-07-24T00:01:00.007Z does not begin a bar of 1m"),
    ],
)
def test_a_bad_line_is_named(line: str, why: str, tmp_path: Path) -> None:
    found = parsed(tmp_path, table(line.format(at=MIDNIGHT + MINUTE, off=MIDNIGHT + MINUTE + 7)))
    assert whys(found) == [(3, why)]
    assert found.rows == [bar for bar in bars(5) if bar.bucket_ts != MIDNIGHT + MINUTE]


def test_bad_counts_are_named(tmp_path: Path) -> None:
    head = "time,open,high,low,close,volume,quote_volume,trades"
    found = parsed(tmp_path, [head, f"{MIDNIGHT},1,1,1,1,1,-2,3", f"{MIDNIGHT + MINUTE},1,1,1,1,1,2,3.5"])
    assert whys(found) == [(2, "quote_volume -2 is negative"), (3, "trades 3.5 is no whole number")]


def test_disorder_and_contradictions(tmp_path: Path) -> None:
    rows = lines(4)
    other = rows[1].replace("0.25", "9").replace("1.25", "9")
    found = parsed(tmp_path, [HEADER, rows[0], rows[1], rows[1], other, rows[3], rows[2]])
    assert found.told.duplicates == 1
    assert [row for row, _ in whys(found)] == [5, 7]
    assert found.told.missing == 1


def test_only_the_first_twenty_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    found = parsed(tmp_path, [HEADER, *lines(3), *["x,1,1,1,1,1"] * 50])
    assert (found.problem_count, len(found.problems), found.problems[0].row) == (50, 20, 5)


def test_gaps_are_told_and_larger_spacing_is_refused(tmp_path: Path) -> None:
    rows = lines(10)
    found = parsed(tmp_path, [HEADER, *rows[:4], *rows[7:]])
    assert (found.told.gap_count, found.told.missing) == (1, 3)
    assert found.told.longest_gaps == ((MIDNIGHT + 4 * MINUTE, MIDNIGHT + 7 * MINUTE),)
    with pytest.raises(BadInput, match="the rows are 5m apart but `interval=` says 1m: use `interval=` 5m"):
        parsed(tmp_path, [HEADER, *lines(5, step=5 * MINUTE)])
    with pytest.raises(BadInput, match="the rows are 1m apart but `interval=` says 1h"):
        parsed(tmp_path, [HEADER, *lines(90)], asked=ask(interval="1h"))


def test_the_length_a_file_states_counts(tmp_path: Path) -> None:
    rows = [f"{line},1m" for line in lines(3, step=HOUR)]
    assert len(parsed(tmp_path, [f"{HEADER},interval", *rows]).rows) == 3
    with pytest.raises(BadInput, match="the file says its bars are 1m but `interval=` says 1h: use `interval=` 1m"):
        parsed(tmp_path, [f"{HEADER},interval", *rows], asked=ask(interval="1h"))
    odd_json = [f'{{"t": {MIDNIGHT}, "o": 1, "h": 1, "l": 1, "c": 1, "v": 1, "i": [5], "s": {{}}}}'] * 2
    with pytest.raises(BadInput, match=r"the file has no rows of BTC; it has: \{\}"):
        parsed(tmp_path, odd_json, "a.jsonl")
    odd = [line.replace(",1m", ",?") for line in rows]
    assert len(parsed(tmp_path, [f"{HEADER},interval", *odd], asked=ask(interval="1h")).rows) == 3


@pytest.mark.parametrize("interval", ["1m", "5m", "15m", "1h", "4h", "1d"])
def test_lengths_are_found_by_the_distance_of_rows(interval: str, tmp_path: Path) -> None:
    step, unknown = span_ms(interval), ask(interval=None)
    found = parsed(tmp_path, [HEADER, *lines(9, step=step)], asked=unknown)
    assert found.rows == bars(9, step=step)
    assert f"bars of {interval}, by the distance of their rows" in found.told.notes
    back = parsed(tmp_path, [HEADER, *lines(9, step=step)[::-1]], asked=unknown)
    assert back.rows == found.rows


def test_lengths_are_found_where_rows_are_missing_or_say_so(tmp_path: Path) -> None:
    """Quiet minutes leave no rows: what all distances have in common is the length, unless a column says it."""
    unknown, rows = ask(interval=None), lines(40)
    sparse = [rows[n] for n in (0, 2, 4, 6, 9, 11, 13, 15, 20, 22, 24)]
    assert {bar.granularity_sec for bar in candles(parsed(tmp_path, [HEADER, *sparse], asked=unknown))} == {60}
    stray = [*lines(12, step=5 * MINUTE), lines(1, first=MIDNIGHT + 58 * MINUTE)[0]]
    found = parsed(tmp_path, [HEADER, *stray], asked=unknown)
    assert {bar.granularity_sec for bar in candles(found)} == {300} and found.problem_count == 1
    stated = [f"{line},1m" for line in lines(3, step=HOUR)]
    found = parsed(tmp_path, [f"{HEADER},interval", *stated], asked=unknown)
    assert {bar.granularity_sec for bar in candles(found)} == {60}
    assert "bars of 1m, as the file says" in found.told.notes


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (lines(1), "one row does not tell how long its bar is: say so with `interval=`"),
        (lines(6, step=7 * MINUTE), "the rows are 7m apart, and there are no bars of that length: choose one of 1m"),
    ],
)
def test_lengths_that_cannot_be_found(rows: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=says):
        parsed(tmp_path, [HEADER, *rows], asked=ask(interval=None))


def candles(found: ParsedFile) -> list[Candle]:
    """The bars of a file."""
    return [fact for fact in found.rows if isinstance(fact, Candle)]


def test_a_stated_length_holds_for_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 3)
    rows = [f"{line},{name},1m" for name in ("BTC", "ETH") for line in lines(3, step=HOUR)]
    assert len(parsed(tmp_path, [f"{HEADER},symbol,interval", *rows]).rows) == 3


def test_a_bar_that_has_not_ended_is_no_history(tmp_path: Path) -> None:
    found = parsed(tmp_path, [HEADER, *lines(3)], asked=ask(now=MIDNIGHT + 3 * MINUTE - 1))
    assert whys(found) == [(4, "2023-07-24T00:02:00.000Z begins a bar that has not ended")]


def test_newest_first(tmp_path: Path) -> None:
    found = parsed(tmp_path, [HEADER, *reversed(lines(5))])
    assert found.rows == bars(5)
    assert "newest first: read backwards" in found.told.notes


def test_notes_about_the_values(tmp_path: Path) -> None:
    quiet = [f"{MIDNIGHT + n * MINUTE},0.0000012345,0.0000012345,0.000001,0.000001,0" for n in range(2)]
    notes = parsed(tmp_path, [HEADER, *quiet]).told.notes
    assert "4 prices have more than 8 decimals and are rounded" in notes
    assert any(note.startswith("every volume is 0") for note in notes)


def test_missing_columns(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"file.csv: there is no column for volume \(called volume, "):
        parsed(tmp_path, ["time,open,high,low,close", f"{MIDNIGHT},1,1,1,1"])


def ways() -> dict[str, str]:
    """The same five bars in several formats, by the name of the file."""
    rows = [line.split(",") for line in lines(5)]
    arrays = [[int(row[0]), *map(float, row[1:])] for row in rows]
    keys = ("t", "o", "h", "l", "c", "v")
    objects = [dict(zip(keys, [int(row[0]), *row[1:]], strict=True)) | {"T": 1, "s": "BTC", "i": "1m"} for row in rows]
    iso = [f"2023-07-24 00:0{n}:00,{line.split(',', 1)[1]}" for n, line in enumerate(lines(5))]
    return {
        "plain.csv": "\n".join([HEADER, *lines(5)]),
        "packed.csv.gz": "\n".join([HEADER, *lines(5)]),
        "windows.csv": "\ufeff" + "\r\n".join([HEADER, *lines(5), "", ""]),
        "title.csv": "\n".join(["https://www.example.com", HEADER, *lines(5)]),
        "headless.csv": "\n".join(lines(5)),
        "semicolons.csv": "\n".join([HEADER, *lines(5)]).replace(",", ";"),
        "european.csv": "\n".join([HEADER, *lines(5)]).replace(",", ";").replace(".", ","),
        "tabs.tsv": "\n".join([HEADER, *lines(5)]).replace(",", "\t"),
        "iso.csv": "\n".join([HEADER.replace("timestamp", "date"), *iso]),
        "quoted.csv": "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in [HEADER, *lines(5)]),
        "freqtrade.json": json.dumps(arrays),
        "pretty.json": json.dumps(arrays, indent=2),
        "exchange.json": json.dumps(objects),
        "wrapped.json": json.dumps({"code": 0, "data": arrays}),
        "arrays.jsonl": "\n".join(map(json.dumps, arrays)),
        "objects.jsonl.gz": "\n".join(map(json.dumps, objects)),
    }


@pytest.mark.parametrize("name", ways())
def test_every_format_says_the_same(name: str, tmp_path: Path) -> None:
    found = parsed(tmp_path, ways()[name], name)
    assert found.rows == bars(5)
    assert (found.problem_count, found.told.duplicates) == (0, 0)


WRECKS = st.tuples(st.sampled_from(sorted(ways())), st.integers(0, 600), st.binary(max_size=4), st.integers(0, 3))


@settings(max_examples=examples(300))
@given(wreck=WRECKS)
def test_a_wrecked_file_is_refused_or_read_but_never_an_accident(
    wreck: tuple[str, int, bytes, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, place, inserted, cut = wreck
    content = ways()[name].encode()
    content = content[:place] + inserted + content[place + cut :]
    path = write(tmp_path_factory.getbasetemp(), content, name)
    try:
        found = parse_file(path, ask())
    except BadInput as error:
        assert name in str(error)
        return
    _is_sound(found)


def _is_sound(found: ParsedFile) -> None:
    times = [bar.bucket_ts for bar in found.rows]
    assert times == sorted(set(times))
    for bar in found.rows:
        assert 0 < bar.low_e8 <= min(bar.open_e8, bar.close_e8)  # type: ignore[union-attr]
        assert max(bar.open_e8, bar.close_e8) <= bar.high_e8  # type: ignore[union-attr]
        assert bar.bucket_ts % MINUTE == 0 and bar.volume_base >= 0  # type: ignore[union-attr]


@given(content=st.binary(max_size=200))
def test_any_bytes(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.getbasetemp(), content, "any")
    for kind in ("candles", "funding", "marks", "stream"):
        try:
            parse_file(path, ask(kind))
        except BadInput as error:
            assert "any" in str(error)
