"""What people see: aligned columns that fit, numbers to the right, nothing that steers a terminal."""

import json
from typing import Any

import msgspec
import pytest

from tapebook.surfaces.cli import output
from tapebook.surfaces.cli.output import (
    Column,
    cell,
    first_on_screen,
    minute,
    money,
    one_line,
    price,
    print_json,
    print_record,
    shorten_on_screen,
    whole,
)


class Point(msgspec.Struct, frozen=True):
    """Some struct of the façade."""

    name: str
    at: tuple[int, ...]


def table(capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]], columns: list[Column]) -> list[str]:
    """The lines of a table."""
    output.print_table(rows, columns, empty="nothing")
    return capsys.readouterr().out.splitlines()


def test_numbers_stand_to_the_right_and_words_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"who": "a", "net": -1234.5, "why": None},
        {"who": "long name", "net": None, "why": None},
    ]
    columns = [Column("who", "who"), Column("net", "net", money), Column("why", "why")]
    assert table(capsys, rows, columns) == [
        "who              net  why",
        "a          -1,234.50  -",
        "long name          -  -",
    ]


def test_no_rows_are_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert table(capsys, [], [Column("who", "who")]) == ["nothing"]


def test_nothing_is_cut_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    why = "because of many reasons " * 5
    rows = [{"id": "0123456789", "why": why}]
    lines = table(capsys, rows, [Column("id", "id"), Column("why", "why", cut=True)])
    assert lines[1] == f"0123456789  {why.strip()}"
    assert shorten_on_screen(why, 9) == why and first_on_screen([1, 2, 3], 2) == [1, 2, 3]


def test_a_screen_gets_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_screen", lambda: True)
    assert shorten_on_screen("because of many", 9) == "because …" and shorten_on_screen("because", 9) == "because"
    assert first_on_screen([1, 2, 3], 2) == [1, 2]


@pytest.mark.parametrize("width", [30, 40, 80])
def test_table_fits_the_terminal_by_cutting_words_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(output, "is_screen", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [{"id": "0123456789", "why": "because of many reasons " * 5, "net": 1.0}]
    lines = table(capsys, rows, [Column("id", "id"), Column("why", "why", cut=True), Column("net", "net", money)])
    assert [len(line) for line in lines] == [width, width]
    assert lines[1].startswith("0123456789  because") and lines[1].endswith("…  1.00")


def test_what_must_not_be_cut_is_longer_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_screen", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    rows = [{"id": "0123456789" * 3, "why": "because of reasons"}]
    lines = table(capsys, rows, [Column("id", "id"), Column("why", "why", cut=True)])
    assert lines[1] == "0123456789" * 3 + "  because…"


def test_text_cannot_steer_the_terminal() -> None:
    assert one_line("a\nb\x1b[2Jc\x9bd\u2028e\u202ef ") == "a b [2Jc d e f"


def test_cells() -> None:
    assert [cell(value) for value in (None, "", True, False, [], ["a", 1], "a\tb", 0)] == [
        *("-", "-", "yes", "no", "-", "a, 1", "a b", "0"),
    ]


def test_numbers_for_people() -> None:
    assert [price(value) for value in (65046.04, 2109.04, 12.3456, 1.0, 0.000012345678, None)] == [
        *("65046", "2109.0", "12.346", "1.0000", "0.00001235", "-"),
    ]
    assert [money(1234.567), whole(1234.567), minute("2026-01-05T04:00:00.000Z"), minute(None)] == [
        *("1,234.57", "1,235", "2026-01-05T04:00", "-"),
    ]


def test_record_has_one_line_for_each_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"run": "x", "decided": ["hold", "close"], "note": []})
    assert capsys.readouterr().out == "run      x\ndecided  hold\n         close\nnote     -\n"


def test_json_is_utf_8_and_takes_structs(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json([Point("é", (1, 2)), {"nan": float("nan")}])
    assert json.loads(capfdbinary.readouterr().out.decode("utf-8")) == [{"name": "é", "at": [1, 2]}, {"nan": None}]
