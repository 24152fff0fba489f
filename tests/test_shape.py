"""The budgets of the source: no monsters, shallow nesting, everything described.

Long functions and deep nesting are what makes a codebase hard to read, so they are counted here
and a failure names the worst places. Nothing is exempt.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "tapebook"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Measured = list[tuple[int, str]]

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
PRAGMA = re.compile(r"#\s*(noqa|type:|ruff:|mypy:|pragma)")
# Below this many lines one comment more or less says nothing.
ENOUGH_CODE = 500


@cache
def files() -> dict[str, str]:
    """The text of every source file, by its path in the package; read once."""
    found = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    assert found, f"no source below {PACKAGE}"
    return found


@cache
def tree(text: str) -> ast.Module:
    """The tree of a text, for all who only look at it."""
    return ast.parse(text)


def functions() -> Iterator[tuple[str, Function]]:
    """Every function and method, nested ones too, with its place."""
    for name, text in files().items():
        for node in ast.walk(tree(text)):
            if isinstance(node, Function):
                yield f"{name}:{node.lineno} {node.name}", node


def body_lines(function: Function) -> int:
    """Lines of the body without the docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    body = function.body[1:] if has_docstring else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def nesting(node: ast.AST) -> int:
    """How many blocks lie inside one another; a function inside a function is measured by itself."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        inner = nesting(child)
        # An `elif` is an `if` in the `else` of another, but it goes no deeper.
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child.col_offset == node.col_offset
        deepest = max(deepest, inner + (isinstance(child, BLOCKS) and not is_elif))
    return deepest


def positional(function: Function) -> int:
    """Parameters that can be passed by place, without self or cls."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def comments_and_code(text: str) -> tuple[int, int]:
    """Comment lines (without pragmas) and code lines (without docstrings)."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = sum(token.type == tokenize.COMMENT and not PRAGMA.match(token.string) for token in tokens)
    code: set[int] = set()
    for token in tokens:
        if token.type not in NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return comments, len(code - _docstring_lines(tree(text)))


def _docstring_lines(module: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def worst(measured: Measured) -> str:
    """The ten highest, one per line."""
    return "\n".join(f"{number:5} {place}" for number, place in sorted(measured, reverse=True)[:10])


def test_files_are_short() -> None:
    lengths = [(len(text.splitlines()), name) for name, text in files().items()]
    assert max(number for number, _ in lengths) <= 700, f"files over 700 lines\n{worst(lengths)}"


def test_functions_are_short() -> None:
    lengths = [(body_lines(function), place) for place, function in functions()]
    assert max(number for number, _ in lengths) <= 60, f"bodies over 60 lines\n{worst(lengths)}"


def test_nesting_is_shallow() -> None:
    depths = [(nesting(function), place) for place, function in functions()]
    depths += [(nesting(tree(text)), name) for name, text in files().items()]
    deep = [(depth, place) for depth, place in depths if depth >= 4]
    assert not deep, f"blocks four deep\n{worst(deep)}"


def test_every_module_has_a_docstring() -> None:
    missing = [name for name, text in files().items() if not ast.get_docstring(tree(text))]
    assert not missing, f"no module docstring: {', '.join(missing)}"


def test_every_function_names_its_return_type() -> None:
    missing = [place for place, function in functions() if function.returns is None]
    assert not missing, "no return annotation:\n" + "\n".join(missing)


def test_parameters_beyond_three_are_keyword_only() -> None:
    counts = [(positional(function), place) for place, function in functions()]
    four = [(number, place) for number, place in counts if number == 4]
    print(f"four positional parameters, one more than the target:\n{worst(four)}")
    over = [(number, place) for number, place in counts if number > 4]
    assert not over, f"over four positional parameters\n{worst(over)}"


def test_comments_are_few_but_there() -> None:
    counted = {name: comments_and_code(text) for name, text in files().items()}
    comments, code = sum(pair[0] for pair in counted.values()), sum(pair[1] for pair in counted.values())
    rate = 100 * comments / max(code, 1)
    most = worst([(pair[0], name) for name, pair in counted.items()])
    assert rate <= 12 or code < ENOUGH_CODE, f"{rate:.1f} comments per 100 code lines, over 12\n{most}"
    assert rate >= 1 or code < ENOUGH_CODE, f"{rate:.1f} comments per 100 code lines, under 1: say why\n{most}"


# Where anything at all may be caught, and how often. Each records what it caught, and what concerns the whole process
# (a lost lease, a disk that refuses the book) is raised there or cannot come by.
# Texts whose bytes are kept: packets, documents, verdicts and errors of runs, and the names of what is compared.
KEPT_TEXTS = (
    *("context/", "decision/", "experience/store.py", "horizons/rows.py", "library/document_texts.py"),
    *("tick/record.py", "lessons/", "sources/"),
)
COUNTED = re.compile(
    r" (rows|trades|decisions|runs|events|symbols|streams|objects|fills|orders|files|documents|chunks|bars|times|slots|"
    r"agents|entries|contradictions|gaps|facts|notes|keys|pairs|accounts|outcomes|situations|snapshots|packets|payloads|"
    r"calls|attempts|errors|problems|differences|rates|commits|records|versions|proposals|syncs)\b(?! as\b)"
)


def fixed_plurals(text: str) -> list[int]:
    """The lines of a source where a number that may be one is followed by a noun that is always plural."""
    found = []
    for node in ast.walk(tree(text)):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for place, (number, words) in enumerate(pairwise(parts)):
            before = parts[place - 1] if place else None
            # "2 of 3 rows" is right for every number, and a constant is never one.
            is_share = isinstance(before, ast.Constant) and str(before.value).endswith(" of ")
            is_free = isinstance(number, ast.FormattedValue) and not ast.unparse(number.value).isupper()
            if is_free and isinstance(words, ast.Constant) and not is_share and COUNTED.match(str(words.value)):
                found.append(words.lineno)
    return found


def test_counts_agree_with_their_nouns() -> None:
    texts = {name: text for name, text in files().items() if not name.startswith(KEPT_TEXTS)}
    odd = [f"{name}: {lines}" for name, text in texts.items() if (lines := fixed_plurals(text))]
    assert not odd, f"use domain.text.plural: {', '.join(odd)}"
    assert fixed_plurals('f"{a} of {b:,} rows, {c:,} trades"') == [1]
    assert not fixed_plurals('f"{a} of {b} rows, {MOST} rows, {c} runs as {d}"')


BROAD_HANDLERS = {
    "desk/worker.py": 2,  # one account's trouble, and an engine in a thread: the other accounts go on
    "tick/prepare.py": 1,  # a memory: trading goes on without it
    "tick/learn.py": 1,  # rows of one memory that cannot be written: the others are learned
    "desk/librarian.py": 1,  # documents that cannot be synced: the desk goes on with those it has
    "surfaces/cli/__init__.py": 1,  # whatever a damaged home causes is said in one line; all else is raised again
    "plug.py": 1,  # a module of another package may raise anything as it is imported: the error names the package
    "archive/spool.py": 2,  # an archive of whatever kind: what it does not take waits in the spool
}


def test_broad_handlers_are_where_they_belong() -> None:
    places: dict[str, list[int]] = {}
    for name, text in files().items():
        for node in ast.walk(tree(text)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            if node.type is None or re.search(r"\bException\b", ast.unparse(node.type)):
                places.setdefault(name, []).append(node.lineno)
    odd = [f"{name}: {lines}" for name, lines in places.items() if len(lines) > BROAD_HANDLERS.get(name, 0)]
    assert not odd, f"broad handlers where none, or not so many, belong: {', '.join(odd)}"


@pytest.mark.parametrize(
    ("source", "lines", "depth", "parameters"),
    [
        ("def f(): pass", 1, 0, 0),
        ('def f():\n    """Only words."""', 0, 0, 0),
        ('def f(self, a, b=1, /, c=2, *, d):\n    """Words\n    and words."""\n    x = 1\n\n    return x', 3, 0, 3),
        ("def f(cls, *rest, a, **more):\n if a:\n  pass\n elif b:\n  pass\n else:\n  pass", 6, 1, 0),
        ("def f(a):\n    if a:\n        pass\n    else:\n        if a:\n            pass", 5, 2, 1),
        ("def f(a):\n for x in a:\n  with x:\n   try:\n    pass\n   except E:\n    while x:\n     pass", 7, 4, 1),
        ("async def f(a):\n    if a:\n        def g():\n            if a:\n                pass", 4, 1, 1),
    ],
)
def test_measures_of_a_function(source: str, lines: int, depth: int, parameters: int) -> None:
    function = ast.parse(source).body[0]
    assert isinstance(function, Function)
    assert (body_lines(function), nesting(function), positional(function)) == (lines, depth, parameters)


def test_measures_of_a_file() -> None:
    head = '"""Words\nand words."""\n\n# why\nx = """a\nb"""  # noqa: E1\n'
    text = head + '\n\ndef f():\n    """Words."""\n    return 1  # why\n'
    assert comments_and_code(text) == (2, 4)
