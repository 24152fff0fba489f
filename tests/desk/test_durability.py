"""What a decision names is on the disk before the book names it: its texts in the archive, its market in the tape."""

from pathlib import Path
from typing import Any

import pytest

from tapebook.archive.archives import folder
from tapebook.domain.units import MINUTE
from tapebook.wiring import PastTerms, Rooms
from tests.desk.desks import BRIEF, desk, reply
from tests.desk.worker_harness import shops, work
from tests.replay.stage import Stage


class Order:
    """What waits for the disk and what is written to the book, in order."""

    def __init__(self, rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self._note(monkeypatch, rooms.tape_db, "sync", "tape")
        self._note(monkeypatch, rooms.archive._segments, "append", "archive")
        self._note(monkeypatch, rooms.book, "append", "book")
        self._note(monkeypatch, rooms.work, "record_known", "book")

    def _note(self, monkeypatch: pytest.MonkeyPatch, where: object, name: str, what: str) -> None:
        call = getattr(where, name)

        def noted(*given: Any, **terms: Any) -> Any:
            found = call(*given, **terms)
            self.seen.append(what)
            return found

        monkeypatch.setattr(where, name, noted)


def test_tape_and_texts_are_on_the_disk_before_a_decision_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100, ETH=10)
        order = Order(floor.rooms, monkeypatch)
        floor.say(agent, reply("hold"))
        assert order.seen[:3] == ["tape", "archive", "book"]
        order.seen.clear()
        floor.say(agent, reply("hold"), symbol="ETH")
        assert "tape" not in order.seen, "nothing was committed to the tape since"
        floor.later(MINUTE, BTC=100, ETH=10)
        order.seen.clear()
        floor.say(agent, reply("hold"))
        assert order.seen.index("tape") < order.seen.index("archive") < order.seen.index("book")


def test_worker_waits_once_for_all_decisions_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shops(Stage(tmp_path).make("home")) as (shop, _):
        shop.hire(BRIEF)
        shop.quote("BTC", "ETH")
        assert shop.list_due() == 2
        order = Order(shop.rooms, monkeypatch)
        work(shop.worker())
        # First the account is opened, then what both may know is kept, then both texts at once, and each is recorded.
        assert order.seen == ["book", "tape", "book", "archive", "book", "book"]
        assert len(shop.runs()) == 2 and all(run.packet_key and run.reply_key for run in shop.runs())


@pytest.mark.parametrize(("single_writer", "durable"), [(False, True), (True, False)])
def test_archive_is_as_durable_as_the_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, single_writer: bool, durable: bool
) -> None:
    asked: list[bool] = []
    made = folder.create

    def noted(place: str, *, durable: bool) -> folder.FolderArchive:
        asked.append(durable)
        return made(place, durable=durable)

    monkeypatch.setattr(folder, "create", noted)
    with desk(tmp_path / "home") as floor:
        floor.quote(BTC=100)
        clock = floor.clock
    rooms = Rooms(tmp_path / "home", clock=clock, past=PastTerms(watermark=None) if single_writer else None)
    monkeypatch.setattr(rooms.tape_db, "sync", lambda: asked.append(True))
    rooms.sync_tape(1)
    rooms.close()
    assert asked[1:] == ([True, True] if durable else [False])
