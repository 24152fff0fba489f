"""The rules of the rooms, read from the source: who imports whom, and who may touch the world.

1. `read_package` parses every file once and lists the names it imports and uses (`Source`).
2. Each rule is a function from the sources to a list of findings, "file:line says what is wrong".
3. `test_package_keeps_the_rule` runs all rules on the package.
4. `test_rule_bites` and `test_rule_spares` run them on small trees that break and keep them.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import package_source

PACKAGE = Path(__file__).parent.parent / "src" / "tapebook"

ROOMS = {
    *("tape", "sources", "book", "lessons", "experience", "horizons", "search"),
    *("context", "decision", "broker", "archive", "llm", "world"),
}
COMPOSERS = {
    *("tick", "desk", "ingest", "history", "library", "backtest", "report", "lab", "api"),
    *("wiring", "anchors", "tick_memory", "uploads"),
}
MODULES = {"__init__", "clock", "settings", "errors", "plug", "domain", "log", "db", "surfaces"}
KNOWN = ROOMS | COMPOSERS | MODULES

# What each may import besides itself. Composers may import all; what is not named here, all but rooms.
MAY_IMPORT: dict[str, set[str]] = {
    "domain": set(),
    "db": {"domain", "errors"},
    "log": {"domain", "errors", "db"},
    "surfaces": {"api", "settings", "errors", "domain", "clock", "gc_pause"},
    **{room: {"domain", "errors", "log", "db", "llm", "plug"} for room in ROOMS},
    "llm": {"domain", "errors", "plug"},
    # Sources write to the port that the tape declares.
    "sources": {"domain", "errors", "tape", "plug"},
    # The seed's API knows no clock: a database of layers alone goes by the machine's.
    "horizons": {"domain", "errors", "log", "db", "clock"},
}

# A broken memory or archive may raise anything and must not stop a tick: what is caught here is kept with the run,
# logged or shown. A module of another package may raise anything too, and becomes an error that names the package.
# tests/test_shape.py counts the places.
KEEPS_TRADING = {
    "tick/prepare.py",
    "tick/learn.py",
    "desk/librarian.py",
    "desk/worker.py",
    "archive/spool.py",
    "background.py",
    "plug.py",
}

# Whoever takes a whole home in these reads more than so many parts of it. What hands a home on to a place that is not
# covered is not judged.
TAKE_WHAT_THEY_READ = {
    *("tick", "desk", "library", "lab", "backtest", "history", "api", "report", "ingest", "anchors", "uploads"),
}
FEW_PARTS = 3
# It belongs to the opening of a home.
NOT_COVERED = {"api/open_home.py"}

# A token must not come from a seed.
MAKES_SECRETS = {"api/access.py"}

# The invented world, recorded payloads and downloads are Hyperliquid's wire format, whatever sources are named.
SPEAKS_ITS_WIRE_FORMAT = {"ingest/stepwise.py", "history/recorded_stream.py", "history/download.py"}

CLOCK_READS = [
    *("time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns"),
    *("time.gmtime", "time.localtime", "datetime.datetime.now", "datetime.datetime.utcnow"),
    *("datetime.datetime.today", "datetime.date.today"),
]
DRIVERS = ["apsw", "sqlite3", "psycopg", "psycopg_pool"]
ENVIRONMENT = ["os.environ", "os.environb", "os.getenv", "os.getenvb"]
RANDOMNESS = ["random", "secrets", "uuid", "numpy.random", "os.urandom"]
SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE TABLE)\s")


@dataclass(frozen=True)
class Source:
    """One file: its place in the package, its text, and the dotted names it imports or uses, with their lines."""

    path: Path
    root: Path
    text: str
    imports: list[tuple[int, str]]
    names: list[tuple[int, str]]

    @property
    def room(self) -> str:
        """The first part of the path: a folder, or a module beside the folders."""
        return self.path.relative_to(self.root).parts[0].removesuffix(".py")

    def at(self, line: int, says: str) -> str:
        """A finding about one line."""
        return f"{self.path.relative_to(self.root)}:{line} {says}"


@cache
def read_package(root: Path) -> list[Source]:
    """All Python files below the package's folder; each folder is read once."""
    return [_read(path, root) for path in sorted(root.rglob("*.py"))]


def _read(path: Path, root: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    nodes = package_source.nodes(text)
    package = ".".join(("tapebook", *path.relative_to(root).parent.parts))
    aliases: dict[str, str] = {}
    imports = [found for node in nodes for found in _imported(node, package, aliases)]
    expressions = [node for node in nodes if isinstance(node, ast.expr)]
    names = [(node.lineno, name) for node in expressions if (name := _dotted(node, aliases))]
    for node in expressions:
        if isinstance(node, ast.Call) and _dotted(node.func, aliases) in ("importlib.import_module", "__import__"):
            imports.extend((node.lineno, name) for name in _named_by_call(node))
    return Source(path, root, text, imports, names + imports)


def _imported(node: ast.AST, package: str, aliases: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The dotted names an import statement brings in; notes in `aliases` what the file calls them."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            # `import a.b` binds `a`; `import a.b as c` binds `c` to `a.b`.
            aliases[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
            yield node.lineno, alias.name
    elif isinstance(node, ast.ImportFrom):
        module = _absolute(node.module or "", node.level, package)
        for alias in node.names:
            aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
            yield node.lineno, f"{module}.{alias.name}"


def _absolute(module: str, level: int, package: str) -> str:
    if not level:
        return module
    parts = package.split(".")
    return ".".join(part for part in (*parts[: len(parts) - level + 1], module) if part)


def _named_by_call(call: ast.Call) -> Iterator[str]:
    """The module `import_module("a.b")` names; of an f-string, its constant beginning; `.b` with its package."""
    texts = [argument.values[0] if isinstance(argument, ast.JoinedStr) else argument for argument in call.args[:2]]
    constants = [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
    if constants:
        module, level = constants[0].lstrip("."), len(constants[0]) - len(constants[0].lstrip("."))
        yield _absolute(module, level, constants[-1])


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str:
    """`dt.now` as `datetime.datetime.now` when the file imported it so; empty for what is not such a name."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, "__import__" if node.id == "__import__" else "")
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value, aliases)):
        return f"{before}.{node.attr}"
    return ""


def _rooms_imported(source: Source) -> Iterator[tuple[int, str]]:
    """The other parts of the package a file imports."""
    for line, name in source.imports:
        package, _, rest = name.partition(".")
        if package == "tapebook":
            first = rest.partition(".")[0]
            is_part = first in KNOWN or (source.root / first).is_dir() or (source.root / f"{first}.py").exists()
            room = first if first and is_part else "__init__"
            if room != source.room:
                yield line, room


def imports_follow_the_order(sources: list[Source]) -> list[str]:
    """Rooms never import each other, `domain` imports nothing, surfaces see the façade, and so on."""
    findings = []
    for source in sources:
        for line, room in _rooms_imported(source):
            if not _may_import(source.room, room):
                findings.append(source.at(line, f"{source.room} must not import {room}"))
    return findings


def _may_import(room: str, other: str) -> bool:
    if room in COMPOSERS:
        return True
    return other in MAY_IMPORT[room] if room in MAY_IMPORT else other not in ROOMS


def no_knots(sources: list[Source]) -> list[str]:
    """No two parts of the package reach each other: every strongly connected component has one member."""
    edges: dict[str, set[str]] = {}
    for source in sources:
        edges.setdefault(source.room, set()).update(room for _, room in _rooms_imported(source))
    reach = {room: _reachable(room, edges) for room in edges}
    knots = {frozenset(other for other in reach[room] if room in reach.get(other, ())) for room in edges}
    return [f"a knot of imports: {', '.join(sorted(knot))}" for knot in knots if knot]


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def clock_is_read_in_one_file(sources: list[Source]) -> list[str]:
    """Only clock.py asks what time it is."""
    return _uses(sources, CLOCK_READS, "clock")


def drivers_stay_in_db(sources: list[Source]) -> list[str]:
    """Only db/ knows a database driver."""
    return _uses(sources, DRIVERS, "db")


def environment_is_read_in_settings(sources: list[Source]) -> list[str]:
    """Only settings/ reads environment variables."""
    return _uses(sources, ENVIRONMENT, "settings")


def randomness_stays_in_world(sources: list[Source]) -> list[str]:
    """Only world/ throws dice, and it does so from a seed; secrets are for tokens (MAKES_SECRETS)."""
    others = [each for each in sources if _path_of(each) not in MAKES_SECRETS]
    return _uses(others, RANDOMNESS, "world")


def _uses(sources: list[Source], forbidden: list[str], home: str) -> list[str]:
    return [
        source.at(line, f"{name} belongs in {home} alone")
        for source in sources
        if source.room != home
        for line, name in sorted(set(source.names))
        if any(_touches(name, one) for one in forbidden)
    ]


def _touches(name: str, forbidden: str) -> bool:
    """Whether a dotted name is the forbidden one, lies in it, or is a star import that brings it in."""
    star = name.endswith(".*") and forbidden.startswith(name[:-1])
    return star or name == forbidden or name.startswith(f"{forbidden}.")


def broad_handlers_stay_at_the_edge(sources: list[Source]) -> list[str]:
    """`except Exception` is for outermost loops and request edges, and for what a tick must survive (KEEPS_TRADING)."""
    return [
        source.at(node.lineno, "catches everything: name the errors this code can answer")
        for source in sources
        if source.room != "surfaces"
        if _path_of(source) not in KEEPS_TRADING
        for node in package_source.nodes(source.text)
        if isinstance(node, ast.Call | ast.ExceptHandler) and _catches_everything(node)
    ]


def _catches_everything(node: ast.Call | ast.ExceptHandler) -> bool:
    if isinstance(node, ast.Call):
        # The last part of a dotted name: to write every call as text again takes seconds.
        called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        return called.endswith("suppress") and any(map(_is_broad, node.args))
    # `except BaseException: …; raise` swallows nothing: it is how a transaction is rolled back.
    last = node.body[-1]
    rolls_back = isinstance(node.type, ast.Name) and node.type.id == "BaseException"
    if rolls_back and isinstance(last, ast.Raise) and last.exc is None:
        return False
    return node.type is None or _is_broad(node.type)


def _is_broad(kind: ast.AST) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(map(_is_broad, kind.elts))
    return ast.unparse(kind).rpartition(".")[2] in ("Exception", "BaseException")


def sql_stays_in_sql_files(sources: list[Source]) -> list[str]:
    """Statements live in queries.sql, where they have a name and can be read as SQL."""
    return [
        source.at(node.lineno, "holds SQL: move it to the room's queries.sql")
        for source in sources
        if source.room != "db"
        for node in package_source.nodes(source.text)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
    ]


def sources_are_loaded_by_name(sources: list[Source]) -> list[str]:
    """No file outside a source's folder names it: a second source is a folder, not an edit (SPEAKS_ITS_WIRE_FORMAT)."""
    return [
        source.at(line, f"{name}: load it by its name in the settings")
        for source in sources
        if source.room != "sources"
        if _path_of(source) not in SPEAKS_ITS_WIRE_FORMAT
        for line, name in source.imports
        if re.match(r"tapebook\.sources\.(?!load_sources\b)", name)
    ]


def rooms_say_what_they_do(sources: list[Source]) -> list[str]:
    """The docstring of every room has the lines takes:, gives: and never:."""
    present = {
        source.room: source.root
        for source in sources
        if source.room in ROOMS | {"domain"} | COMPOSERS - {"wiring", "anchors", "tick_memory", "uploads"}
    }
    inits = {source.room: source for source in sources if source.path == source.root / source.room / "__init__.py"}
    findings = [f"{room}/ has no __init__.py" for room in sorted(present.keys() - inits.keys())]
    for source in (inits[room] for room in sorted(present.keys() & inits.keys())):
        doc = ast.get_docstring(package_source.tree(source.text)) or ""
        said = re.findall(r"^(takes|gives|never):\s+\S", doc, re.MULTILINE)
        missing = [word for word in ("takes", "gives", "never") if word not in said]
        findings += [source.at(1, f"docstring has no line {word}:") for word in missing]
    return findings


@dataclass
class Taker:
    """A function or constructor that takes a whole home: the parts it reads, and to whom it hands all of them."""

    name: str
    place: str
    parts: set[str]
    given_to: set[str]


def functions_take_what_they_read(sources: list[Source]) -> list[str]:
    """Who reads at most three parts of `Rooms`, itself and in what it calls, takes these parts."""
    covered = [each for each in sources if each.room in TAKE_WHAT_THEY_READ and _path_of(each) not in NOT_COVERED]
    takers = {taker.name: taker for source in covered for taker in _takers(source)}
    edges = {name: taker.given_to for name, taker in takers.items()}
    findings = []
    for taker in takers.values():
        reached = {taker.name} | _reachable(taker.name, edges)
        # Whoever is not known here may read anything.
        if reached <= takers.keys():
            parts = set[str]().union(*(takers[name].parts for name in reached))
            if len(parts) <= FEW_PARTS:
                findings.append(f"{taker.place} takes Rooms for {', '.join(sorted(parts)) or 'nothing'}")
    return findings


def _path_of(source: Source) -> str:
    return source.path.relative_to(source.root).as_posix()


def _takers(source: Source) -> Iterator[Taker]:
    """The functions and constructors of a file that have a parameter of the type `Rooms`."""
    nodes, known = package_source.nodes(source.text), dict[str, str]()
    module = ".".join(("tapebook", *Path(_path_of(source)).with_suffix("").parts))
    for node in nodes:
        list(_imported(node, "tapebook", known))
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    known |= {node.name: f"{module}.{node.name}" for node in ast.iter_child_nodes(nodes[0]) if isinstance(node, named)}
    owners = {child: node for node in nodes if isinstance(node, ast.ClassDef) for child in node.body}
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None and ast.unparse(argument.annotation) in ("Rooms", "'Rooms'"):
                owner = owners.get(node)
                names = known | ({"self": f"{module}.{owner.name}"} if owner else {})
                is_constructor = owner is not None and node.name == "__init__"
                within = (module, *([owner.name] if owner else []), *([] if is_constructor else [node.name]))
                used = _uses_of_rooms(node, owner, argument.arg, names)
                yield Taker(".".join(within), source.at(node.lineno, within[-1]), *used)


def _uses_of_rooms(
    place: ast.AST, owner: ast.ClassDef | None, name: str, known: dict[str, str]
) -> tuple[set[str], set[str]]:
    """The parts that are read of what is called `name`, and who is given all of it; "?" for what cannot be told."""
    parts, given_to = set[str](), set[str]()
    nodes = list(ast.walk(place))
    left = {node for node in nodes if _written(node) == name and isinstance(getattr(node, "ctx", None), ast.Load)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.value in left:
            parts.add(node.attr)
            left.remove(node.value)
        elif isinstance(node, ast.Call):
            given = left.intersection((*node.args, *(each.value for each in node.keywords)))
            # `partial` hands on its arguments, and so does an optional read, behind a name and a default.
            handed = {"partial": 0, "read": 2, "read_or_default": 2}.get(_written(node.func).rpartition(".")[2])
            called = node.func if not given or handed is None else node.args[handed]
            given_to |= {_dotted(called, known) or "?" for _ in given}
            left -= given
        elif isinstance(node, ast.Assign) and node.value in left and (kept := _written(node.targets[0])).count("."):
            # A constructor that keeps it: what the methods of its class read, it reads.
            left.remove(node.value)
            in_methods = _uses_of_rooms(owner or place, None, kept, known)
            parts, given_to = parts | in_methods[0], given_to | in_methods[1]
    return parts, given_to | ({"?"} if left else set())


def _written(node: ast.AST) -> str:
    """A name, or an attribute of a name, as it is written; empty for what is neither."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


Rule = Callable[[list[Source]], list[str]]

RULES: list[Rule] = [
    imports_follow_the_order,
    no_knots,
    clock_is_read_in_one_file,
    drivers_stay_in_db,
    environment_is_read_in_settings,
    randomness_stays_in_world,
    broad_handlers_stay_at_the_edge,
    sql_stays_in_sql_files,
    sources_are_loaded_by_name,
    rooms_say_what_they_do,
    functions_take_what_they_read,
]

ROOM_DOC = '"""A room.\n\ntakes:  a\ngives:  b\nnever:  c\n"""\n'

READS_FEW = "def g(n, home: Rooms): return home.book, home.clock, home.book"
KEEPS_HOME = """
class C:
    def __init__(self, rooms: Rooms):
        self._rooms = rooms
    def x(self):
        return self._rooms.log
"""

# Each line: the rule, then a tree (file: text) that breaks it.
BREAKS: list[tuple[Rule, dict[str, str]]] = [
    (imports_follow_the_order, {"tape/a.py": "import tapebook.book.trades"}),
    (imports_follow_the_order, {"tape/a.py": "import tapebook.book as b"}),
    (imports_follow_the_order, {"tape/a.py": "from tapebook import book"}),
    (imports_follow_the_order, {"tape/a.py": "from tapebook.book.trades import Trade"}),
    (imports_follow_the_order, {"tape/a.py": "from .. import book"}),
    (imports_follow_the_order, {"sources/a/b.py": "from ...book import trades"}),
    (imports_follow_the_order, {"tape/a.py": "def f():\n    from tapebook.book import trades"}),
    (imports_follow_the_order, {"tape/a.py": "if TYPE_CHECKING:\n    from tapebook import book"}),
    (imports_follow_the_order, {"tape/a.py": "import importlib\nimportlib.import_module('tapebook.book')"}),
    (imports_follow_the_order, {"tape/a.py": "from importlib import import_module as m\nm('tapebook.book')"}),
    (imports_follow_the_order, {"tape/a.py": "import importlib\nimportlib.import_module('.book', 'tapebook')"}),
    (imports_follow_the_order, {"tape/a.py": "import importlib\nimportlib.import_module(f'tapebook.book.{x}')"}),
    (imports_follow_the_order, {"tape/a.py": "__import__('tapebook.book')"}),
    (imports_follow_the_order, {"tape/a.py": "from tapebook import Tapebook"}),
    (imports_follow_the_order, {"tape/a.py": "import tapebook.clock"}),
    (imports_follow_the_order, {"tape/a.py": "import tapebook.shed", "shed.py": ""}),
    (imports_follow_the_order, {"domain/a.py": "import tapebook.errors"}),
    (imports_follow_the_order, {"db/a.py": "import tapebook.log"}),
    (imports_follow_the_order, {"log/a.py": "import tapebook.plug"}),
    (imports_follow_the_order, {"surfaces/cli/a.py": "import tapebook.tick"}),
    (imports_follow_the_order, {"surfaces/cli/a.py": "from tapebook.book import trades"}),
    (imports_follow_the_order, {"settings/a.py": "from tapebook.llm import port"}),
    (imports_follow_the_order, {"llm/a.py": "from tapebook.decision import port"}),
    (imports_follow_the_order, {"llm/a.py": "import tapebook.db"}),
    (imports_follow_the_order, {"shed.py": "from tapebook.archive import port"}),
    (sources_are_loaded_by_name, {"desk/a.py": "from tapebook.sources.kraken import create"}),
    (sources_are_loaded_by_name, {"desk/a.py": "from tapebook.sources import kraken"}),
    (no_knots, {"tick/a.py": "import tapebook.lab", "lab/b.py": "import tapebook.tick"}),
    (
        no_knots,
        {"api/a.py": "import tapebook.wiring", "wiring.py": "import tapebook.lab", "lab/a.py": "from .. import api"},
    ),
    (clock_is_read_in_one_file, {"tape/a.py": "import time\ntime.time()"}),
    (clock_is_read_in_one_file, {"tape/a.py": "import time as t\nf(default=t.monotonic)"}),
    (clock_is_read_in_one_file, {"tape/a.py": "from time import time_ns"}),
    (clock_is_read_in_one_file, {"tape/a.py": "from time import *"}),
    (clock_is_read_in_one_file, {"tape/a.py": "from datetime import datetime as dt\ndt.now()"}),
    (clock_is_read_in_one_file, {"tape/a.py": "import datetime\ndatetime.datetime.utcnow()"}),
    (clock_is_read_in_one_file, {"tape/a.py": "from datetime import date\ndate.today()"}),
    (clock_is_read_in_one_file, {"tape/clock.py": "import time\ntime.perf_counter()"}),
    (drivers_stay_in_db, {"tape/store.py": "import apsw"}),
    (drivers_stay_in_db, {"log/a.py": "from psycopg.rows import dict_row"}),
    (drivers_stay_in_db, {"api/app.py": "import importlib\nimportlib.import_module('sqlite3')"}),
    (environment_is_read_in_settings, {"llm/a.py": "import os\nos.environ['KEY']"}),
    (environment_is_read_in_settings, {"llm/a.py": "from os import environ"}),
    (environment_is_read_in_settings, {"llm/a.py": "import os\nos.getenv('KEY')"}),
    (randomness_stays_in_world, {"tick/a.py": "import random"}),
    (randomness_stays_in_world, {"tick/a.py": "from uuid import uuid4"}),
    (randomness_stays_in_world, {"tick/a.py": "import numpy as np\nnp.random.default_rng()"}),
    (randomness_stays_in_world, {"tick/a.py": "from numpy import random"}),
    (broad_handlers_stay_at_the_edge, {"tape/a.py": "try:\n    f()\nexcept Exception:\n    raise"}),
    (broad_handlers_stay_at_the_edge, {"tape/a.py": "try:\n    f()\nexcept:\n    pass"}),
    (broad_handlers_stay_at_the_edge, {"tape/a.py": "try:\n    f()\nexcept (ValueError, Exception):\n    pass"}),
    (broad_handlers_stay_at_the_edge, {"tape/a.py": "try:\n    f()\nexcept BaseException:\n    pass"}),
    (broad_handlers_stay_at_the_edge, {"tape/a.py": "with contextlib.suppress(Exception):\n    f()"}),
    (sql_stays_in_sql_files, {"tape/store.py": "x = 'SELECT 1'"}),
    (sql_stays_in_sql_files, {"tape/store.py": "x = f'''\n  INSERT INTO {t} VALUES (1)'''"}),
    (sql_stays_in_sql_files, {"log/a.py": "def f(x='CREATE TABLE t (a)'): pass"}),
    (rooms_say_what_they_do, {"tape/__init__.py": '"""A room.\n\ntakes: a\ngives: b\n"""'}),
    (rooms_say_what_they_do, {"tape/__init__.py": ""}),
    (rooms_say_what_they_do, {"tape/store.py": ""}),
    (functions_take_what_they_read, {"desk/a.py": "def f(rooms: Rooms): return rooms.book.head()"}),
    (functions_take_what_they_read, {"desk/a.py": "def f(a, *, all: 'Rooms'): return all.book, all.tape, all.log"}),
    (functions_take_what_they_read, {"desk/a.py": f"def f(rooms: Rooms): g(1, rooms)\n{READS_FEW}"}),
    (functions_take_what_they_read, {"desk/a.py": f"def f(rooms: Rooms): return partial(g, rooms)\n{READS_FEW}"}),
    (functions_take_what_they_read, {"desk/a.py": f"def f(rooms: Rooms): return read('n', 0, g, rooms)\n{READS_FEW}"}),
    (
        functions_take_what_they_read,
        {"desk/a.py": "from tapebook.lab.b import C\ndef f(rooms: Rooms): return C(rooms).x()", "lab/b.py": KEEPS_HOME},
    ),
    (functions_take_what_they_read, {"desk/a.py": "class A:\n    def f(self, rooms: Rooms): return rooms.book"}),
]

# And trees that come close but keep it.
KEEPS: list[tuple[Rule, dict[str, str]]] = [
    (sources_are_loaded_by_name, {"desk/a.py": "from tapebook.sources import load_sources"}),
    (sources_are_loaded_by_name, {"sources/kraken/a.py": "from tapebook.sources.kraken import b"}),
    (imports_follow_the_order, {"tape/a.py": "from tapebook.tape import b\nfrom . import c\nfrom ..domain import d"}),
    (imports_follow_the_order, {"tape/a.py": "from tapebook import db, domain, errors, llm, log, plug\nimport book"}),
    (imports_follow_the_order, {"tick/story.py": "from tapebook import book, tape\nfrom tapebook.llm import port"}),
    (imports_follow_the_order, {"surfaces/cli/a.py": "from tapebook import api, clock, settings, domain, errors"}),
    (no_knots, {"tick/a.py": "import tapebook.tape\nfrom . import b", "tick/b.py": "from . import a", "tape/a.py": ""}),
    (clock_is_read_in_one_file, {"clock.py": "import time\ntime.time()"}),
    (clock_is_read_in_one_file, {"tape/a.py": "import time\ntime.sleep(1)\nself.time.time()\nclock.now()"}),
    (clock_is_read_in_one_file, {"tape/a.py": "from datetime import datetime\ndatetime.fromisoformat(x)"}),
    (drivers_stay_in_db, {"db/sqlite.py": "import apsw"}),
    (
        environment_is_read_in_settings,
        {"settings/config.py": "import os\nos.environ", "tape/a.py": "import os\nos.fsync(1)"},
    ),
    (randomness_stays_in_world, {"world/a.py": "import random", "tape/a.py": "import numpy\nnumpy.array([1])"}),
    (broad_handlers_stay_at_the_edge, {"desk/worker.py": "try:\n    f()\nexcept Exception:\n    pass"}),
    (broad_handlers_stay_at_the_edge, {"surfaces/api/a.py": "try:\n    f()\nexcept Exception:\n    pass"}),
    (broad_handlers_stay_at_the_edge, {"db/a.py": "try:\n    f()\nexcept BaseException:\n    g()\n    raise"}),
    (broad_handlers_stay_at_the_edge, {"tape/a.py": "try:\n    f()\nexcept ValueError:\n    pass"}),
    (sql_stays_in_sql_files, {"db/a.py": "x = 'SELECT 1'", "tape/a.py": "x = 'Select one'\ny = 'UPDATE'"}),
    (rooms_say_what_they_do, {"tape/__init__.py": ROOM_DOC, "surfaces/__init__.py": ""}),
    (functions_take_what_they_read, {"desk/a.py": "def f(book: Book): return book", "world/a.py": READS_FEW}),
    (functions_take_what_they_read, {"desk/a.py": "def f(r: Rooms): return r.book, r.tape, r.log, r.clock"}),
    (
        functions_take_what_they_read,
        {"desk/a.py": "def f(rooms: Rooms): return rooms.tape, rooms.log, g(rooms)\nfrom tapebook.world.a import g"},
    ),
    (functions_take_what_they_read, {"desk/a.py": "def f(rooms: Rooms):\n    with closing(rooms): return rooms.book"}),
    (
        functions_take_what_they_read,
        {"desk/a.py": KEEPS_HOME.replace("self._rooms.log", "g(self._rooms)") + "\nfrom tapebook.world.a import g"},
    ),
]


def plant(root: Path, tree: dict[str, str]) -> list[Source]:
    """Writes a small package and reads it."""
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_package(root)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_keeps_the_rule(rule: Rule) -> None:
    sources = read_package(PACKAGE)
    assert sources, f"no source below {PACKAGE}"
    findings = rule(sources)
    assert not findings, "\n".join([rule.__doc__ or "", *findings])


@pytest.mark.parametrize(("rule", "tree"), BREAKS)
def test_rule_bites(rule: Rule, tree: dict[str, str], tmp_path: Path) -> None:
    assert rule(plant(tmp_path, tree))


@pytest.mark.parametrize(("rule", "tree"), KEEPS)
def test_rule_spares(rule: Rule, tree: dict[str, str], tmp_path: Path) -> None:
    assert rule(plant(tmp_path, tree)) == []


def test_every_rule_is_tried_both_ways() -> None:
    assert {rule for rule, _ in BREAKS} == {rule for rule, _ in KEEPS} == set(RULES)
