"""Runs the desk as processes: one role in this process (`serve_role`), or all below a supervisor (`run_desk`).

`supervise_processes` starts the roles, starts them again when they die, and stops them all. The exit code of a child
says what follows, by the codes of `errors`:

- 0: it is done, and stays so;
- 2: something must be changed first: at its first start, or several times in a row, that ends them all;
- 3: a person has to look: that ends them all;
- anything else: it is started again, later each time, as long as there is time left.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import msgspec

from tapebook.clock import Clock, SystemClock, elapsed_seconds
from tapebook.database_wait import DATABASE_AWAY, DATABASE_BACK, when_database_answers
from tapebook.db import Database
from tapebook.desk.home_events import HomeEvent, HomeTotals, HomeWatch
from tapebook.desk.processes import RoleRecord, desk_record
from tapebook.desk.roles import ROLES, RoleName, RoleProgress, StopSignal, run_role
from tapebook.errors import Fix, HomeError, Retry, RoleLost, Stop, TapebookError
from tapebook.home import (
    exclusive_lock,
    is_demo_home,
    presence_lock,
    process_name,
    require_home,
    role_lock,
    shared_lock,
)
from tapebook.ingest.live import clock_address
from tapebook.ingest.world_process import clock_of_source
from tapebook.settings.config import load_config
from tapebook.settings.logs import is_logging, log_problems, log_words, relay_log_line
from tapebook.tape.source import NO_CONNECTION
from tapebook.wiring import Rooms

_POLL_SECONDS = 0.1
# A child that dies at once is started again at once, then ever later: it may be waiting for a disk or a network.
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A child that lived this long was well: its next death begins a new count.
_HEALTHY_SECONDS = 60.0
# Longer than a worker waits for its answers; who does not leave by then is killed, which loses nothing.
_LEAVE_SECONDS = 15.0
# What a child printed before it died is read for so long.
_LAST_WORDS_SECONDS = 1.0
# Children know when their time is over, and get so long to leave by themselves before they are told to.
_OVERTIME_SECONDS = 5.0
# A child that is to live for less is not started again.
_SHORTEST_LIFE_SECONDS = 0.1
# A world that is just being started again looks like a wrong address.
_MOST_REFUSALS = 5

PrintLine = Callable[[str], None]
_LOG = logging.getLogger("tapebook.desk")


class _RoleProcess:
    """One role: its process now, and when it may be started again."""

    def __init__(
        self, name: str, command: Sequence[str], *, on_line: Callable[[str, str], None], end: float | None = None
    ) -> None:
        self.name = name
        self.restarts = 0
        self.refusals = 0
        self.code: int | None = None
        self.ended_at: int | None = None
        self._command = command
        self._on_line = on_line
        self._end = end
        self._pause = _FIRST_PAUSE_SECONDS
        self._start_at = 0.0
        self._started_at = 0.0
        self._ear: threading.Thread | None = None
        self.process: subprocess.Popen[str] | None = None

    def start_if_due(self) -> None:
        """Starts it, unless it runs or is to wait; it gets the time that is left."""
        if self.process is not None or elapsed_seconds() < self._start_at:
            return
        seconds = None if self._end is None else max(_SHORTEST_LIFE_SECONDS, self._end - elapsed_seconds())
        left = [] if seconds is None else ["--seconds", f"{seconds:.3f}"]
        # In a session of its own: Ctrl-C reaches the supervisor alone, which stops them in its own order.
        self.process = subprocess.Popen(
            [*self._command, *left],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started_at = elapsed_seconds()
        self._ear = threading.Thread(target=self._read_lines, args=(self.process,), daemon=True)
        self._ear.start()

    def record(self) -> RoleRecord:
        """What is known of it."""
        return RoleRecord(self.process.pid if self.process else None, self.restarts, self.ended_at, self.code)

    def exit_code(self) -> int | None:
        """The code it ended with, once; None while it runs. It may start again after a pause."""
        code = self.process.poll() if self.process else None
        if code is None:
            return None
        self._read_last_lines()
        self.code, self.ended_at = code, SystemClock().now()
        if elapsed_seconds() - self._started_at > _HEALTHY_SECONDS:
            self._pause, self.refusals = _FIRST_PAUSE_SECONDS, 0
        self._start_at = elapsed_seconds() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        return code

    def stop(self) -> None:
        """Asks it to leave."""
        if self.process is not None:
            # Ingestion commits what it has on Ctrl-C; the roles take either signal.
            self.process.send_signal(signal.SIGINT)

    def wait_or_kill(self, *, until: float) -> None:
        """Waits for it to leave, and kills it if it does not."""
        if self.process is None:
            return
        try:
            self.process.wait(timeout=max(0.1, until - elapsed_seconds()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._read_last_lines()

    def _read_last_lines(self) -> None:
        """Takes in the last words of a process that has ended."""
        if self._ear is not None:
            # Whatever it has started itself may keep the line open.
            self._ear.join(_LAST_WORDS_SECONDS)
        self.process = self._ear = None

    def _read_lines(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr
        with process.stderr as lines:
            for line in lines:
                self._on_line(self.name, line.rstrip())


class SupervisorProgress(msgspec.Struct, frozen=True):
    """What each role said last, how often one had to be started again, and each role that has not ended for good."""

    said: dict[str, str]
    restarts: int
    roles: dict[str, RoleRecord] = {}


class _DatabaseOutages:
    """Says once for all roles that the database is away, and once that it is back for all; the tape says the rest."""

    def __init__(self) -> None:
        self._away: set[str] = set()

    def is_news(self, role: str, line: str) -> bool:
        """Whether a line of a role is to be passed on."""
        text = line.removeprefix("warning: ")
        if text.startswith(NO_CONNECTION):
            # The tape has it too, and whoever watches the home reads it there.
            return False
        if text.startswith(DATABASE_AWAY):
            self._away.add(role)
            return len(self._away) == 1
        return not text.startswith(DATABASE_BACK) or self.is_last(role)

    def is_last(self, role: str) -> bool:
        """Forgets a role; whether no other is without the database."""
        self._away.discard(role)
        return not self._away


def supervise_processes(
    commands: Mapping[str, Sequence[str]],
    *,
    stop: StopSignal,
    print_line: PrintLine,
    report: Callable[[SupervisorProgress], None],
    seconds: float | None = None,
) -> None:
    """Runs the commands until all have ended by themselves, a stop is asked for, or `seconds` have passed.

    With `seconds`, each command is started with the option `--seconds` and what is left of them.
    A child that dies is started again, later each time; see above for those that end them all.
    """
    last_line: dict[str, str] = {}
    outages, is_over = _DatabaseOutages(), False

    def listen(name: str, line: str) -> None:
        # What a role says of its progress begins with its name; everything else is for people to see.
        if relay_log_line(line):
            return
        if line.startswith(f"{name} "):
            last_line[name] = line.removeprefix(name).strip()
        elif is_over and line.startswith("stopped; "):
            # What a command says on Ctrl-C, and here it was not asked by a person.
            return
        elif line and outages.is_news(name, line):
            print_line(f"{name}: {line}")

    end = None if seconds is None else elapsed_seconds() + seconds
    children = [_RoleProcess(name, command, on_line=listen, end=end) for name, command in commands.items()]
    running = list(children)
    try:
        while running and not stop.asked and (end is None or elapsed_seconds() < end + _OVERTIME_SECONDS):
            over = end is not None and elapsed_seconds() > end - _SHORTEST_LIFE_SECONDS
            running = [child for child in running if _is_needed(child, print_line, outages, over=over)]
            roles = {child.name: child.record() for child in running}
            report(SupervisorProgress(last_line, sum(child.restarts for child in children), roles))
            time.sleep(_POLL_SECONDS)
    finally:
        is_over = True
        _stop_processes(children)
    failed = [] if stop.asked else [child for child in children if child.code]
    for child in failed[:1]:
        kind = Retry if child.code == Retry.exit_code else TapebookError
        raise kind(f"the {child.name} could not do its work until the end (code {child.code}, see above)")


def _is_needed(child: _RoleProcess, print_line: PrintLine, outages: _DatabaseOutages, *, over: bool) -> bool:
    """Whether a child is needed any longer; starts it, or starts it again. Raises what ends them all."""
    code = child.exit_code()
    if code is not None:
        outages.is_last(child.name)
    if code == 0 or (over and child.process is None):
        return False
    if code == Stop.exit_code:
        raise Stop(f"the {child.name} needs a person to look (see above); everything was stopped")
    child.refusals += code == Fix.exit_code
    if code == Fix.exit_code and (not child.restarts or child.refusals >= _MOST_REFUSALS):
        raise Fix(f"the {child.name} cannot run as things are (see above); everything was stopped")
    if code is not None:
        child.restarts += 1
        _LOG.warning("role ended", extra={"fields": {"role": child.name, "code": code, "restarts": child.restarts}})
        print_line(f"{child.name} ended with code {code}; it is started again")
    child.start_if_due()
    return True


def _stop_processes(children: Sequence[_RoleProcess]) -> None:
    for child in children:
        child.stop()
    until = elapsed_seconds() + _LEAVE_SECONDS
    for child in children:
        child.wait_or_kill(until=until)


REPEATABLE_ROLES: frozenset[RoleName] = frozenset({"worker"})
"""Roles of which any number may run: leases keep them apart. Of the others, and of ingestion, there is one."""


class HomeObserver(msgspec.Struct, frozen=True):
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
    lookout: HomeObserver | None = None,
) -> None:
    """Runs one role in this process until it is told to stop."""
    _require_real_time(home)
    report = log_problems(_LOG, report, role=role)
    end = None if seconds is None else elapsed_seconds() + seconds
    clock = asyncio.run(clock_of_source(clock_address(load_config(home), url)))

    def report_wait(line: str) -> None:
        report(RoleProgress(role, "nothing was done", line))

    with (
        shared_lock(home),
        _role_lock(home, role),
        StopSignal() as stop,
        _observe_home(home, clock, lookout, report_wait) as check,
    ):

        def check_and_report(progress: RoleProgress) -> None:
            check()
            report(progress)

        def run_until_lost(rooms: Rooms) -> None:
            # Of two schedulers of one book on two machines one stands by; any number of workers may share it.
            if role in REPEATABLE_ROLES or await_role(
                rooms.book_db, role, owner=rooms.config.owner, until=end, stopped=lambda: stop.asked, report=report_wait
            ):
                left = None if end is None else max(0.0, end - elapsed_seconds())
                run_role(rooms, role, stop=stop, seconds=left, report=check_and_report)

        open_rooms = partial(
            when_database_answers,
            lambda: Rooms(home, clock=clock),
            until=end,
            stopped=lambda: stop.asked,
            report=report_wait,
        )
        while is_role_lost(open_rooms, run_until_lost):
            report_wait(f"another {role} has taken over: standing by")


def run_desk(
    home: Path,
    *,
    only: Sequence[RoleName] | None = None,
    with_ingest: bool,
    api_port: int | None = None,
    web_port: int | None = None,
    url: str | None,
    seconds: float | None,
    print_line: PrintLine,
    report: Callable[[SupervisorProgress], None],
    lookout: HomeObserver | None = None,
) -> None:
    """Runs every role, or some, as processes until told to stop or time is over; API and page if they have a port."""
    _require_real_time(home)
    config = load_config(home)
    clock = asyncio.run(clock_of_source(clock_address(config, url)))
    roles: Sequence[RoleName] = only or ((*ROLES, "backup") if config.backup.place else ROLES)
    shared = ["--home", str(home), *_option_words("--url", url)]
    if lookout is None and is_logging():
        # What the log of the book says is logged here also when nobody looks on; the roles log what is theirs.
        lookout = HomeObserver(lambda event: None, HomeTotals())
    # What happens is shown once, here.
    commands: dict[str, Sequence[str]] = {
        role: _tapebook_command("up", "--only", role, "--quiet", *shared) for role in roles
    }
    if with_ingest:
        commands["ingest"] = _tapebook_command("ingest", *shared)
    for server, port in (("api", api_port), ("web", web_port)):
        if port is not None:
            # It has nothing to say while it serves, so no broken pipe tells it that a desk was killed: it looks.
            ends = ["--parent", str(os.getpid())]
            commands[server] = _tapebook_command(server, "--home", str(home), "--port", str(port), *ends)
    # Several may run a part each: the roles themselves see to it that no two are the same.
    whole = nullcontext() if only else role_lock(home, "desk")
    with whole, StopSignal() as stop:
        for role in roles:
            # Found out here and said once; the role itself holds it, and may be started again.
            with _role_lock(home, role):
                pass
        if with_ingest:
            with exclusive_lock(home, "tape"):
                pass
        with _observe_home(home, clock, lookout, print_line) as check, desk_record(home) as note_roles:

            def check_and_report(progress: SupervisorProgress) -> None:
                check()
                note_roles(progress.roles)
                report(progress)

            supervise_processes(commands, stop=stop, print_line=print_line, report=check_and_report, seconds=seconds)


@contextmanager
def _observe_home(
    home: Path, clock: Clock, lookout: HomeObserver | None, print_line: PrintLine
) -> Iterator[Callable[[], None]]:
    """Follows the home for whoever looks out; gives what raises when they cannot be told any more."""
    if lookout is None:
        yield lambda: None
        return
    with HomeWatch(home, clock=clock, show=lookout.show, totals=lookout.totals, print_line=print_line) as watch:
        yield watch.raise_if_failed


def await_role(
    db: Database,
    role: str,
    *,
    owner: str,
    until: float | None,
    stopped: Callable[[], bool],
    report: Callable[[str], None],
) -> bool:
    """Claims a role in a database that several machines share, and stands by while another process has it.

    The claim ends with the session of whoever has it, however that ends. False when the time is over, or a stop was
    asked for, before it was free.
    """
    name, holder, waited = f"{owner}/{role}", f"{role} {process_name()}", False
    while not stopped():
        other = when_database_answers(
            lambda: db.claim(name, holder=holder), until=until, stopped=stopped, report=report
        )
        if other is None:
            if waited:
                report(f"{role} takes over")
            return True
        waited = True
        report(f"standing by: {other} runs as {role} on this database")
        if until is not None and elapsed_seconds() >= until:
            return False
    return False


def is_role_lost(open_rooms: Callable[[], Rooms], run: Callable[[Rooms], None]) -> bool:
    """Runs a role on rooms of its own; True when another process took the role over while the database was away."""
    rooms = open_rooms()
    try:
        run(rooms)
    except RoleLost:
        return True
    finally:
        rooms.close()
    return False


def _role_lock(home: Path, role: RoleName) -> AbstractContextManager[None]:
    return presence_lock(home, role) if role in REPEATABLE_ROLES else role_lock(home, role)


def _require_real_time(home: Path) -> None:
    require_home(home)
    if is_demo_home(home):
        raise HomeError(f"{home} is a demo, which lives in a time of its own: go on with `tapebook demo --home {home}`")


def _tapebook_command(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "tapebook", *log_words(), *words]


def _option_words(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]
