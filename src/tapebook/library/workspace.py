"""Finds the documents in the files of the workspace: which they are, of what kind, and who may see them.

    workspace/agents/NAME/SOUL.md, TRADING_MANUAL.md, journal/**, memory/**, strategies/**    seen by that agent alone
    workspace/global/**                                                                     seen by every agent
    folders that were added                                                                 seen by every agent

1. `workspace_areas` lists the folders to walk, and what lies beside them;
2. `walk_area` goes through one of them, without following links that lead out of it;
3. `drop_duplicates` leaves out files that were found before, by a link or in a folder that lies in another;
4. `read_document` gives the bytes of a file, or why it is no document (`RefusedFile`).

Names that begin with a dot or end with a tilde are passed over: they are other programs' own. `WorkspaceState` is a
cache of this machine and no fact: a file whose stamp is unchanged is not read again. Without it every file is read.
"""

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tapebook.domain.files import write_whole
from tapebook.domain.text import has_hidden_characters, sanitise
from tapebook.search.index import GLOBAL_SCOPE

# A text that large is a data file, and its chunks would drown all others in a search.
MAX_DOCUMENT_BYTES = 1_000_000
MAX_PATH_CHARACTERS = 400


class RefusedFile(msgspec.Struct, frozen=True):
    """A file or folder that was left out, and why; `keeps` when it only cannot be read now, so what is known stays."""

    path: str
    why: str
    keeps: bool = False


def name_problem(name: str) -> str | None:
    """What is wrong with a name of a file or folder: it will be shown, and be part of a citation."""
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "its name is not UTF-8"
    if has_hidden_characters(name):
        return "its name has control or invisible characters"
    return None


def body_problem(content: bytes, *, most: int = MAX_DOCUMENT_BYTES) -> str | None:
    """What is wrong with the bytes of a file."""
    if len(content) > most:
        return size_problem(len(content), most=most)
    if b"\0" in content:
        return "it is a binary file"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start})"
    return None


def size_problem(size: int, *, most: int = MAX_DOCUMENT_BYTES) -> str | None:
    """Whether a file is too large to be read at all."""
    return f"it has {size:,} bytes, and at most {most:,} are read" if size > most else None


def printable_path(path: str) -> str:
    """A path that may hold anything, as it can be shown."""
    escaped = path.encode(errors="surrogateescape").decode(errors="replace")
    return sanitise(escaped)[:MAX_PATH_CHARACTERS]


WORKSPACE_FOLDER = "workspace"
RESERVED_PREFIXES = ("agents", "global", "incidents", "backtests")
"""The first names of paths that are not those of added folders."""

_OWN_FILES = {"SOUL.md": "soul", "TRADING_MANUAL.md": "manual"}
_OWN_FOLDERS = {"journal": "journal", "memory": "memory", "strategies": "note"}

# Size, times and number of a file: as long as they are the same, so is the file, unless it changed just now.
Stamp = tuple[int, int, int, int]


class WorkspaceArea(msgspec.Struct, frozen=True):
    """A folder to walk: the paths of its documents begin with `prefix`, and `scope` may see them."""

    root: Path
    prefix: str
    scope: str = GLOBAL_SCOPE


class WorkspaceFile(msgspec.Struct, frozen=True):
    """A file that may be a document; `area` is the prefix of its area, `is_link` when another path leads to it."""

    scope: str
    path: str
    kind: str
    file: Path
    stamp: Stamp
    area: str
    is_link: bool = False


def workspace_areas(
    workspace: Path, *, agents: Collection[str], folders: Mapping[str, str]
) -> tuple[list[WorkspaceArea], list[RefusedFile]]:
    """The folders that are there, and what is in nobody's place."""
    found = [WorkspaceArea(workspace / "agents" / name, f"agents/{name}", name) for name in sorted(agents)]
    found.append(WorkspaceArea(workspace / "global", "global"))
    found += [WorkspaceArea(Path(place), name) for name, place in folders.items()]
    there = [area for area in found if area.root.is_dir()]
    gone = [area for area in found if area.prefix in folders and area not in there]
    lost = [
        RefusedFile(area.prefix, f"there is no folder {printable_path(str(area.root))} now", keeps=True)
        for area in gone
    ]
    if not workspace.is_dir():
        # Its files may lie on another machine, or on a disk that is not there: nobody has removed them.
        lost += [RefusedFile(name, f"there is no folder {workspace} now", keeps=True) for name in ("agents", "global")]
    return there, lost + _stray_entries(workspace, agents)


def _stray_entries(workspace: Path, agents: Collection[str]) -> list[RefusedFile]:
    """What lies in the workspace and belongs to nobody."""
    beside = [name for name in _entry_names(workspace) if name not in ("agents", "global")]
    strays = [RefusedFile(printable_path(name), "documents lie in agents/NAME or in global") for name in beside]
    nobody = [name for name in _entry_names(workspace / "agents") if name not in agents]
    return strays + [RefusedFile(f"agents/{printable_path(name)}", "there is no agent of that name") for name in nobody]


def _entry_names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not _is_foreign(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_foreign(name: str) -> bool:
    return name.startswith(".") or name.endswith("~")


def walk_area(area: WorkspaceArea) -> Iterator[WorkspaceFile | RefusedFile]:
    """Every file of an area in the order of its path; what is refused comes with the reason."""
    if area.root.is_symlink() and area.scope:
        yield RefusedFile(area.prefix, "it is a link: an agent's documents lie in a folder of its own")
        return
    yield from _walk_folder(area, area.root.resolve(), ())


def _walk_folder(area: WorkspaceArea, root: Path, below: tuple[str, ...]) -> Iterator[WorkspaceFile | RefusedFile]:
    try:
        entries = sorted(os.scandir(root.joinpath(*below)), key=lambda entry: entry.name)
    except OSError as error:
        yield RefusedFile("/".join((area.prefix, *below)), f"it cannot be read ({error.strerror})", keeps=True)
        return
    for entry in entries:
        if _is_foreign(entry.name):
            continue
        parts = (*below, entry.name)
        path = "/".join((area.prefix, *parts))
        problem = name_problem(entry.name) or _why_misplaced(area, parts, entry.is_dir(follow_symlinks=False))
        if problem:
            yield RefusedFile(printable_path(path), problem)
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk_folder(area, root, parts)
        else:
            yield _workspace_file(area, root, Path(entry.path), path=path)


def _why_misplaced(area: WorkspaceArea, parts: tuple[str, ...], is_folder: bool) -> str | None:
    """Why something has no place in an agent's folder; all else may lie anywhere."""
    if not area.scope or len(parts) > 1 or parts[0] in (_OWN_FOLDERS if is_folder else _OWN_FILES):
        return None
    return f"an agent's documents are {', '.join(_OWN_FILES)} and what lies in {', '.join(_OWN_FOLDERS)}"


def _workspace_file(area: WorkspaceArea, root: Path, file: Path, *, path: str) -> WorkspaceFile | RefusedFile:
    if len(path) > MAX_PATH_CHARACTERS:
        return RefusedFile(
            printable_path(path), f"its path has {len(path)} characters, and at most {MAX_PATH_CHARACTERS} are kept"
        )
    try:
        real = file.resolve(strict=True) if file.is_symlink() else file
        state = os.stat(real, follow_symlinks=False)
    except (OSError, RuntimeError):
        return RefusedFile(path, "it is a link that leads nowhere")
    if real is not file and not real.is_relative_to(root):
        return RefusedFile(path, "it is a link that leads out of its folder")
    if not stat.S_ISREG(state.st_mode):
        return RefusedFile(path, "it is a link to a folder" if stat.S_ISDIR(state.st_mode) else "it is no file of text")
    if problem := size_problem(state.st_size):
        return RefusedFile(path, problem)
    return WorkspaceFile(
        area.scope, path, document_kind(area, path), real, file_stamp(state), area.prefix, is_link=real is not file
    )


def drop_duplicates(found: Sequence[WorkspaceFile]) -> tuple[list[WorkspaceFile], list[RefusedFile]]:
    """Each file of areas, in their order, once for whoever may see it; and how many of an area others have.

    The area that comes first has it, so that a folder which is added later changes no path; there, the file itself.
    """
    first: dict[tuple[str, Path], WorkspaceFile] = {}
    for each in found:
        known = first.setdefault((each.scope, each.file), each)
        if known.is_link and not each.is_link and known.area == each.area:
            first[each.scope, each.file] = each
    chosen = [each for each in found if first[each.scope, each.file] is each]
    others = [(each.area, first[each.scope, each.file].area) for each in found]
    twice = Counter(pair for each, pair in zip(found, others, strict=True) if first[each.scope, each.file] is not each)
    return chosen, [RefusedFile(area, _duplicate_sentence(owner, count)) for (area, owner), count in twice.items()]


def _duplicate_sentence(owner: str, count: int) -> str:
    verb = "is a document" if count == 1 else "are documents"
    return f"{count} of its files {verb} of {owner} already: each is found once"


def document_kind(area: WorkspaceArea, path: str) -> str:
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


def file_stamp(state: os.stat_result) -> Stamp:
    """What changes with a file."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def read_document(found: WorkspaceFile) -> bytes | RefusedFile:
    """The bytes of a file as they are now."""
    try:
        # Never waits, whatever the file has become since it was looked at.
        handle = os.open(found.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return RefusedFile(found.path, "it is no file of text")
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        return RefusedFile(found.path, f"it cannot be read ({error.strerror})", keeps=True)
    problem = body_problem(content)
    return content if problem is None else RefusedFile(found.path, problem)


STATE_FILE = "workspace.json"
# A file that changed so shortly before it was looked at may change again and keep its times.
_YOUNG_NS = 2_000_000_000


class WorkspaceState(msgspec.Struct, frozen=True):
    """Files by path: their stamp and the hash of their bytes; when the last sync ended, and what it had to say.

    `entries` is how far appended entries have been written to their files.
    """

    files: dict[str, tuple[Stamp, str]] = {}
    synced_at: int = 0
    refused: tuple[RefusedFile, ...] = ()
    problem: str = ""
    entries: int = 0

    def hash_of(self, found: WorkspaceFile) -> str | None:
        """The hash of a file that has not changed since; None when it must be read."""
        stamp, sha256 = self.files.get(found.path, (None, ""))
        return sha256 if stamp == found.stamp else None


def is_stamp_reliable(stamp: Stamp, *, now_ms: int) -> bool:
    """Whether a file is old enough that its stamp tells it from what it may become."""
    return max(stamp[1], stamp[2]) + _YOUNG_NS < now_ms * 1_000_000


def load_workspace_state(home: Path) -> WorkspaceState:
    """What was seen; nothing, if it cannot be read."""
    try:
        return msgspec.json.decode((home / STATE_FILE).read_bytes(), type=WorkspaceState)
    except (OSError, msgspec.DecodeError):
        return WorkspaceState()


def save_workspace_state(home: Path, seen: WorkspaceState) -> None:
    """Keeps it, whole or not at all."""
    write_whole(home / STATE_FILE, msgspec.json.encode(seen), durable=False)
