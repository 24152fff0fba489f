"""The name in the config is the module: `engine = "trend"` loads `decision/engines/trend.py`.

There is no registry to edit. A new adapter is a new file in its folder; the folder's contract test finds it by the same
listing. Other packages bring adapters as entry points, in a group that is named after the folder: one for
`tapebook.decision.engines` stands in the group `tapebook.engines`, and names a module such as the folder holds.

1. An adapter of the folder comes first: no package that is installed later can replace it.
2. An entry point is looked for when the folder has no such name, so whoever uses our own adapters pays nothing for it.
3. A name that is nowhere is refused with all names that are somewhere.
"""

import importlib
import pkgutil
import sys
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from tapebook.errors import PluginError, UnknownName


def names(folder: str) -> list[str]:
    """The adapters that a folder such as `tapebook.decision.engines` holds, and those of entry points, in order."""
    return sorted({*_own_names(folder), *(entry.name for entry in entry_points(group=entry_point_group(folder)))})


def load(folder: str, name: str) -> ModuleType:
    """The adapter module of that name; an unknown one is refused with the names that exist."""
    # One that was loaded before is there: a folder is listed on the disk, and a tick loads several adapters.
    loaded = sys.modules.get(f"{folder}.{name}") if name.isidentifier() and not name.startswith("_") else None
    if loaded is not None:
        return loaded
    if name in _own_names(folder):
        return importlib.import_module(f"{folder}.{name}")
    group = entry_point_group(folder)
    found = list(entry_points(group=group, name=name))
    if not found:
        listed = ", ".join(names(folder))
        raise UnknownName(f"there is no {name!r} among the {_kinds(folder)}; choose one of: {listed}")
    if len(found) > 1:
        packages = " and ".join(sorted(_package(entry) for entry in found))
        raise PluginError(f"{packages} both have {name!r} in their entry points {group}: uninstall one of them")
    return _load_entry_point(found[0])


def entry_point_group(folder: str) -> str:
    """The group of entry points that adds to a folder: `tapebook.engines` for `tapebook.decision.engines`."""
    return f"tapebook.{_kinds(folder)}"


def _own_names(folder: str) -> list[str]:
    found = pkgutil.iter_modules(importlib.import_module(folder).__path__)
    # What adapters of a folder share begins with an underscore.
    return [each.name for each in found if not each.name.startswith("_")]


def _kinds(folder: str) -> str:
    return folder.rsplit(".", 1)[-1]


def _load_entry_point(entry: EntryPoint) -> ModuleType:
    """The module of an entry point; PluginError names the package when it has none that can be used."""
    place = f"{_package(entry)} is broken: its entry point {entry.name} = {entry.value!r} in {entry.group}"
    try:
        found = entry.load()
    except Exception as error:
        # A foreign module runs when it is imported: it may raise anything, and the package is to be named in any case.
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(f"{place} cannot be loaded ({problem}); correct that package, or uninstall it") from error
    if not isinstance(found, ModuleType) or not callable(getattr(found, "create", None)):
        raise PluginError(f"{place} is no module with a function `create`; correct that package, or uninstall it")
    return found


def _package(entry: EntryPoint) -> str:
    """The distribution that an entry point comes from, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed package"
