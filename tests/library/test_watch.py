"""A watched file that changes is synced at once."""

import threading
from pathlib import Path

from tapebook.library.sync import watch_documents
from tests.library.libraries import library


def test_a_change_is_synced_and_nothing_else_is(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "a")
        stop, begun = threading.Event(), threading.Event()

        def writer() -> None:
            begun.wait(60)
            # Again and again: what is written before anybody watches is not noticed.
            while not stop.wait(0.3):
                shelf.write("global/b.md", "b")

        thread = threading.Thread(target=writer, daemon=True)
        thread.start()
        reports = []
        for report in watch_documents(shelf.rooms, seconds=60, stop=stop):
            reports.append(report.kept)
            begun.set()
            if len(reports) == 2:
                stop.set()
                break
        thread.join(60)
        assert reports == [1, 1] and shelf.paths() == {"global/a.md", "global/b.md"}
