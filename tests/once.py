"""What takes seconds to make and is only read is made by one worker of a run; the others take copies of it."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

MADE = "made"


def made_once(base: Path, name: str, make: Callable[[Path], object]) -> Path:
    """A folder of this worker's own with what `make` puts into one: made by whoever asks first, copied by the others.

    `base` is pytest's folder of temporary files. Workers that ask meanwhile wait. One that fails leaves nothing, and
    the next one tries again.
    """
    # Every worker has a folder of its own in the folder of the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    template, own = shared / f"once-{name}", base / f"own-{name}"
    with open(shared / f"once-{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (template / MADE).exists():
            shutil.rmtree(template, ignore_errors=True)
            template.mkdir()
            make(template)
            (template / MADE).touch()
    return shutil.copytree(template, own)
