"""Checks archives: reads every object to its end and lists what is missing, torn, altered or misplaced."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from tapebook.archive.port import is_content_key, matches_key
from tapebook.domain.canonical import CONTENT_PREFIX
from tapebook.errors import Damaged, TapebookError

RESTORE_FROM_BACKUP = "restore it from a backup"
_LOOK = "look at it, then move it away"
# Damaged objects that wait for the row that names them, and missing ones that were told already.
_MOST_REMEMBERED = 10_000

ArchiveFindingKind = Literal["missing", "torn", "altered", "misplaced", "unreadable"]


class ArchiveReference(msgspec.Struct, frozen=True):
    """A key that a row names, and which row that is, in words: `packet of run r1`.

    `owner` is whose row it is, empty for the tape, which all owners of a database share.
    """

    key: str
    by: str
    owner: str = ""


class ArchiveFinding(msgspec.Struct, frozen=True):
    """An object that is not as it should be, what is wrong with it in one line, and what names it, if that is known."""

    key: str
    kind: ArchiveFindingKind
    problem: str
    by: str = ""


class ReadableArchive(Protocol):
    """As much of an archive as a check needs."""

    def walk_keys(self) -> Iterator[str]:
        """Every key."""
        ...

    def stray_files(self) -> Iterator[str]:
        """What is no object of any key."""
        ...

    def get(self, key: str) -> bytes | None:
        """An object's bytes; Damaged when it is torn."""
        ...

    def has(self, key: str) -> bool:
        """Whether there is an object."""
        ...


def check_archive(
    archives: Sequence[ReadableArchive],
    referenced: Iterable[ArchiveReference],
    *,
    is_packed: Callable[[str], bool] = lambda key: False,
    progress: Callable[[int], None] = lambda objects: None,
) -> Iterator[ArchiveFinding]:
    """Everything that is wrong with the objects of archives that are read as one, as it is found.

    `is_packed` says of a key that a pack, which is an object of its own, holds it.

    Every object is read once, then every key that a row names is looked for; what is in memory at a time is one object,
    and as many names as something is wrong with, up to some thousands. References may come in any order, and twice.
    """
    damaged: dict[str, ArchiveFinding] = {}
    objects = 0
    for archive in archives:
        for key in archive.walk_keys():
            objects += 1
            found = _damage_of(archive, key)
            if found is not None and len(damaged) < _MOST_REMEMBERED:
                damaged[key] = found
            elif found is not None:
                yield found
            progress(objects)
        for place in archive.stray_files():
            yield ArchiveFinding(place, "misplaced", f"{place} is no object of the archive; {_LOOK}")
    reported: set[str] = set()
    for reference in referenced:
        found = damaged.pop(reference.key, None)
        if found is not None:
            yield msgspec.structs.replace(found, by=reference.by)
        elif reference.key not in reported and not (
            is_packed(reference.key) or any(archive.has(reference.key) for archive in archives)
        ):
            if len(reported) < _MOST_REMEMBERED:
                reported.add(reference.key)
            lost = f"the archive has lost {reference.key}; {RESTORE_FROM_BACKUP}"
            yield ArchiveFinding(reference.key, "missing", lost, reference.by)
    yield from damaged.values()


def _damage_of(archive: ReadableArchive, key: str) -> ArchiveFinding | None:
    """What is wrong with one object."""
    try:
        content = archive.get(key)
    except Damaged as error:
        return ArchiveFinding(key, "torn", str(error))
    except TapebookError as error:
        return ArchiveFinding(key, "unreadable", str(error))
    if content is None:
        # Another process has moved it to where the next archive of the list finds it.
        return None
    if key.startswith(CONTENT_PREFIX) and not is_content_key(key):
        return ArchiveFinding(key, "misplaced", f"no content has the key {key}; {_LOOK}")
    if not matches_key(key, content):
        return ArchiveFinding(key, "altered", f"the bytes of {key} are not what its name says; {RESTORE_FROM_BACKUP}")
    return None
