"""A write with a key whose server was killed on the way is made once, however often it is sent again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tapebook.errors import StaleWriter
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.surfaces.http.conftest import BotServer
from tests.surfaces.http.crash_writes import WRITES

# Made again by the next sync, if its server was killed before: what documents are is in their files.
LATER = ("document.kept", "log.read", "terms.chosen")


def cut_writes(folder: Path, *names: str, count: int, dsn: str = "") -> list[dict[str, Any]]:
    """What writes leave, undisturbed and cut."""
    words = [sys.executable, "-m", "tests.surfaces.http.crash_writes", str(folder), str(count), dsn, *names]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def written_once(left: dict[str, Any]) -> Any:
    """How often each kind of event was written, in each stream, and how many rows of the market."""
    assert left["verify"] == []
    streams = {name: {k: n for k, n in kinds.items() if k not in LATER} for name, kinds in left["written"].items()}
    return streams, left["rows"]


def assert_made_once(found: dict[str, Any]) -> None:
    whole = found["whole"]
    assert whole["status"] == 200, whole["answer"]
    for cut in found["cuts"]:
        where = f"{found['name']}, cut before {cut['act']}"
        assert written_once(cut["left"]) == written_once(whole["left"]), where
        assert cut["status"] == 200 or "not done again" in cut["answer"]["detail"], where


def test_a_write_whose_answer_was_lost_is_made_once(tmp_path: Path) -> None:
    by_name = {each["name"]: each for each in cut_writes(tmp_path, "tick", "entry", "halt", "add", count=1)}
    for found in by_name.values():
        assert_made_once(found)
    # What is named by its moment gets its own answer; what is done by one event says that it was done.
    [tick], [added] = by_name["tick"]["cuts"], by_name["add"]["cuts"]
    assert tick["answer"] == by_name["tick"]["whole"]["answer"]
    assert added["status"] == 409 and added["answer"]["remedy"].startswith("read what stands")


@pytest.mark.proof
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_every_write_cut_anywhere_is_made_once(tmp_path: Path, request: pytest.FixtureRequest, store: str) -> None:
    dsn = request.getfixturevalue("module_postgres") if store == "postgres" else ""
    found = cut_writes(tmp_path, count=20, dsn=dsn)
    assert [each["name"] for each in found] == list(WRITES)
    for each in found:
        assert_made_once(each)


def test_what_was_done_is_not_done_again_after_its_opposite(server: BotServer) -> None:
    """A halt whose answer was lost, then a resume by somebody else: the halt that is sent again changes nothing."""
    with server.book.keyed_write("w1"):
        assert server.book.halt("bot", reason="lunch").changed
    server.book.resume("bot", reason="lunch is over")
    heads = server.book.heads()
    with server.book.keyed_write("w1") as keyed:
        assert [event.kind for event in keyed.earlier] == ["desk.halted"] and keyed.has_written()
        assert server.book.halt("bot", reason="lunch").halts == {}
    assert server.book.heads() == heads


def test_two_processes_make_a_write_once(server: BotServer) -> None:
    with server.book.keyed_write("w2") as one:
        other = type(one)(server.book._rooms.book_db, owner=server.book.owner, write_id="w2", attempt="other")
        assert server.book.halt("bot", reason="first").changed
        server.book._rooms.log.keyed = other
        with pytest.raises(StaleWriter, match="another process is making the same write"):
            server.book.resume("bot", reason="second")
    assert list(server.book._rooms.book.halts().values()) == ["first"]
    server.book.resume("bot")
