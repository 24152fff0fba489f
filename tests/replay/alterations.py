"""What can be done to a home behind the back of the log: rows beyond a run's watermarks are changed, removed, added.

Tables and columns are read from the databases, so a table that is new tomorrow is altered too.
Everything happens in a transaction that is rolled back: one home serves any number of examples.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

import msgspec

from tapebook.db import Database
from tapebook.domain.run import DecisionRun
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.replay.home_fingerprint import table_names

Kind = Literal["change", "remove", "add", "finish", "elsewhere"]

# Columns that an event of their own fills in later, with the column that holds its number.
LATER: dict[str, dict[str, tuple[str, ...]]] = {
    "orders": {"placed_seq": ("status", "detail", "updated_at"), "ended_seq": ("status", "detail", "updated_at")},
    "decision_runs": {"ended_seq": ("status", "ended_at")},
    "trade_history": {
        "exit_seq": (
            *("exit_tick_at", "exit_reason", "exit_run_id", "entered_e8", "entered_usd_e6", "exited_e8"),
            *("exited_usd_e6", "realised_usd_e6", "fees_usd_e6", "funding_usd_e6", "mfe_usd_e6", "mae_usd_e6"),
            *("funded_until", "entry_usd_e6", "updated_at"),
        )
    },
}
# Names that may be there once; a row that is added gets another.
NAMES = {
    **{"decision_runs": "run_id", "decision_actions": "run_id", "orders": "client_id", "fills": "fill_id"},
    **{"trade_history": "id", "tape_symbols": "symbol"},
}
# Tables whose rows do not say when they were written, and which of them lie beyond a run.
BEYOND = {
    "agent_versions": "(owner = :owner AND (agent <> :agent OR version > :version))",
    "log_packs": "(owner = :owner AND deployment = :deployment AND first_seq > :book)",
    # What is still to be decided: the desk's own list.
    "work": "(1 = 1)",
    # How much there is by now: no packet may show it.
    "tape_channels": "(1 = 1)",
    # Checksums of what is there by now: no packet is made from them.
    "tape_seals": "(1 = 1)",
    # Not facts but the means to find them.
    "tape_symbols": "(1 = 0)",
    "tape_archived": "(1 = 0)",
    # Answers that were paid for: what a model said is no part of what it is asked.
    "kept_replies": "(1 = 1)",
    # What the layers are: fixed, and told by the code.
    "context_metadata": "(1 = 1)",
    # What is still to be rolled up, and what went wrong: no packet is made from either.
    "tape_unrolled_hours": "(1 = 1)",
    "tape_problems": "(1 = 1)",
    # Where sources go on after a restart.
    "tape_source_progress": "(1 = 1)",
    # Which anchors a restored book has lost: no packet is made from them.
    "log_restores": "(1 = 1)",
    # What writes with a key have appended: no packet is made from it.
    "log_keyed_events": "(1 = 1)",
    # The payloads as they came: no packet is made from them.
    "tape_recordings": "(1 = 1)",
}


class Alteration(msgspec.Struct, frozen=True):
    """One thing done to one table; `by` is added to numbers, `later` to the watermark, `nth` picks the row."""

    kind: Kind
    table: str
    by: int
    later: int
    nth: int


class _Undone(Exception):
    """Rolls a transaction back."""


@contextmanager
def undone(rooms: Rooms) -> Iterator[None]:
    """Everything written inside is gone afterwards."""
    with suppress(_Undone), rooms.book_db.transaction(), rooms.tape_db.transaction():
        yield
        raise _Undone


class Vandal:
    """Alters what a run could not have known; each method returns how many rows it touched."""

    def __init__(self, rooms: Rooms) -> None:
        self._places = {
            table: (db, _columns(db, table)) for db in (rooms.book_db, rooms.tape_db) for table in table_names(db)
        }

        for table, (_, columns) in self._places.items():
            known = table in BEYOND or not {"seq", "entry_seq"}.isdisjoint(columns)
            assert known, f"a row of {table} does not say when it was written: say in BEYOND what a run may know of it"

    @property
    def tables(self) -> list[str]:
        """Every table there is."""
        return sorted(self._places)

    @property
    def filled(self) -> list[str]:
        """Every table with a row in it."""
        return [name for name in self.tables if self._places[name][0].all(sql(f"SELECT 1 FROM {name} LIMIT 1"))]

    def alter(self, run: DecisionRun, change: Alteration) -> int:
        """Does one thing."""
        return {
            "change": self._change,
            "remove": self._remove,
            "add": self._add,
            "finish": self._finish,
            "elsewhere": self._elsewhere,
        }[change.kind](run, change)

    def _change(self, run: DecisionRun, what: Alteration) -> int:
        """Every row beyond the watermark gets other values."""
        values = self._other_values(what.table)
        return self._touch(run, what, f"UPDATE OR IGNORE {{table}} SET {values} WHERE {{beyond}}") if values else 0

    def _remove(self, run: DecisionRun, what: Alteration) -> int:
        """Every row beyond the watermark goes."""
        return self._touch(run, what, "DELETE FROM {table} WHERE {beyond}")

    def _add(self, run: DecisionRun, what: Alteration) -> int:
        """A row the packet may have been made from gets a successor with other values, committed after the run.

        On the tape it is stamped as known before the run half of the time: a row can be stamped before a
        read and committed after it.
        """
        columns = self._places[what.table][1]
        fresh = [self._successor(what.table, name) for name in columns]
        newest = "bucket_ts" if "bucket_ts" in columns else _seq(columns)
        known = f"WHERE NOT {{beyond}} AND {{mine}} ORDER BY {newest} DESC LIMIT 1 OFFSET :nth"
        chosen = f"SELECT {', '.join(fresh)} FROM {{table}} {known}"
        return self._touch(run, what, f"INSERT OR IGNORE INTO {{table}} ({', '.join(columns)}) {chosen}")

    def _finish(self, run: DecisionRun, what: Alteration) -> int:
        """Rows the run knew as unfinished end in another way than they did."""
        touched = 0
        for ended, columns in LATER.get(what.table, {}).items():
            values = ", ".join(f"{name} = {_other(self._places[what.table][1][name], name)}" for name in columns)
            unfinished = f"COALESCE({ended}, {2**62}) > {{until}} AND NOT {{beyond}} AND {{mine}}"
            change = f"UPDATE OR IGNORE {{table}} SET {values}, {ended} = {{until}} + :later WHERE {unfinished}"
            touched += self._touch(run, what, change)
        return touched

    def _elsewhere(self, run: DecisionRun, what: Alteration) -> int:
        """Other deployments' rows, old and new ones, are no part of what a run knew."""
        if "deployment" not in self._places[what.table][1] or what.table == "agent_versions":
            return 0
        other, values = "NOT {mine}", self._other_values(what.table)
        if what.table.startswith("context_"):
            # What the owner writes for all of them is.
            other += " AND (deployment <> '' OR seq > :curated)"
        if what.nth % 2 or not values:
            return self._touch(run, what, f"DELETE FROM {{table}} WHERE {other}")
        return self._touch(run, what, f"UPDATE OR IGNORE {{table}} SET {values} WHERE {other}")

    def _touch(self, run: DecisionRun, what: Alteration, statement: str) -> int:
        db, columns = self._places[what.table]
        until, mine = _until(columns), _mine(what.table, columns)
        text = statement.format(table=what.table, beyond=_beyond(what.table, columns), mine=mine, until=until)
        return len(db.all(sql(f"{text} RETURNING 1"), **_values(run, what)))

    def _other_values(self, table: str) -> str:
        columns = self._places[table][1]
        kept = {*_PLACES, NAMES.get(table, "")}
        changed = {name: kind for name, kind in columns.items() if name not in kept and not name.endswith("seq")}
        return ", ".join(f"{name} = {_other(kind, name)}" for name, kind in changed.items())

    def _successor(self, table: str, name: str) -> str:
        """The value of one column in a row that is added."""
        columns = self._places[table][1]
        if name in ("seq", "entry_seq", "exit_seq", "found_seq"):
            return f"{_until(columns)} + :later"
        if name == NAMES.get(table):
            return f"{name} || '-' || :later"
        if (table, name) == ("trade_history", "status"):
            return "'closed'"
        if name in ("revision", "version") or (table, name) == ("tape_symbols", "symbol_id"):
            return f"{name} + 100 * :later"
        # Either another word on a bar that is there, or a bar between two others.
        moved = {"known_at": ":as_of + :by", "bucket_ts": "bucket_ts - :nth % 2"}
        return moved.get(name, name if name in _PLACES else _other(columns[name], name))


# What says where a row belongs, and is left as it is.
_PLACES = {
    *("owner", "deployment", "symbol", "symbol_id", "venue", "granularity_sec", "chunk", "bucket_ts", "revision"),
    *("source", "channel", "subject", "from_ts", "line", "position", "agent", "version", "trade_id", "id"),
}


def _columns(db: Database, table: str) -> dict[str, str]:
    rows = db.all(sql(f"SELECT name, type FROM pragma_table_info('{table}')"))
    return {row[0]: row[1] for row in rows}


def _seq(columns: dict[str, str]) -> str:
    """The column that says in which event or commit a row was written."""
    return next((name for name in ("seq", "entry_seq", "found_seq") if name in columns), next(iter(columns)))


def _until(columns: dict[str, str]) -> str:
    """How far the run read in the store of a table."""
    return ":book" if "deployment" in columns else ":tape"


def _mine(table: str, columns: dict[str, str]) -> str:
    """The rows a run on this symbol of this deployment is made from."""
    if table == "agent_versions":
        return "agent = :agent"
    if "deployment" in columns:
        return "(owner = :owner AND deployment = :deployment)"
    numbered = "symbol_id = (SELECT symbol_id FROM tape_symbols WHERE symbol = :symbol)"
    return numbered if "symbol_id" in columns else "1 = 1"


def _beyond(table: str, columns: dict[str, str]) -> str:
    """The rows that were written after the run read."""
    if table in BEYOND:
        return BEYOND[table]
    here = _mine(table, columns) if "deployment" in columns else "1 = 1"
    return f"({here} AND {_seq(columns)} > {_until(columns)})"


def _other(kind: str, name: str) -> str:
    """A value that differs from the one a column has."""
    if kind == "TEXT":
        return f"COALESCE({name}, '') || 'x' || :by"
    if kind == "DOUBLE PRECISION":
        return f"{name} * 3 + 1 + :by"
    return f"COALESCE({name}, 0) + 1000 * :by"


def _values(run: DecisionRun, what: Alteration) -> dict[str, Any]:
    return {
        "owner": run.owner,
        "deployment": run.deployment,
        "agent": run.agent,
        "version": run.agent_version,
        "symbol": run.symbol,
        "as_of": run.as_of,
        "tape": run.watermarks.tape,
        "book": run.watermarks.book,
        "curated": run.watermarks.curated,
        "by": what.by,
        "later": what.later,
        "nth": what.nth,
    }
