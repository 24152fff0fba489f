"""What a home holds, for comparing two of them; and what must be true of every one, however it came about."""

import hashlib
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec

from tapebook.api import app
from tapebook.archive import SpooledArchive
from tapebook.archive.archives.folder import FolderArchive
from tapebook.clock import SystemClock, VirtualClock
from tapebook.db import Database, Query, Row, connect
from tapebook.log.event import unpack_body
from tapebook.settings.config import load_config

# Who may write now, and what was anchored when: every process leaves these differently.
NOT_REMAINS = {"schema_migrations", "leases", "log_anchors", "log_anchored"}
TRADES = ("trade_history", "positions", "orders", "fills", "wallet_ledger")

# Facts that may be in the log once: by kind, where their name stands in the body.
_ONCE = {
    "run.decided": ("run", "run_id"),
    "order.intended": ("order", "client_id"),
    "order.placed": ("client_id",),
    "order.ended": ("end", "client_id"),
    "run.ended": ("run_id",),
    "fill.observed": ("fill", "fill_id"),
    "trade.opened": ("trade", "trade_id"),
    "trade.closed": ("trade", "state", "trade_id"),
}

Tables = dict[str, list[Row]]


def tables(home: Path) -> Tables:
    """Every row of every table of both databases, each table in order."""
    found: Tables = {}
    store = load_config(home, {}).store
    for place in (store.book, store.tape):
        with closing(connect(place if "://" in place else str(home / place), create=False)) as db:
            found |= {table: sorted(db.all(Query.whole_table(table)), key=repr) for table in table_names(db)}
    # How a body is packed differs between versions of zlib; what it says does not.
    found["log_events"] = [
        (*row[:7], row[7] if row[9] is None else unpack_body(row[9]), row[8]) for row in found["log_events"]
    ]
    # Before there were kinds, every symbol was a perp.
    found["tape_symbols"] = [row[:2] if row[2:] == ("perp",) else row for row in found["tape_symbols"]]
    return found


def table_names(db: Database) -> list[str]:
    """The tables of a database whose rows two runs must share."""
    kind = "postgres" if db.description.startswith("PostgreSQL") else "sqlite"
    return [row[0] for row in db.all(Query.compile("tables", "", _CATALOGUES[kind])) if row[0] not in NOT_REMAINS]


_CATALOGUES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
    "postgres": "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    " AND table_type = 'BASE TABLE' ORDER BY table_name",
}


def archived(home: Path) -> dict[str, bytes]:
    """Every object that has the key of its content, wherever it lies, and however it is packed there."""
    archive = SpooledArchive(FolderArchive(home / "archive"), home / "spool", now=SystemClock().now)
    found = {key: archive.get(key) or b"" for key in archive.keys("sha256/")}
    archive.close()
    return {f"{key}.z": zlib.compress(content, 1) for key, content in found.items()}


def heads(found: Tables) -> dict[str, str]:
    """The newest hash of every stream."""
    in_order = sorted(found["log_events"], key=lambda row: row[:3])
    return {f"{owner}/{deployment}": digest for owner, deployment, *_, digest in in_order}


def fingerprint(home: Path) -> dict[str, object]:
    """A home in a few lines: its heads, and digests of its packets, its trades, all its rows and its archive."""
    found = tables(home)
    with app.open(home, clock=VirtualClock(0)) as book:
        packets = [(run["run_id"], run["inputs_sha256"], run["packet_sha256"]) for run in book.runs(most=2**31 - 1)]
    return {
        "heads": heads(found),
        "runs": len(packets),
        "trades": len(found["trade_history"]),
        "packets_sha256": digest(packets),
        "trades_sha256": digest([found[table] for table in TRADES]),
        "rows_sha256": digest(found),
        "archive_sha256": digest(archived(home)),
    }


def digest(value: object) -> str:
    """A digest of a value as it prints itself."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


class Remains(msgspec.Struct, frozen=True):
    """Everything a home holds that a second run must hold too."""

    tables: Tables
    archive: dict[str, bytes]
    backtests: dict[str, tuple[Tables, dict[str, bytes]]]

    @classmethod
    def of(cls, home: Path) -> "Remains":
        """What a home holds now."""
        made = {folder.name: folder for folder in sorted(home.glob("backtests/*"))}
        backtests = {name: (tables(folder), backtest_files(folder)) for name, folder in made.items()}
        return cls(tables(home), archived(home), backtests)

    def assert_same_in(self, home: Path) -> None:
        """Another home holds the same, to the last row and byte."""
        now = Remains.of(home)
        assert heads(now.tables) == heads(self.tables)
        assert now.tables.keys() == self.tables.keys()
        for table, rows in self.tables.items():
            assert now.tables[table] == rows, f"{table} differs"
        assert now.archive == self.archive
        assert now.backtests.keys() == self.backtests.keys()
        for name, (rows_by_table, files) in self.backtests.items():
            rows_now, files_now = now.backtests[name]
            assert files_now == files, f"backtest {name} differs"
            for table, rows in rows_by_table.items():
                assert rows_now[table] == rows, f"{table} of backtest {name} differs"


def backtest_files(folder: Path) -> dict[str, bytes]:
    """What a backtest wrote beside its book: its plan, its chunks, its outcome; not how fast it went."""
    written = sorted((*folder.glob("*.json"), *folder.glob("chunks/*.json"), *folder.glob("*.md")))
    return {path.name: path.read_bytes() for path in written if path.name not in ("speed.json", "workspace.json")}


def assert_whole(home: Path) -> None:
    """Nothing contradicts itself, nothing is there twice, and every packet can be rebuilt."""
    with app.open(home, clock=VirtualClock(0)) as book:
        assert book.verify() == []
        replayed = book.replay()
    found = tables(home)
    assert replayed.different == []
    assert replayed.checked == len(found["decision_runs"])
    assert twice(found) == []
    assert cash_gaps(found) == {}


def twice(found: Tables) -> list[tuple[str, str]]:
    """Facts that the log holds more than once, by kind and name."""
    named: Counter[tuple[str, str]] = Counter()
    for row in found["log_events"]:
        kind, body = row[3], msgspec.json.decode(row[7])
        for key in _ONCE.get(kind, ()):
            body = body[key]
        if kind in _ONCE:
            named[kind, body] += 1
    return [name for name, times in named.items() if times > 1]


def cash_gaps(found: Tables) -> dict[str, int]:
    """Deployments whose last balance is not the sum of all that was posted, with the difference."""
    summed: Counter[str] = Counter()
    last: dict[str, int] = {}
    for _, deployment, _, _, _, _, amount, balance, _, is_dry in sorted(found["wallet_ledger"]):
        summed[deployment] += 0 if is_dry else amount
        last[deployment] = balance
    return {deployment: cash - summed[deployment] for deployment, cash in last.items() if cash != summed[deployment]}
