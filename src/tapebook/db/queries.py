"""SQL is text with a name and a sentence, in `.sql` files; this loads it.

A file is a list of entries:

    -- name: head
    -- The newest event of a stream.
    SELECT seq, hash FROM log_events WHERE ...

Parameters are written `:name`. Both drivers get them by position, so that one row can be given
by name and many rows as plain tuples. A colon or a percent sign in a literal or a comment is text.
PostgreSQL infers a parameter's type from its use: one that is only asked `IS NULL` needs a CAST.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

_ENTRY = re.compile(r"^-- name: (\w+)\n((?:^--.*\n)*)", re.MULTILINE)
# Literals, quoted names, comments and `::` are matched first, so that what looks like a parameter in them is not one.
_PARAM = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::|:([a-z_][a-z0-9_]*)""")

_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_][a-z0-9_]*)")


class Query(msgspec.Struct, frozen=True):
    """One statement in the shared dialect, compiled for both placeholder styles; `tables` are those it names."""

    name: str
    sentence: str
    params: tuple[str, ...]
    sqlite: str
    postgres: str
    tables: frozenset[str] = frozenset()

    @classmethod
    def compile(cls, name: str, sentence: str, sql: str) -> "Query":
        """Reads `:name` parameters; they may repeat, each use takes a place of its own."""
        params = tuple(found for found in _PARAM.findall(sql) if found)
        marked = _marked(sql, "?"), _marked(sql.replace("%", "%%"), "%s")
        return cls(name, sentence, params, *marked, frozenset(_TABLE.findall(sql)))

    def row(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values in the order the statement takes them; the mapping may hold more than it needs."""
        return tuple(map(params.__getitem__, self.params))

    @classmethod
    def whole_table(cls, table: str) -> "Query":
        """Every row of a table, for comparing two databases."""
        return cls.compile("whole_table", "", f"SELECT * FROM {table}")

    @classmethod
    def empty_table(cls, table: str) -> "Query":
        """Deletes every row of a table, which is then written anew."""
        return cls.compile("empty_table", "", f"DELETE FROM {table}")

    @classmethod
    def insert(cls, table: str, columns: Sequence[str]) -> "Query":
        """Writes rows of a table as they are, values in the order of `columns`."""
        values = ", ".join(f":{column}" for column in columns)
        return cls.compile("insert", "", f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})")

    @classmethod
    def ordered_table(cls, table: str, columns: Sequence[str], *, by: Sequence[str]) -> "Query":
        """Every row of a table in an order, for comparing two databases row by row."""
        return cls.compile("ordered_table", "", f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(by)}")


class Queries:
    """The queries of one file as attributes."""

    def __init__(self, entries: dict[str, Query]) -> None:
        self._entries = entries
        self.__dict__ |= entries

    def __getattr__(self, name: str) -> Query:
        raise AttributeError(f"no query named {name!r}; there are: {', '.join(self._entries)}")

    def __iter__(self) -> Iterator[Query]:
        return iter(self._entries.values())

    @classmethod
    def load(cls, package: str, file: str = "queries.sql", **names: str) -> "Queries":
        """Loads a file that lies beside a package's code; `{table}` and the like in it are filled in from `names`."""
        text = resources.files(package).joinpath(file).read_text("utf-8")
        for name, word in names.items():
            text = text.replace(f"{{{name}}}", word)
        return cls(_parse(text))


def _marked(sql: str, mark: str) -> str:
    return _PARAM.sub(lambda found: mark if found[1] else found[0], sql)


def _parse(text: str) -> dict[str, Query]:
    heads = list(_ENTRY.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    entries: dict[str, Query] = {}
    for head, end in zip(heads, ends, strict=False):
        name, comment = head.group(1), head.group(2)
        if name in entries:
            raise ValueError(f"two queries are named {name!r}: give one of them another name")
        sentence = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
        entries[name] = Query.compile(name, sentence, text[head.end() : end].strip().rstrip(";"))
    return entries
