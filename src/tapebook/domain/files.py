"""Files of a home: private to their owner, written whole, and on the disk before anything depends on them.

A file survives a power cut once its content is synced and so is the folder that names it, and every folder above that
was made for it. Whoever may lose the newest of what they wrote, such as a backtest, passes `durable=False`.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# What a folder answers that cannot be synced at all, as on some network drives: there is nothing more to be done.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP)
# Measured on ext4: four are three times as fast as one, and more are no faster.
_SYNCS_AT_ONCE = 4


def sync_file(path: str | Path) -> None:
    """Waits until a file's content is on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: str | Path) -> None:
    """Waits until the names in a folder are on the disk."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def sync_all(paths: Iterable[str]) -> None:
    """Waits until files and folders are on the disk, at once: file systems take several waits together."""
    places = list(paths)
    if len(places) < 2:
        for path in places:
            sync_folder(path)
        return
    with ThreadPoolExecutor(min(len(places), _SYNCS_AT_ONCE)) as pool:
        list(pool.map(sync_folder, places))


def make_folders(path: str | Path, *, durable: bool) -> None:
    """Makes a folder and those above it that are missing, for their owner alone."""
    missing = [Path(path)]
    while not missing[-1].is_dir() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    # The last is there, or cannot be; `exist_ok`, since another process may be making the same.
    for folder in reversed(missing[:-1]):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        if durable:
            sync_folder(folder.parent)


def write_private(path: str | Path, content: bytes, *, durable: bool) -> None:
    """Writes a file for its owner alone; its name is not synced yet, see `sync_folder`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    with open(handle, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(handle)


def private_opener(path: str, flags: int) -> int:
    """Opens a file that is for its owner alone if it is new: the `opener` of `open`."""
    return os.open(path, flags, PRIVATE_FILE)


@contextmanager
def atomic_place(path: Path, *, replaces: bool = True) -> Iterator[Path]:
    """The name of a file to write, which takes the place of `path` when it is whole; on any error nothing is left.

    Without `replaces` it takes no other file's place: FileExistsError when there is one by then.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        yield beside
        # A link, unlike a rename, never takes the place of what is there.
        (os.replace if replaces else os.link)(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, durable: bool, replaces: bool = True) -> None:
    """Puts a file in place, whole or not at all; its folder is made if it is missing."""
    make_folders(path.parent, durable=durable)
    with atomic_place(path, replaces=replaces) as beside:
        write_private(beside, content, durable=durable)
    if durable:
        sync_folder(path.parent)


def make_private(path: str | Path) -> bool:
    """Takes away what others may do with a file or folder; False when it is still open to them."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) or not found.st_mode & _OTHERS:
            return True
        if found.st_uid != os.geteuid():
            return False
        os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except FileNotFoundError:
        # A database was closed meanwhile, and its log is gone.
        return True
    except OSError:
        # A disk that is read only, or keeps no modes: `doctor` names what is open.
        return False
    return True


def is_open_to_others(path: str | Path) -> bool:
    """Whether somebody else may do anything with a file or folder."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & _OTHERS)


def walk_folder(folder: Path) -> Iterator[Path]:
    """Everything below a folder, links not followed, folder by folder."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            yield Path(place, name)
