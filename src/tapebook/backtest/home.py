"""The folder of a backtest: a home of its own, below the home it was asked in.

    backtests/<id>/tapebook.toml   the settings of the parent; the tape and the archive are the parent's
    backtests/<id>/book.db         its own log: decisions, orders, trades, what was learned
    backtests/<id>/plan.json       what was asked
    backtests/<id>/chunks/*.json   a checkpoint for each chunk that is done
    backtests/<id>/speed.json      how many ticks were made in how many seconds
    backtests/<id>/stopped.json    why it stopped before its end, if it did
    backtests/<id>/result.json     the outcome, once all are; summary.md says it in words

So every command reads it like any home: `tapebook trades AGENT --home home/backtests/<id>`.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from tapebook.backtest.plan import BacktestChunk, BacktestPlan
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import write_whole
from tapebook.domain.text import plural, redact_passwords
from tapebook.errors import Damaged, StoreFailed, UnknownName
from tapebook.settings.config import FILE, Config, as_toml

BACKTESTS_FOLDER = "backtests"
_WORK_AGAIN = "delete the file and run the same backtest again: its decisions are in book.db and are not lost"

Value = TypeVar("Value", bound=msgspec.Struct)


class Checkpoint(msgspec.Struct, frozen=True):
    """A chunk that is done: where the log stood then, and what the chunk came to."""

    chunk: BacktestChunk
    seq: int
    head: str
    result: ChunkResult


class BacktestSpeed(msgspec.Struct, frozen=True):
    """How many ticks were made in how many seconds of computing, over all attempts."""

    ticks: int = 0
    seconds: float = 0.0

    @property
    def ticks_per_second(self) -> float | None:
        """The pace; None before anything was made."""
        return round(self.ticks / self.seconds, 1) if self.seconds else None


class StopReason(msgspec.Struct, frozen=True):
    """Why a backtest stopped before its end, and how to go on."""

    reason: str


class _Sealed(msgspec.Struct, frozen=True):
    """A value as it is written, with the hash that shows damage."""

    sha256: str
    value: msgspec.Raw


class BacktestHome:
    """The files of one backtest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def prepare(cls, parent: Path, config: Config, plan: BacktestPlan, *, folder: Path | None = None) -> "BacktestHome":
        """The folder of a plan, or one just as deep in its place, made if it is new."""
        home = cls(folder or parent / BACKTESTS_FOLDER / plan.id)
        if not (home.folder / "plan.json").exists():
            home._write(FILE, as_toml(_backtest_settings(config, plan)).encode())
            home._write("plan.json", _sealed_json(msgspec.structs.replace(plan, stored_id=plan.id)))
        return home

    @property
    def id(self) -> str:
        """The name of the backtest."""
        return self.folder.name

    def plan(self) -> BacktestPlan:
        """What was asked; plans of the first build are named by their folder alone."""
        plan = self._read("plan.json", BacktestPlan, "delete the folder and ask for the backtest again")
        return plan if plan.stored_id else msgspec.structs.replace(plan, stored_id=self.id)

    def checkpoint(self, chunk: BacktestChunk) -> Checkpoint | None:
        """What is kept of a chunk that is done."""
        name = _checkpoint_file(chunk)
        return self._read(name, Checkpoint, _WORK_AGAIN) if (self.folder / name).exists() else None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keeps a chunk that is done."""
        self._write(_checkpoint_file(checkpoint.chunk), _sealed_json(checkpoint))

    def result(self) -> BacktestResult | None:
        """The outcome, or None while there is none."""
        there = (self.folder / "result.json").exists()
        return self._read("result.json", BacktestResult, _WORK_AGAIN) if there else None

    def save_result(self, result: BacktestResult, *, summary: str) -> None:
        """Keeps the outcome, and in words for those who look for it later."""
        self._write("summary.md", summary.encode())
        self._write("result.json", _sealed_json(result))

    def speed(self) -> BacktestSpeed:
        """How fast it went so far; unknown when nobody noted it."""
        there = (self.folder / "speed.json").exists()
        return self._read("speed.json", BacktestSpeed, "delete the file") if there else BacktestSpeed()

    def add_speed(self, ticks: int, seconds: float) -> None:
        """Adds to the ticks made and the time they took."""
        before = self.speed()
        self._write("speed.json", _sealed_json(BacktestSpeed(before.ticks + ticks, before.seconds + seconds)))

    def stop_reason(self) -> str | None:
        """Why it stopped before its end and how to go on; None of one that goes on, was killed, or is done."""
        there = (self.folder / "stopped.json").exists()
        return self._read("stopped.json", StopReason, "delete the file").reason if there else None

    def save_stop_reason(self, reason: str | None) -> None:
        """Notes why it stops, or that it goes on."""
        if reason is None:
            (self.folder / "stopped.json").unlink(missing_ok=True)
        else:
            self._write("stopped.json", _sealed_json(StopReason(reason)))

    def _read(self, name: str, kind: type[Value], remedy: str) -> Value:
        path = self.folder / name
        try:
            sealed = msgspec.json.decode(path.read_bytes(), type=_Sealed)
            if sha256_hex(msgspec.json.format(bytes(sealed.value), indent=-1)) != sealed.sha256:
                raise Damaged(f"{path} is damaged (its hash does not fit): {remedy}")
            return msgspec.json.decode(sealed.value, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Damaged(f"{path} is damaged ({error}): {remedy}") from error
        except FileNotFoundError as error:
            raise UnknownName(f"{path} is missing: {remedy}") from error

    def _write(self, name: str, content: bytes) -> None:
        """Replaces a file, whole or not at all."""
        path = self.folder / name
        try:
            # As durable as the book beside it: a backtest is made again.
            write_whole(path, content, durable=False)
        except OSError as error:
            raise StoreFailed(f"cannot write {path}: {error.strerror}; make room or allow writing") from error


def backtest_homes(parent: Path) -> list[BacktestHome]:
    """Every backtest of a home, by name."""
    folder = parent / BACKTESTS_FOLDER
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [BacktestHome(path) for path in found if (path / "plan.json").is_file()]


def backtest_end(folder: Path) -> int | None:
    """When the backtest of a folder ends; None for the folder of any other home."""
    return BacktestHome(folder).plan().end if (folder / "plan.json").is_file() else None


def backtest_home(parent: Path, name: str) -> BacktestHome:
    """One backtest by its id, or by the beginning of it."""
    homes = backtest_homes(parent)
    fitting = [home for home in homes if home.id.startswith(name)] if name else []
    if len(fitting) != 1:
        known = ", ".join(home.id for home in homes[:8]) or "none yet; `tapebook backtest AGENT` makes one"
        what = f"{name!r} fits {plural(len(fitting), 'backtest')}" if fitting else f"there is no backtest {name!r}"
        raise UnknownName(f"{what}; backtests: {known}")
    return fitting[0]


def _backtest_settings(config: Config, plan: BacktestPlan) -> Config:
    """The parent's settings and the plan's fill rule; books are files, and packets are rebuilt rather than kept."""
    # A password is not copied: whoever opens the backtest finds it in the settings of the parent (`config.load`).
    replace = msgspec.structs.replace
    paper = replace(config.paper, fill=plan.fill)
    tape = config.store.tape
    store = replace(
        config.store, book="book.db", tape=redact_passwords(tape) if "://" in tape else _path_from_backtest(tape)
    )
    archive = replace(
        config.archive,
        place=_path_from_backtest(config.archive.place),
        spool=_path_from_backtest(config.archive.spool),
        packets=False,
    )
    hyperliquid = replace(config.hyperliquid, url=redact_passwords(config.hyperliquid.url))
    return replace(config, paper=paper, store=store, archive=archive, hyperliquid=hyperliquid)


def _path_from_backtest(place: str) -> str:
    return place if "://" in place or Path(place).is_absolute() else f"../../{place}"


def _checkpoint_file(chunk: BacktestChunk) -> str:
    return f"chunks/{chunk.name}.json"


def _sealed_json(value: msgspec.Struct) -> bytes:
    content = msgspec.json.encode(value, order="sorted")
    sealed = _Sealed(sha256_hex(content), msgspec.Raw(content))
    return msgspec.json.format(msgspec.json.encode(sealed), indent=1) + b"\n"
