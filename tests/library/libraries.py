"""A desk with a workspace, and the plainest of indexes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tapebook.desk.document_writes import add_folder
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import MINUTE
from tapebook.library.search import RecallStatus, documents_status, reindex
from tapebook.library.sync import SyncReport, sync_documents
from tapebook.search import IndexReport
from tapebook.search.index import IndexFiles
from tapebook.wiring import Rooms
from tests.desk.desks import Desk, desk, reply
from tests.search.plain_index import make

ANN = AgentProfile("ann", ("BTC", "ETH"), cadence_ms=MINUTE, strategy="Follow the breakout of the week.")
BOB = AgentProfile("bob", ("BTC",), cadence_ms=MINUTE)


def use_plain_index(rooms: Rooms) -> None:
    """Searches with the plain index instead of the one of the settings."""
    rooms.indexes = IndexFiles(rooms.home, make, chosen=rooms.indexes.chosen)  # type: ignore[misc]


@contextmanager
def library(home: Path, *, settings: str = "") -> Iterator["Library"]:
    """A desk with two agents."""
    with desk(home, settings=settings) as floor:
        use_plain_index(floor.rooms)
        floor.hire(ANN)
        floor.hire(BOB)
        yield Library(floor)


class Library:
    """Files of a workspace, and a desk that trades beside them."""

    def __init__(self, floor: Desk) -> None:
        self.floor = floor
        self.rooms = floor.rooms
        self.workspace = floor.rooms.home / "workspace"

    def write(self, path: str, text: str) -> Path:
        """A file of the workspace."""
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def backtest(self, name: str, agent: str, summary: str) -> None:
        """A backtest that has ended, as far as documents know it."""
        folder = self.rooms.home / "backtests" / name
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps({"sha256": "", "value": {"agent": {"name": agent}}}))
        (folder / "summary.md").write_text(summary, "utf-8")

    def sync(self) -> SyncReport:
        """Time passes, and all is brought up to date."""
        self.floor.later(1_000)
        return sync_documents(self.rooms)

    def status(self) -> RecallStatus:
        """The state of documents and index."""
        return documents_status(self.rooms.book, self.rooms.documents, self.rooms.home, indexes=self.rooms.indexes)

    def reindex(self) -> IndexReport:
        """Builds the index anew."""
        return reindex(self.rooms.documents, self.rooms.archive, self.rooms.home, indexes=self.rooms.indexes)

    def add_folder(self, folder: Path) -> str:
        """Makes the texts of a folder documents."""
        rooms = self.rooms
        return add_folder(rooms.documents, rooms.clock, rooms.home, folder, leases=rooms.leases)

    def paths(self) -> set[str]:
        """The documents there are now."""
        newest = {}
        for version in self.rooms.documents.versions(after=0, most=100_000):
            newest[version.scope, version.path] = version
        return {path for (_, path), version in newest.items() if version.sha256}

    def text(self, path: str) -> str:
        """What a document says now."""
        found = [each for each in self.rooms.documents.versions(after=0, most=100_000) if each.path == path]
        content = self.rooms.archive.get(f"sha256/{found[-1].sha256[:2]}/{found[-1].sha256}")
        assert content is not None
        return content.decode()

    def round_trip(self, agent: str = "ann", *, note: str = "") -> None:
        """A trade that wins about a percent."""
        floor = self.floor
        found = floor.rooms.book.agent(agent)
        assert found is not None
        deployment = floor.hire(found[1])
        floor.later(MINUTE, BTC=100)
        floor.say(deployment, with_note(reply("open", "long", 100, reason="breakout above the range"), note))
        floor.later(10_000, BTC=100)
        floor.work(deployment)
        floor.later(MINUTE, BTC=101)
        floor.say(deployment, reply("close", reason="target reached"))
        floor.later(10_000, BTC=101)
        floor.work(deployment)


def with_note(text: str, note: str) -> str:
    """A reply with a journal entry."""
    return json.dumps(json.loads(text) | ({"note": note} if note else {}))
