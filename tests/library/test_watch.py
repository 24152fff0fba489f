"""A watched file that changes is synced at once."""

import threading
import time
from pathlib import Path

from tapebook.library.sync import watch_documents
from tests.library.libraries import library


def test_a_change_is_synced_and_nothing_else_is(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "a")
        stop = threading.Event()

        def writer() -> None:
            time.sleep(1.0)
            shelf.write("global/b.md", "b")

        threading.Thread(target=writer, daemon=True).start()
        reports = []
        for report in watch_documents(shelf.rooms, seconds=20, stop=stop):
            reports.append(report.kept)
            if len(reports) == 2:
                stop.set()
                break
        assert reports == [1, 1] and shelf.paths() == {"global/a.md", "global/b.md"}
