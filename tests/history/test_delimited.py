"""CSV: line numbers are those of the file, whatever stands above, between and inside the lines."""

import io

import pytest

from tapebook.errors import BadInput
from tapebook.history import tables
from tapebook.history.importer import RowProblems
from tapebook.history.table_columns import is_header
from tapebook.history.tables import Table


def read(text: str) -> tuple[Table, list[tuple[int, tuple[str, ...]]], list[tuple[int, str]]]:
    """A text as table, its rows with their numbers, and its problems."""
    problems = RowProblems()
    table = tables.read_csv(io.BytesIO(text.encode()), problems, is_header=is_header)
    rows = [
        (number, row)
        for block in table.blocks
        for number, row in zip(block.numbers, zip(*block.columns, strict=True), strict=True)
    ]
    return table, rows, [(problem.row, problem.why) for problem in problems.first()]


def test_lines_are_numbered_as_in_the_file() -> None:
    table, rows, problems = read('a title\n\ntime,open\n1,2\n\n\n3,"4\n5"\n6\n7,8\n\n')
    assert (table.names, table.has_header, table.notes) == (("time", "open"), True, ("the header is line 3",))
    assert rows == [(4, ("1", "2")), (8, ("3", "4\n5")), (10, ("7", "8"))]
    assert problems == [(9, "has 1 fields instead of 2")]


def test_numbers_go_on_from_block_to_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 2)
    text = "time,open\n" + "".join("\n" if line % 3 == 0 else f"{line},x\n" for line in range(2, 40))
    _, rows, _ = read(text)
    assert rows == [(line, (str(line), "x")) for line in range(2, 40) if line % 3]


@pytest.mark.parametrize(("separator", "words"), [(",", "commas"), (";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_separators(separator: str, words: str) -> None:
    table, rows, _ = read("time,open\n1,2.5\n".replace(",", separator))
    assert (table.format, rows) == (f"CSV separated by {words}", [(2, ("1", "2.5"))])


def test_decimal_commas() -> None:
    table, rows, _ = read("time;open\n1;2,5\n2;3\n")
    assert (rows, table.notes) == ([(2, ("1", "2.5")), (3, ("2", "3"))], ("decimal commas",))
    table, rows, _ = read("time;open;note\n1;2.5;a,b\n")
    assert (rows, table.notes) == ([(2, ("1", "2.5", "a,b"))], ())


def test_no_header() -> None:
    table, rows, _ = read("1,2\n3,4\n")
    assert (table.names, table.has_header) == (("#1", "#2"), False)
    assert table.notes == ("no header: columns are taken by their place",)
    assert [number for number, _ in rows] == [1, 2]


def test_one_column_is_no_table() -> None:
    with pytest.raises(BadInput, match="the lines have one column only"):
        read("time\n1\n2\n")
