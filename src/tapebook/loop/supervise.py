"""Runs the roles of the desk as processes: starts them, starts them again when they die, and stops them all.

How a child ends says what follows, by the codes of `errors`:

- 0: it is done, and stays so;
- 2: something must be changed first: at its first start, or several times in a row, that ends them all;
- 3: a person has to look: that ends them all;
- anything else: it is started again, later each time, as long as there is time left.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.errors import Fix, Retry, Stop, TapebookError
from tapebook.loop.listen import UNHEARD
from tapebook.loop.patience import DATABASE_AWAY, DATABASE_BACK
from tapebook.loop.roles import StopSign

_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A child that lived this long was well: its next death begins a new count.
_HEALTHY_SECONDS = 60.0
# Longer than a worker waits for its answers; who does not leave by then is killed, which loses nothing.
_LEAVE_SECONDS = 15.0
_LAST_WORDS_SECONDS = 1.0
# Children know when their time is over, and get so long to leave by themselves before they are told to.
_OVERTIME_SECONDS = 5.0
# A child that is to live for less is not started again.
_SHORTEST_LIFE_SECONDS = 0.1
# A world that is just being started again looks like a wrong address.
_MOST_REFUSALS = 5

Told = Callable[[str], None]


class _Child:
    """One role: its process now, and when it may be started again."""

    def __init__(
        self, name: str, command: Sequence[str], *, told: Callable[[str, str], None], end: float | None = None
    ) -> None:
        self.name = name
        self.restarts = 0
        self.refusals = 0
        self.code: int | None = None
        self._command = command
        self._told = told
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
        self._ear = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
        self._ear.start()

    def ended(self) -> int | None:
        """The code it ended with, once; None while it runs. It may start again after a pause."""
        code = self.process.poll() if self.process else None
        if code is None:
            return None
        self._hear_out()
        self.code = code
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

    def leave(self, *, until: float) -> None:
        """Waits for it to leave, and kills it if it does not."""
        if self.process is None:
            return
        try:
            self.process.wait(timeout=max(0.1, until - elapsed_seconds()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._hear_out()

    def _hear_out(self) -> None:
        """Takes in the last words of a process that has ended."""
        if self._ear is not None:
            # Whatever it has started itself may keep the line open.
            self._ear.join(_LAST_WORDS_SECONDS)
        self.process = self._ear = None

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr
        with process.stderr as lines:
            for line in lines:
                self._told(self.name, line.rstrip())


class SupervisorProgress(msgspec.Struct, frozen=True):
    """What each role said last, and how often one had to be started again."""

    said: dict[str, str]
    restarts: int


class _Outages:
    """Says once for all roles that the database is away, and once that it is back for all; the tape says the rest."""

    def __init__(self) -> None:
        self._away: set[str] = set()

    def is_news(self, role: str, line: str) -> bool:
        """Whether a line of a role is to be passed on."""
        said = line.removeprefix("warning: ")
        if said.startswith(UNHEARD):
            # The tape has it too, and whoever watches the home reads it there.
            return False
        if said.startswith(DATABASE_AWAY):
            self._away.add(role)
            return len(self._away) == 1
        return not said.startswith(DATABASE_BACK) or self.is_last(role)

    def is_last(self, role: str) -> bool:
        """Forgets a role; whether no other is without the database."""
        self._away.discard(role)
        return not self._away


def supervise(
    commands: Mapping[str, Sequence[str]],
    *,
    stop: StopSign,
    told: Told,
    report: Callable[[SupervisorProgress], None],
    seconds: float | None = None,
) -> None:
    """Runs the commands until all have ended by themselves, a stop is asked for, or `seconds` have passed.

    With `seconds`, each command is started with the option `--seconds` and what is left of them.
    A child that dies is started again, later each time; see above for those that end them all.
    """
    said: dict[str, str] = {}
    outages, is_over = _Outages(), False

    def listen(name: str, line: str) -> None:
        # What a role says of its progress begins with its name; everything else is for people to see.
        if line.startswith(f"{name} "):
            said[name] = line.removeprefix(name).strip()
        elif is_over and line.startswith("stopped; "):
            # What a command says on Ctrl-C, and here it was not asked by a person.
            return
        elif line and outages.is_news(name, line):
            told(f"{name}: {line}")

    end = None if seconds is None else elapsed_seconds() + seconds
    children = [_Child(name, command, told=listen, end=end) for name, command in commands.items()]
    running = list(children)
    try:
        while running and not stop.asked and (end is None or elapsed_seconds() < end + _OVERTIME_SECONDS):
            over = end is not None and elapsed_seconds() > end - _SHORTEST_LIFE_SECONDS
            running = [child for child in running if _is_needed(child, told, outages, over=over)]
            report(SupervisorProgress(said, sum(child.restarts for child in children)))
            time.sleep(_LOOK_SECONDS)
    finally:
        is_over = True
        _stop_all(children)
    failed = [] if stop.asked else [child for child in children if child.code]
    for child in failed[:1]:
        kind = Retry if child.code == Retry.exit_code else TapebookError
        raise kind(f"the {child.name} could not do its work until the end (code {child.code}, see above)")


def _is_needed(child: _Child, told: Told, outages: _Outages, *, over: bool) -> bool:
    """Whether a child is needed any longer; starts it, or starts it again. Raises what ends them all."""
    code = child.ended()
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
        told(f"{child.name} ended with code {code}; it is started again")
    child.start_if_due()
    return True


def _stop_all(children: Sequence[_Child]) -> None:
    for child in children:
        child.stop()
    until = elapsed_seconds() + _LEAVE_SECONDS
    for child in children:
        child.leave(until=until)
