"""The workspace: which files are documents, of what kind, and who may see them. Files are read here and nowhere else.

    workspace/agents/NAME/SOUL.md, TRADING_MANUAL.md, journal/**, memory/**, strategies/**    seen by that agent alone
    workspace/global/**                                                                     seen by every agent
    folders that were added                                                                 seen by every agent

1. `areas` lists the folders to walk, and what lies beside them;
2. `walk` goes through one of them, without following links that lead out of it;
3. `once` leaves out files that were found before, by way of a link or in a folder that lies in another;
4. `read` gives the bytes of a file, or why it is no document.

Names that begin with a dot or end with a tilde are passed over: they are other programs' own.
"""

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tapebook.recall.refuse import MOST_BYTES, MOST_PATH, Refused, body_problem, name_problem, shown, size_problem
from tapebook.recall.version import GLOBAL

FOLDER = "workspace"
RESERVED = ("agents", "global", "incidents", "backtests")
"""The first names of paths that are not those of added folders."""

_OWN_FILES = {"SOUL.md": "soul", "TRADING_MANUAL.md": "manual"}
_OWN_FOLDERS = {"journal": "journal", "memory": "memory", "strategies": "note"}

# Size, times and number of a file: as long as they are the same, so is the file, unless it changed just now.
Stamp = tuple[int, int, int, int]


class Area(msgspec.Struct, frozen=True):
    """A folder to walk: the paths of its documents begin with `prefix`, and `scope` may see them."""

    root: Path
    prefix: str
    scope: str = GLOBAL


class Found(msgspec.Struct, frozen=True):
    """A file that may be a document; `area` is the prefix of its area, `is_link` when another path leads to it."""

    scope: str
    path: str
    kind: str
    file: Path
    stamp: Stamp
    area: str
    is_link: bool = False


def areas(workspace: Path, *, agents: Collection[str], folders: Mapping[str, str]) -> tuple[list[Area], list[Refused]]:
    """The folders that are there, and what is in nobody's place."""
    found = [Area(workspace / "agents" / name, f"agents/{name}", name) for name in sorted(agents)]
    found.append(Area(workspace / "global", "global"))
    found += [Area(Path(place), name) for name, place in folders.items()]
    there = [area for area in found if area.root.is_dir()]
    gone = [area for area in found if area.prefix in folders and area not in there]
    lost = [Refused(area.prefix, f"there is no folder {shown(str(area.root))} now", keeps=True) for area in gone]
    if not workspace.is_dir():
        # Its files may lie on another machine, or on a disk that is not there: nobody has removed them.
        lost += [Refused(name, f"there is no folder {workspace} now", keeps=True) for name in ("agents", "global")]
    return there, lost + _strays(workspace, agents)


def _strays(workspace: Path, agents: Collection[str]) -> list[Refused]:
    """What lies in the workspace and belongs to nobody."""
    beside = [name for name in _names(workspace) if name not in ("agents", "global")]
    strays = [Refused(shown(name), "documents lie in agents/NAME or in global") for name in beside]
    nobody = [name for name in _names(workspace / "agents") if name not in agents]
    return strays + [Refused(f"agents/{shown(name)}", "there is no agent of that name") for name in nobody]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not _is_foreign(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_foreign(name: str) -> bool:
    return name.startswith(".") or name.endswith("~")


def walk(area: Area) -> Iterator[Found | Refused]:
    """Every file of an area in the order of its path; what is refused comes with the reason."""
    if area.root.is_symlink() and area.scope:
        yield Refused(area.prefix, "it is a link: an agent's documents lie in a folder of its own")
        return
    yield from _walk(area, area.root.resolve(), ())


def _walk(area: Area, root: Path, below: tuple[str, ...]) -> Iterator[Found | Refused]:
    try:
        entries = sorted(os.scandir(root.joinpath(*below)), key=lambda entry: entry.name)
    except OSError as error:
        yield Refused("/".join((area.prefix, *below)), f"it cannot be read ({error.strerror})", keeps=True)
        return
    for entry in entries:
        if _is_foreign(entry.name):
            continue
        parts = (*below, entry.name)
        path = "/".join((area.prefix, *parts))
        problem = name_problem(entry.name) or _misplaced(area, parts, entry.is_dir(follow_symlinks=False))
        if problem:
            yield Refused(shown(path), problem)
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(area, root, parts)
        else:
            yield _found(area, root, Path(entry.path), path=path)


def _misplaced(area: Area, parts: tuple[str, ...], is_folder: bool) -> str | None:
    """Why something has no place in an agent's folder; all else may lie anywhere."""
    if not area.scope or len(parts) > 1 or parts[0] in (_OWN_FOLDERS if is_folder else _OWN_FILES):
        return None
    return f"an agent's documents are {', '.join(_OWN_FILES)} and what lies in {', '.join(_OWN_FOLDERS)}"


def _found(area: Area, root: Path, file: Path, *, path: str) -> Found | Refused:
    if len(path) > MOST_PATH:
        return Refused(shown(path), f"its path has {len(path)} characters, and at most {MOST_PATH} are kept")
    try:
        real = file.resolve(strict=True) if file.is_symlink() else file
        state = os.stat(real, follow_symlinks=False)
    except (OSError, RuntimeError):
        return Refused(path, "it is a link that leads nowhere")
    if real is not file and not real.is_relative_to(root):
        return Refused(path, "it is a link that leads out of its folder")
    if not stat.S_ISREG(state.st_mode):
        return Refused(path, "it is a link to a folder" if stat.S_ISDIR(state.st_mode) else "it is no file of text")
    if problem := size_problem(state.st_size):
        return Refused(path, problem)
    return Found(area.scope, path, kind_of(area, path), real, stamp_of(state), area.prefix, is_link=real is not file)


def once(found: Sequence[Found]) -> tuple[list[Found], list[Refused]]:
    """Each file of areas, in their order, once for whoever may see it; and how many of an area others have.

    The area that comes first has it, so that a folder which is added later changes no path; there, the file itself.
    """
    first: dict[tuple[str, Path], Found] = {}
    for each in found:
        known = first.setdefault((each.scope, each.file), each)
        if known.is_link and not each.is_link and known.area == each.area:
            first[each.scope, each.file] = each
    chosen = [each for each in found if first[each.scope, each.file] is each]
    others = [(each.area, first[each.scope, each.file].area) for each in found]
    twice = Counter(pair for each, pair in zip(found, others, strict=True) if first[each.scope, each.file] is not each)
    return chosen, [Refused(area, _documents_of(owner, count)) for (area, owner), count in twice.items()]


def _documents_of(owner: str, count: int) -> str:
    said = "is a document" if count == 1 else "are documents"
    return f"{count} of its files {said} of {owner} already: each is found once"


def kind_of(area: Area, path: str) -> str:
    """What sort of document a path is."""
    if not area.scope:
        return "global"
    first, *rest = path.removeprefix(f"{area.prefix}/").split("/")
    if not rest:
        return _OWN_FILES[first]
    if first == "memory" and len(rest) == 1:
        stem = rest[0].removesuffix(".md").rstrip("0123456789").removesuffix("-")
        return {"learnings": "learning", "notes": "note"}.get(stem, "memory")
    return _OWN_FOLDERS[first]


def stamp_of(state: os.stat_result) -> Stamp:
    """What changes with a file."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def read(found: Found) -> bytes | Refused:
    """The bytes of a file as they are now."""
    try:
        # Never waits, whatever the file has become since it was looked at.
        handle = os.open(found.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return Refused(found.path, "it is no file of text")
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        return Refused(found.path, f"it cannot be read ({error.strerror})", keeps=True)
    problem = body_problem(content)
    return content if problem is None else Refused(found.path, problem)
