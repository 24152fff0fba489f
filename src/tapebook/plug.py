"""The name in the config is the module: `engine = "trend"` loads `decision/engines/trend.py`.

There is no registry to edit. A new adapter is a new file in its folder; the folder's contract
test finds it by the same listing.
"""

import importlib
import pkgutil
from types import ModuleType

from tapebook.errors import UnknownName


def names(folder: str) -> list[str]:
    """The adapters that a folder such as `tapebook.decision.engines` holds, in alphabetical order."""
    package = importlib.import_module(folder)
    return sorted(found.name for found in pkgutil.iter_modules(package.__path__))


def load(folder: str, name: str) -> ModuleType:
    """The adapter module of that name; an unknown one is refused with the names that exist."""
    known = names(folder)
    if name not in known:
        kinds = folder.rsplit(".", 1)[-1]
        raise UnknownName(f"there is no {name!r} among the {kinds}; choose one of: {', '.join(known)}")
    return importlib.import_module(f"{folder}.{name}")
