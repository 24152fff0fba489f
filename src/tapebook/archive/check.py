"""Reads an archive to its end and says what is not as it should be: missing, torn, altered or misplaced."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from tapebook.archive.port import CONTENT, Archive, fits_key, is_content_key
from tapebook.errors import Damaged, TapebookError

_BACKUP = "restore it from a backup"
_LOOK = "look at it, then move it away"
# Damaged objects that wait for the row that names them, and missing ones that were told already.
_REMEMBERED = 10_000

Kind = Literal["missing", "torn", "altered", "misplaced", "unreadable"]


class Reference(msgspec.Struct, frozen=True):
    """A key that a row names, and which row that is, in words: `packet of run r1`."""

    key: str
    by: str


class ArchiveFinding(msgspec.Struct, frozen=True):
    """An object that is not as it should be, what is wrong with it in one line, and what names it, if that is known."""

    key: str
    kind: Kind
    problem: str
    by: str = ""


def check_archive(
    archives: Sequence[Archive],
    referenced: Iterable[Reference],
    *,
    progress: Callable[[int], None] = lambda objects: None,
) -> Iterator[ArchiveFinding]:
    """Everything that is wrong with the objects of archives that are read as one, as it is found.

    Every object is read once, then every key that a row names is looked for; what is in memory at a time is one object,
    and as many names as something is wrong with, up to some thousands. References may come in any order, and twice.
    """
    damaged: dict[str, ArchiveFinding] = {}
    objects = 0
    for archive in archives:
        for key in archive.walk():
            objects += 1
            found = _damage(archive, key)
            if found is not None and len(damaged) < _REMEMBERED:
                damaged[key] = found
            elif found is not None:
                yield found
            progress(objects)
        for place in archive.strays():
            yield ArchiveFinding(place, "misplaced", f"{place} is no object of the archive; {_LOOK}")
    told: set[str] = set()
    for reference in referenced:
        found = damaged.pop(reference.key, None)
        if found is not None:
            yield msgspec.structs.replace(found, by=reference.by)
        elif reference.key not in told and not any(archive.has(reference.key) for archive in archives):
            if len(told) < _REMEMBERED:
                told.add(reference.key)
            lost = f"the archive has lost {reference.key}; {_BACKUP}"
            yield ArchiveFinding(reference.key, "missing", lost, reference.by)
    yield from damaged.values()


def _damage(archive: Archive, key: str) -> ArchiveFinding | None:
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
    if key.startswith(CONTENT) and not is_content_key(key):
        return ArchiveFinding(key, "misplaced", f"no content has the key {key}; {_LOOK}")
    if not fits_key(key, content):
        return ArchiveFinding(key, "altered", f"the bytes of {key} are not what its name says; {_BACKUP}")
    return None
