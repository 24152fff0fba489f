"""The budgets of the source: no monsters, no crumbs, names that say what they are, everything described.

Long functions, deep nesting, stories cut into crumbs and names that mean several things are what makes a codebase hard
to read, so they are counted here and a failure names the worst places. What is exempt is listed by name, with why.
"""

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.package_source import nodes, tokens, tree

PACKAGE = Path(__file__).parent.parent / "src" / "tapebook"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Measured = list[tuple[int, str]]

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
PRAGMA = re.compile(r"#\s*(noqa|type:|ruff:|mypy:|pragma)")
SMALL_FILE = 60
MOST_FILES = 30
# A module here is loaded by its name, so that it has no importer, or only another of the folder that builds on it.
ADAPTER_FOLDERS = ("archives", "brokers", "embedders", "engines", "exporters", "indexes", "models", "reflectors")
CACHE_WORD = re.compile(r"lru_cache|cache|cached_property|LastCall")
CACHE = re.compile(rf"\b({CACHE_WORD.pattern})\b(?!\.)")


@cache
def files() -> dict[str, str]:
    """The text of every source file, by its path in the package; read once."""
    found = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    assert found, f"no source below {PACKAGE}"
    return found


def functions() -> Iterator[tuple[str, Function]]:
    """Every function and method, nested ones too, with its place."""
    for name, text in files().items():
        for node in nodes(text):
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
    found = tokens(text)
    comments = sum(token.type == tokenize.COMMENT and not PRAGMA.match(token.string) for token in found)
    code: set[int] = set()
    for token in found:
        if token.type not in NOT_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return comments, len(code - _docstring_lines(text))


def _docstring_lines(text: str) -> set[int]:
    lines: set[int] = set()
    for node in nodes(text):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


# Participles and verbs that say nothing of what is done or given, beside those that end in -ed and -en.
VAGUE = re.compile(
    "begun|bought|bound|brought|built|cut|done|drawn|felt|found|gone|grown|heard|held|kept|known|left|lost|made|meant|"
    "met|paid|said|sent|shown|sold|spent|stood|thought|thrown|told|torn|won|worn|"
    "do|give|go|handle|hear|keep|look|make|manage|mend|process|say|see|stand|stands|stir|stirs|take|tell|tidy"
)
# Nouns and verbs of the field that happen to end like a participle.
NOT_PARTICIPLES = re.compile(
    "between|embed|exceed|feed|flatten|happen|listen|need|open|seed|shorten|speed|tighten|token"
)


def is_vague(name: str) -> bool:
    """Whether a function's name is one word that does not say what the function does or gives."""
    word = name.lstrip("_")
    is_participle = re.fullmatch(r"[a-z]+(ed|en)", word) and not NOT_PARTICIPLES.fullmatch(word)
    return bool(is_participle or VAGUE.fullmatch(word))


def class_places(texts: dict[str, str]) -> dict[str, list[str]]:
    """Where each class name is defined."""
    found: dict[str, list[str]] = {}
    for name, text in texts.items():
        for node in nodes(text):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{name}:{node.lineno}")
    return found


def importers(texts: dict[str, str]) -> dict[str, set[str]]:
    """Which modules import each module of the package, wherever in the module they do."""
    found: dict[str, set[str]] = {name: set() for name in texts}
    for name, text in texts.items():
        for node in nodes(text):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tapebook"):
                folder = (node.module or "").split(".")[1:]
                for alias in node.names:
                    for place in ("/".join([*folder, alias.name]), "/".join(folder)):
                        found.get(f"{place}.py", set()).add(name)
    return found


def is_adapter(name: str) -> bool:
    """Whether a module is found by its name: it lies in the plural folder beside a port, or is the command's entry."""
    return name.endswith(("__init__.py", "__main__.py")) or Path(name).parent.name in ADAPTER_FOLDERS


def crumbs(texts: dict[str, str]) -> list[str]:
    """Modules so small, and of use to one other alone, that they belong into that one."""
    importing = importers(texts)
    # The façade has a file for each noun, however small.
    small = [
        name
        for name, text in texts.items()
        if len(text.splitlines()) < SMALL_FILE and not is_adapter(name) and not name.startswith("api/")
    ]
    return [f"{name}, imported by {min(importing[name])}" for name in small if len(importing[name]) == 1]


def global_caches(text: str) -> list[str]:
    """Functions and values of a module that remember calls for as long as the process lives."""
    found = []
    lines = text.splitlines()
    for node in tree(text).body:
        # To write a node as text again takes a hundred times as long as to look at its lines.
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        if not any(CACHE_WORD.search(line) for line in lines[first - 1 : node.end_lineno]):
            continue
        if isinstance(node, Function) and any(CACHE.search(ast.unparse(each)) for each in node.decorator_list):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value and CACHE.search(ast.unparse(node.value)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append(ast.unparse(target))
    return found


def worst(measured: Measured) -> str:
    """The ten highest, one per line."""
    return "\n".join(f"{number:5} {place}" for number, place in sorted(measured, reverse=True)[:10])


# Functions whose results depend on their arguments alone, which are small and come again: texts, figures, files.
PURE_CACHES = {
    "backtest/identity.py": {"package_sha256"},
    "book/events.py": {"_json_texts"},
    "broker/margin.py": {"_margin_tables", "_known_tiers"},
    "context/market_sections.py": {"settled_funding_rows", "_cap_rows"},
    "context/memory_sections.py": {"_trade_row", "shorten_trade_row"},
    "context/render.py": {
        *("count_shape_pieces", "plain_line", "symbol_text", "price_text", "cached_usd_text"),
        *("signed_usd_text", "extreme_usd_text", "section_opening"),
    },
    "db/sqlite.py": {"_multi_row_insert"},
    "broker/port.py": {"trades_elsewhere"},
    "decision/guard.py": {"numbers_in"},
    "decision/port.py": {"default_members"},
    "decision/reply.py": {"parse_reply", "make_answer_of"},
    "domain/estimate.py": {"student_quantile"},
    "domain/text.py": {"line_tokens", "_first_pieces"},
    "domain/units.py": {"_day_text", "average_price_e8", "short_price"},
    "experience/features.py": {"_market_fields", "_time_fields"},
    "experience/records.py": {"_cached_quantile"},
    "experience/rows.py": {"_won_text", "_neighbour_row", "record_rows"},
    "horizons/layers.py": {"_period", "parse_period", "_key"},
    "horizons/store.py": {"_decoded_aggregate"},
    "lessons/notes.py": {"note_bullets", "rendered_bullets"},
    "search/embedders/wordllama.py": {"_weights", "_tokenizer"},
    "search/index.py": {"decode_search_terms"},
    "search/text.py": {"stem", "token_terms"},
    "tape/bars.py": {"lengths_dividing"},
}
# What still remembers the call before for the whole process instead of being passed in. This list only gets shorter.
CACHES_TO_PASS_IN = {
    "tick/memory.py": {"_bar_features_cache", "_unscaled_regime_cache", "_feature_vector_cache", "_lessons_cache"},
}


def test_caches_are_passed_in() -> None:
    listed = {name: PURE_CACHES.get(name, set()) | CACHES_TO_PASS_IN.get(name, set()) for name in files()}
    odd = [
        f"{name}: {each}" for name, text in files().items() for each in global_caches(text) if each not in listed[name]
    ]
    assert not odd, f"caches in module globals: pass them in, or list a pure function by name: {', '.join(odd)}"


def test_rooms_are_small() -> None:
    # Each surface is a room of its own: the command line, the API, the pages.
    surfaces = ("surfaces",)
    rooms = Counter("/".join(Path(name).parts[: 1 + (Path(name).parts[0] in surfaces)]) for name in files())
    large = [(count, room) for room, count in rooms.items() if count > MOST_FILES]
    assert not large, f"rooms of over {MOST_FILES} files\n{worst(large)}"


def test_a_class_name_means_one_thing() -> None:
    twice = [f"{name}: {', '.join(places)}" for name, places in class_places(files()).items() if len(places) > 1]
    assert not twice, "class names that are defined more than once:\n" + "\n".join(twice)


def test_names_of_functions_say_what_they_do_or_give() -> None:
    vague = [place for place, function in functions() if is_vague(function.name)]
    assert not vague, "bare participles and vague verbs:\n" + "\n".join(vague)


def test_there_are_no_crumbs() -> None:
    found = crumbs(files())
    assert not found, f"under {SMALL_FILE} lines with one importer; put it there:\n" + "\n".join(found)


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
    assert rate <= 8, f"{rate:.2f} comments per 100 code lines, over 8\n{most}"
    assert rate >= 3, f"{rate:.2f} comments per 100 code lines, under 3: say why\n{most}"


# Where anything at all may be caught, and how often. Each records what it caught, and what concerns the whole process
# (a lost lease, a disk that refuses the book) is raised there or cannot come by.
# Texts whose bytes are kept: packets, documents, verdicts and errors of runs, and the names of what is compared.
KEPT_TEXTS = (
    *("context/", "decision/", "experience/rows.py", "horizons/rows.py", "library/document_texts.py"),
    *("tick/decide.py", "lessons/", "sources/"),
)
COUNTED = re.compile(
    r" (rows|trades|decisions|runs|events|symbols|streams|objects|fills|orders|files|documents|chunks|bars|times|slots|"
    r"agents|entries|contradictions|gaps|facts|notes|keys|pairs|accounts|outcomes|situations|snapshots|packets|payloads|"
    r"calls|attempts|errors|problems|differences|rates|commits|records|versions|proposals|syncs)\b(?! as\b)"
)


def fixed_plurals(text: str) -> list[int]:
    """The lines of a source where a number that may be one is followed by a noun that is always plural."""
    found = []
    for node in nodes(text):
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
    "background.py": 1,  # the end of a thread: whoever began the call gets what it raised
    "archive/spool.py": 2,  # an archive of whatever kind: what it does not take waits in the spool
}


def test_broad_handlers_are_where_they_belong() -> None:
    places: dict[str, list[int]] = {}
    for name, text in files().items():
        for node in nodes(text):
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


@pytest.mark.parametrize(
    ("name", "vague"),
    [
        *(("told", True), ("_kept", True), ("judged", True), ("widen_", False), ("written", True), ("take", True)),
        *(("rows_told", False), ("speed", False), ("open", False), ("_between", False), ("take_lease", False)),
    ],
)
def test_vague_names(name: str, vague: bool) -> None:
    assert is_vague(name) == vague


def test_places_of_classes() -> None:
    texts = {"a.py": "class A: pass\n", "b.py": "def f():\n    class A: pass\nclass B: pass\n"}
    assert class_places(texts) == {"A": ["a.py:1", "b.py:2"], "B": ["b.py:3"]}


def test_crumbs_are_small_have_one_importer_and_are_no_adapters() -> None:
    user = "from tapebook.room import piece\nfrom tapebook.room.shared import x\nfrom tapebook.room.large import y\n"
    texts = {
        "room/user.py": user,
        "room/other.py": "def f():\n    from tapebook.room.shared import x\n",
        "room/piece.py": "x = 1\n",
        "room/shared.py": "x = 1\n",
        "room/large.py": "y = 1\n" * SMALL_FILE,
        "room/engines/small.py": "from tapebook.room.engines.base import z\n",
        "room/engines/base.py": "z = 1\n",
    }
    assert crumbs(texts) == ["room/piece.py, imported by room/user.py"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@lru_cache(maxsize=8)\ndef f(): pass", ["f"]),
        ("@functools.cache\ndef f(): pass", ["f"]),
        ("f = LastCall(g)", ["f"]),
        ("f: LastCall[int, int] = LastCall(g)", ["f"]),
        ("class A:\n    def __init__(self, cache):\n        self.f = LastCall(cache.g)", []),
        ("f = read_cache.g()", []),
        ("from functools import lru_cache", []),
    ],
)
def test_caches_in_module_globals(source: str, found: list[str]) -> None:
    assert global_caches(source) == found
