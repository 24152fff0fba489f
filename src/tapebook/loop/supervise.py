"""Runs the roles of the desk as processes: starts them, starts them again when they die, and stops them all."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.errors import Stop
from tapebook.loop.roles import StopSign

_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A child that lived this long was well: its next death begins a new count.
_HEALTHY_SECONDS = 60.0
# Longer than a worker waits for its answers; who does not leave by then is killed, which loses nothing.
_LEAVE_SECONDS = 15.0
_LAST_WORDS_SECONDS = 1.0

Told = Callable[[str], None]


class _Child:
    """One role: its process now, and when it may be started again."""

    def __init__(self, name: str, command: Sequence[str], *, told: Callable[[str, str], None]) -> None:
        self.name = name
        self.restarts = 0
        self._command = command
        self._told = told
        self._pause = _FIRST_PAUSE_SECONDS
        self._start_at = 0.0
        self._started_at = 0.0
        self._ear: threading.Thread | None = None
        self.process: subprocess.Popen[str] | None = None

    def start_if_due(self) -> None:
        """Starts it, unless it runs or is to wait."""
        if self.process is not None or elapsed_seconds() < self._start_at:
            return
        # In a session of its own: Ctrl-C reaches the supervisor alone, which stops them in its own order.
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
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
        lived = elapsed_seconds() - self._started_at
        self._pause = _FIRST_PAUSE_SECONDS if lived > _HEALTHY_SECONDS else self._pause
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


def supervise(
    commands: Mapping[str, Sequence[str]], *, stop: StopSign, told: Told, report: Callable[[SupervisorProgress], None]
) -> None:
    """Runs the commands until all have ended by themselves or a stop is asked for.

    A child that dies is started again, later each time; one that needs a person (Stop) ends them all.
    """
    said: dict[str, str] = {}

    def listen(name: str, line: str) -> None:
        # What a role says of its progress begins with its name; everything else is for people to see.
        if line.startswith(f"{name} "):
            said[name] = line.removeprefix(name).strip()
        elif line:
            told(f"{name}: {line}")

    children = [_Child(name, command, told=listen) for name, command in commands.items()]
    running = list(children)
    try:
        while running and not stop.asked:
            running = [child for child in running if _looked_after(child, told)]
            report(SupervisorProgress(said, sum(child.restarts for child in children)))
            time.sleep(_LOOK_SECONDS)
    finally:
        _stop_all(children)


def _looked_after(child: _Child, told: Told) -> bool:
    """Whether a child is still needed; starts it, or starts it again."""
    code = child.ended()
    if code == 0:
        return False
    if code == Stop.exit_code:
        raise Stop(f"the {child.name} needs a person to look (see above); everything was stopped")
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
