"""The desk as processes: one role of it in this process, or all of them below a supervisor."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import msgspec

from tapebook.clock import Clock, elapsed_seconds
from tapebook.config import load
from tapebook.db import Database
from tapebook.errors import HomeError
from tapebook.home import fellow_writer, only_one, process_name, require_home, sole_writer, taken_role
from tapebook.loop.demo import is_demo
from tapebook.loop.home_events import HomeEvent, HomeTotals, HomeWatch
from tapebook.loop.patience import when_database_answers
from tapebook.loop.roles import ROLES, RoleName, RoleProgress, StopSign, serve
from tapebook.loop.stage import clock_for
from tapebook.loop.supervise import SupervisorProgress, Told, supervise
from tapebook.wiring import Rooms

MANY: frozenset[RoleName] = frozenset({"worker"})
"""Roles of which any number may run: leases keep them apart. Of the others, and of ingestion, there is one."""


class Lookout(msgspec.Struct, frozen=True):
    """Who is told what happens in a home while a desk runs: event by event, and the totals of it."""

    show: Callable[[HomeEvent], None]
    totals: HomeTotals


def serve_role(
    home: Path,
    role: RoleName,
    *,
    url: str | None,
    seconds: float | None,
    report: Callable[[RoleProgress], None],
    lookout: Lookout | None = None,
) -> None:
    """Runs one role in this process until it is told to stop."""
    _require_real_time(home)
    end = None if seconds is None else elapsed_seconds() + seconds
    clock = asyncio.run(clock_for(url or load(home).hyperliquid.url))

    def say(line: str) -> None:
        report(RoleProgress(role, "nothing was done", line))

    with fellow_writer(home), _alone(home, role), StopSign() as stop, _watch(home, clock, lookout, say) as check:

        def checked(progress: RoleProgress) -> None:
            check()
            report(progress)

        rooms = when_database_answers(
            lambda: Rooms(home, clock=clock), until=end, stopped=lambda: stop.asked, say=say
        )
        try:
            if role not in MANY:
                claim_role(rooms.book_db, role, owner=rooms.config.owner)
            left = None if end is None else max(0.0, end - elapsed_seconds())
            serve(rooms, role, stop=stop, seconds=left, report=checked)
        finally:
            rooms.close()


def run_desk(
    home: Path,
    *,
    with_ingest: bool,
    url: str | None,
    seconds: float | None,
    told: Told,
    report: Callable[[SupervisorProgress], None],
    lookout: Lookout | None = None,
) -> None:
    """Runs every role in a process of its own until told to stop, or until `seconds` have passed."""
    _require_real_time(home)
    clock = asyncio.run(clock_for(url or load(home).hyperliquid.url))
    shared = ["--home", str(home), *_option("--url", url)]
    # What happens is shown once, here.
    commands: dict[str, Sequence[str]] = {role: _command("up", "--only", role, "--quiet", *shared) for role in ROLES}
    if with_ingest:
        commands["ingest"] = _command("ingest", *shared)
    with only_one(home, "desk"), StopSign() as stop:
        for role in ROLES:
            # Found out here and said once; the role itself holds it, and may be started again.
            with _alone(home, role):
                pass
        if with_ingest:
            with sole_writer(home, "tape"):
                pass
        with _watch(home, clock, lookout, told) as check:

            def checked(progress: SupervisorProgress) -> None:
                check()
                report(progress)

            supervise(commands, stop=stop, told=told, report=checked, seconds=seconds)


@contextmanager
def _watch(
    home: Path, clock: Clock, lookout: Lookout | None, say: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Follows the home for whoever looks out; gives what raises when they cannot be told any more."""
    if lookout is None:
        yield lambda: None
        return
    with HomeWatch(home, clock=clock, show=lookout.show, totals=lookout.totals, say=say) as watch:
        yield watch.check


def claim_role(db: Database, role: str, *, owner: str) -> None:
    """Claims a role in a database that several homes may share; HomeError names the process that has it."""
    other = db.claim(f"{owner}/{role}", holder=f"{role} {process_name()}")
    if other is not None:
        raise HomeError(taken_role(role, "this database", other))


def _alone(home: Path, role: RoleName) -> AbstractContextManager[None]:
    return nullcontext() if role in MANY else only_one(home, role)


def _require_real_time(home: Path) -> None:
    require_home(home)
    if is_demo(home):
        raise HomeError(f"{home} is a demo, which lives in a time of its own: go on with `tapebook demo --home {home}`")


def _command(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "tapebook", *words]


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]
