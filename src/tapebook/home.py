"""A home: the folder that holds one deployment of tapebook, and the locks of those who write in it."""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.domain import files
from tapebook.domain.units import parse_instant
from tapebook.errors import HomeError, StoreFailed
from tapebook.settings.config import FILE, TEMPLATE

DEMO_MARKER = "demo.json"
DEMO_START = parse_instant("2026-01-05T00:00:00Z")
"""When the market of a demo begins."""

# Everything a home is made of.
_HOME_FILES = (
    *(FILE, "*.db", "*.db-wal", "*.db-shm", ".*.lock", DEMO_MARKER, "workspace.json", ".desk-*.json"),
    *("archive", "spool", "backtests", "workspace", ".backup", "deploy", "downloads"),
)


def is_home(path: Path) -> bool:
    """Whether a folder is a home: it has a tapebook.toml."""
    return (path / FILE).is_file()


def is_demo_home(path: Path) -> bool:
    """Whether a home lives in virtual time."""
    return (path / DEMO_MARKER).is_file()


def process_name() -> str:
    """A name for this process that no other has or had, on any machine: who holds a lease."""
    return f"{socket.gethostname()}:{os.getpid()}:{SystemClock().now():x}{int(elapsed_seconds() * 1e9) % 0xFFFFF:05x}"


def local_process(name: str) -> int | None:
    """The process of this machine that has a name of `process_name`; None for one of another machine."""
    host, _, rest = name.partition(":")
    process = rest.partition(":")[0]
    return int(process) if host == socket.gethostname() and process.isdigit() else None


def is_running(process: int) -> bool:
    """Whether a process of this machine runs, whoever owns it."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def require_home(path: Path) -> None:
    """Refuses a folder that is no home, with what to do."""
    if not is_home(path):
        raise HomeError(
            f"no tapebook home at {path}: run `tapebook init --home {path}` or `tapebook demo --home {path}` first, "
            "or name another folder with `home=`"
        )


def make_home(path: Path, *, sources: Sequence[str] = ()) -> None:
    """Creates the folder and its commented settings, with other sources if they are named; a file is left as it is."""
    lines = TEMPLATE.splitlines(keepends=True)
    quoted = ", ".join(f'"{name}"' for name in sources)
    named = f"sources = [{quoted}]\n"
    write_once(path / FILE, "".join(named if sources and line.startswith("sources = ") else line for line in lines))


def write_once(path: Path, text: str) -> None:
    """Writes a file that does not exist yet, whole or not at all; of two writers, the first counts."""
    if path.exists():
        return
    try:
        files.write_whole(path, text.encode(), durable=True, replaces=False)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            return
        raise StoreFailed(
            f"cannot write {path}: {error.strerror}; choose a folder you may write in with `home=`"
        ) from error


def make_home_private(path: Path) -> None:
    """Takes away what others may do in a home, if it is ours; `places_open_to_others` says what is left."""
    for place in _own_places(path):
        if place.is_dir() and files.is_open_to_others(place) and place != path:
            # Once: from then on the folder itself keeps others out.
            for found in files.walk_folder(place):
                files.make_private(found)
        files.make_private(place)


def places_open_to_others(path: Path) -> list[Path]:
    """The home and what lies in it, as far as others may do something with it."""
    return [place for place in _own_places(path) if files.is_open_to_others(place)]


def _own_places(path: Path) -> list[Path]:
    """The home and the files and folders of a home that are there, and nothing else that somebody put beside them."""
    own = [place for pattern in _HOME_FILES for place in sorted(path.glob(pattern)) if not place.is_symlink()]
    return [path, *own]


@contextmanager
def exclusive_lock(path: Path, what: str = "book") -> Iterator[None]:
    """Holds the book or the tape of a home for one process; a process that is killed holds nothing any more."""
    with _file_lock(path, what, fcntl.LOCK_EX):
        yield


@contextmanager
def presence_lock(path: Path, role: str) -> Iterator[None]:
    """Shows in `lock_holders` that this process is at a role of which any number may run; it keeps nobody out."""
    with _file_lock(path, role, fcntl.LOCK_SH):
        yield


@contextmanager
def role_lock(path: Path, role: str) -> Iterator[None]:
    """Holds a role of a home, of which there is one at a time; a process that is killed holds nothing any more."""
    with _file_lock(path, role, fcntl.LOCK_EX, refusal=lambda process: role_taken_message(role, str(path), process)):
        yield


def lock_holders(path: Path) -> dict[str, list[int]]:
    """The locks of a home that somebody on this machine holds, by name, with the processes; empty without /proc."""
    # Read, never tried: a lock that is tried is held for a moment, in which its process could not start.
    listing = Path("/proc/locks")
    if not listing.exists():
        return {}
    rows = [line.split() for line in listing.read_text("ascii").splitlines()]
    held = dict[int, list[int]]()
    for row in rows:
        if row[1] == "FLOCK":
            held.setdefault(int(row[5].rpartition(":")[2]), []).append(int(row[4]))
    files_by_name = {file.name[1:-5]: file.stat().st_ino for file in path.glob(".*.lock")}
    return {name: sorted(held[inode]) for name, inode in sorted(files_by_name.items()) if inode in held}


def role_taken_message(role: str, place: str, holder: str) -> str:
    """What to say to whoever starts a second one."""
    article = "an" if role[0] in "aeiou" else "a"
    return (
        f"there is {article} {role} on {place} already: {holder}; stop it first, or only add workers with "
        "`tapebook up --only worker`"
    )


@contextmanager
def _file_lock(path: Path, what: str, how: int, *, refusal: Callable[[str], str] | None = None) -> Iterator[None]:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with open(os.open(path / f".{what}.lock", flags, files.PRIVATE_FILE), "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            process = f"process {file.read().strip() or '?'}"
            sentence = f"{path} is in use by {process}: stop it, or use another `home=`"
            raise HomeError(refusal(process) if refusal else sentence) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


shared_lock = partial(_file_lock, what="book", how=fcntl.LOCK_SH)
"""Writes in the book of a home beside others who do the same: leases keep them apart, and a single writer waits."""
