"""JSON: no digit is lost, and a row of another shape is a problem."""

import io

import pytest

from tapebook.errors import BadInput
from tapebook.history import tables
from tapebook.history.importer import RowProblems
from tapebook.history.tables import Block, Table


def read(text: str, *, by_line: bool = False) -> tuple[Table, list[Block], list[tuple[int, str]]]:
    """A text as table, its blocks, and its problems."""
    problems = RowProblems()
    reader = tables.read_json_lines if by_line else tables.read_json
    table = reader(io.BytesIO(text.encode()), problems)
    blocks = list(table.blocks)
    return table, blocks, [(problem.row, problem.why) for problem in problems.first()]


def test_arrays_keep_their_digits() -> None:
    table, (block,), _ = read("[[1690156800000, 12345678.12345678, 1e-7], [1690156860000, 1, null]]")
    assert (table.format, table.names, table.has_header) == ("JSON, arrays", ("#1", "#2", "#3"), False)
    assert block.numbers == [1, 2]
    assert [list(column) for column in block.columns] == [
        *([1690156800000, 1690156860000], ["12345678.12345678", 1], ["1e-7", None]),
    ]


def test_objects_may_lack_a_key() -> None:
    table, (block,), _ = read('[{"t": 1, "o": "2"}, {"o": 3, "more": 4}]')
    assert (table.format, table.names) == ("JSON, objects", ("t", "o"))
    assert block.columns == [[1, None], ["2", 3]]


def test_rows_of_another_shape_are_problems() -> None:
    _, blocks, problems = read('[[1, 2], [3], {"t": 1}, null, [4, 5, 6], [7, 8]]')
    assert [(list(block.numbers), [list(column) for column in block.columns]) for block in blocks] == [
        ([1, 6], [[1, 7], [2, 8]])
    ]
    assert [row for row, _ in problems] == [2, 3, 4, 5]
    assert problems[0] == (2, "has 1 fields instead of 2")
    assert problems[2] == (4, "is 'None', unlike the rows before it")


def test_lines_are_numbered_as_in_the_file() -> None:
    table, (block,), problems = read('[1, 2]\n\n[3, 4\n[5, 6]\n"x"\n', by_line=True)
    assert (table.row_name, list(block.numbers)) == ("line", [1, 4])
    assert [row for row, _ in problems] == [3, 5]
    assert problems[0][1].startswith("is not whole JSON: ")


def test_a_block_of_bad_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 2)
    _, blocks, problems = read("[[1, 2], [3, 4], [5], [6], [7, 8]]")
    assert [list(block.numbers) for block in blocks] == [[1, 2], [], [5]]
    assert all(len(block.columns) == 2 for block in blocks)
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[1, 2]", "the file is not whole JSON"),
        ("[" * 100_000, "the file is not whole JSON"),
        ("[]", "the file has no rows"),
        ('{"data": []}', "the file has no rows"),
        ('{"error": "limit"}', "the JSON is no list of rows"),
        ("[1, 2, 3]", "the rows are neither arrays nor objects: the first is '1'"),
    ],
)
def test_refusals(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read(text)
