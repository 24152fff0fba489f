"""Which processes are at work in a home on this machine, and how often a supervisor had to start each again.

A role is at work while its process holds the role's lock: one process at a time, or any number of workers, APIs and
pages, which hold it together. A supervisor keeps a file of its own in the home, `.desk-PID.json`, with what it knows of
its roles. The file is believed while that process holds the lock of supervisors, and deleted when it ends.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tapebook.domain import files
from tapebook.domain.text import plural
from tapebook.domain.units import iso_text
from tapebook.home import lock_holders, presence_lock

# In the order in which they are named, by the lock that each holds.
_ROLE_LOCKS = {role: role for role in ("scheduler", "worker", "executor", "librarian", "backup")} | {
    **{"ingest": "tape", "api": "api", "web": "web"}
}
_SUPERVISOR = "supervisor"


class RoleRecord(msgspec.Struct, frozen=True):
    """One role below a supervisor: its process, None while it is down, and how it ended last, if it had to be again."""

    process: int | None
    restarts: int = 0
    ended_at: int | None = None
    code: int | None = None

    def restarts_text(self) -> str:
        """How often it was started again, and when last, for people; empty for never."""
        if self.ended_at is None:
            return ""
        return f"{plural(self.restarts, 'restart')}, last {iso_text(self.ended_at)[:19]} after code {self.code}"


class RoleAtWork(msgspec.Struct, frozen=True):
    """A role, its process, and what its supervisor knows of it; no process while it waits to be started again."""

    role: str
    process: int | None
    record: RoleRecord | None


@contextmanager
def desk_record(home: Path) -> Iterator[Callable[[Mapping[str, RoleRecord]], None]]:
    """Keeps the roles of this supervisor in a file while it runs; gives what notes them, at no cost without news."""
    path, noted = _record_path(home, os.getpid()), dict[str, RoleRecord]()

    def note(roles: Mapping[str, RoleRecord]) -> None:
        if noted == roles:
            return
        # Only for people to read: a full disk is no reason to end a desk, and the next look tries again.
        with suppress(OSError):
            files.write_whole(path, msgspec.json.encode(roles), durable=False)
            noted.clear()
            noted.update(roles)

    with presence_lock(home, _SUPERVISOR):
        alive = lock_holders(home).get(_SUPERVISOR, [])
        if alive:
            # What killed supervisors left.
            for left in set(home.glob(".desk-*.json")) - {_record_path(home, each) for each in alive}:
                left.unlink(missing_ok=True)
        try:
            yield note
        finally:
            path.unlink(missing_ok=True)


def roles_at_work(home: Path) -> list[RoleAtWork]:
    """Every role that somebody on this machine is at, or that a supervisor is about to start again, in order."""
    held = lock_holders(home)
    records = [each for process in held.get(_SUPERVISOR, []) for each in _read_record(home, process).items()]
    found = []
    for role, lock in _ROLE_LOCKS.items():
        known = [record for name, record in records if name == role]
        of_process = {record.process: record for record in known if record.process is not None}
        # One that is just being started has no lock yet.
        for process in sorted({*held.get(lock, []), *of_process}):
            found.append(RoleAtWork(role, process, of_process.get(process)))
        found += [RoleAtWork(role, None, record) for record in known if record.process is None]
    return found


def role_texts(roles: Sequence[RoleAtWork], agents: Mapping[int, int]) -> list[str]:
    """Each role in words, for people; `agents` says how many of them each process has in hand."""
    texts = []
    for each in roles:
        restarts = each.record.restarts_text() if each.record else ""
        if each.process is None:
            texts.append(f"{each.role} is down and is started again ({restarts})")
            continue
        count = agents.get(each.process, 0)
        of_agents = f" with {plural(count, 'agent')}" if each.role == "worker" and count else ""
        texts.append(f"{each.role} {each.process}{of_agents}" + (f" ({restarts})" if restarts else ""))
    return texts


def _record_path(home: Path, process: int) -> Path:
    return home / f".desk-{process}.json"


def _read_record(home: Path, process: int) -> dict[str, RoleRecord]:
    try:
        return msgspec.json.decode(_record_path(home, process).read_bytes(), type=dict[str, RoleRecord])
    except (OSError, msgspec.DecodeError):
        # It has written none yet, or is just ending.
        return {}
