"""Recorded payloads: what was received comes back byte for byte, in objects that are small and known to the tape."""

import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.db import Database, connect, migrate
from tapebook.domain.units import MINUTE
from tapebook.errors import Busy, Damaged, StoreFailed
from tapebook.tape import recording
from tapebook.tape.recording import Recorder, format_line, parse_line, recorded_lines, recorded_range
from tapebook.tape.store import MIGRATIONS
from tests.db.places import sql
from tests.tape.memory_archive import Shelf
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

NOON = 1_767_614_400_000
PAYLOADS = [
    b'{"channel":"pong"}',
    b"Websocket connection established.",
    b'{"a":\n1}',
    b"\xff\x00",
    b'{"r":"\r"}',
    b'["x"]',
]


class Desk:
    """A recorder, its archive and what it remembers."""

    def __init__(self, db: Database) -> None:
        self.db, self.shelf = db, Shelf()
        self.recorder = Recorder(db, self.shelf.put_content)

    def lines(self, since: int = 0, until: int = 2**62) -> list[tuple[int, bytes]]:
        return [
            (at, parse_line(line)[1]) for at, line in recorded_lines(self.db, self.shelf.get, since=since, until=until)
        ]

    def objects(self) -> list[tuple[int, int, int]]:
        return list(self.db.all(sql("SELECT from_ts, to_ts, payloads FROM tape_recordings ORDER BY from_ts")))


@pytest.fixture
def desk(db: Database) -> Desk:
    """An empty one, on both engines."""
    return Desk(db)


def test_payloads_come_back_as_they_were_received(desk: Desk) -> None:
    for n, payload in enumerate(PAYLOADS):
        desk.recorder(NOON + n, payload)
    desk.recorder(NOON + 6, '{"text": "é"}')
    assert desk.lines() == [] and desk.recorder.archive_due(NOON + MINUTE - 1) is None, "a minute has not passed"
    assert desk.lines() == []
    assert desk.recorder.archive_due(NOON + MINUTE) is None
    expected = [*PAYLOADS, '{"text": "é"}'.encode()]
    expected[3] = "\ufffd\x00".encode()
    assert desk.lines() == list(enumerate(expected, NOON))
    assert desk.lines(NOON + 1, NOON + 3) == [(NOON + 1, expected[1]), (NOON + 2, expected[2])]
    assert desk.objects() == [(NOON, NOON + 6, 7)] and recorded_range(desk.db) == (NOON, NOON + 6)
    (content,) = desk.shelf.objects.values()
    assert gzip.decompress(content).count(b"\n") == 7, "an object is a gzip file of lines"


def test_many_payloads_are_several_objects_and_the_last_is_written_at_the_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "ROTATE_BYTES", 100)
    for n in range(12):
        desk.recorder(NOON + n, b'{"n": %d}' % n)
    assert desk.recorder.archive_due(NOON + 10) is None
    assert [payloads for _, _, payloads in desk.objects()] == [5, 5]
    desk.recorder.close()
    assert [payloads for _, _, payloads in desk.objects()] == [5, 5, 2]
    assert [json.loads(payload)["n"] for _, payload in desk.lines()] == list(range(12))
    desk.recorder.close()
    assert len(desk.objects()) == 3, "nothing is left to write"


def test_lines_never_go_back_in_time(desk: Desk) -> None:
    desk.recorder(NOON + 50, b"{}")
    desk.recorder(NOON + 20, b'{"later": 1}')
    desk.recorder.close()
    again = Recorder(desk.db, desk.shelf.put_content)
    again(NOON, b'{"next": 1}')
    again.close()
    assert [at for at, _ in desk.lines()] == [NOON + 50] * 3


@pytest.mark.parametrize("error", [StoreFailed("no room"), Busy("held")])
def test_a_full_archive_keeps_everything_for_later(desk: Desk, error: Exception) -> None:
    def refuse(content: bytes) -> str:
        raise error

    recorder = Recorder(desk.db, refuse)
    for n in range(3):
        recorder(NOON + n * MINUTE, b'{"n": %d}' % n)
        said = recorder.archive_due(NOON + (n + 1) * MINUTE)
        assert said == f"{error} ({n + 1} recordings are waiting)"
    with pytest.raises(type(error)):
        recorder.close()
    recorder._put = desk.shelf.put_content
    assert recorder.archive_due(NOON) is None
    assert [at for at, _ in desk.lines()] == [NOON, NOON + MINUTE, NOON + 2 * MINUTE]


def test_what_does_not_fit_into_memory_either_is_given_up_oldest_first(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_WAITING_BYTES", 80)

    def refuse(content: bytes) -> str:
        raise StoreFailed("no room")

    recorder = Recorder(desk.db, refuse)
    for n in range(5):
        recorder(NOON + n * MINUTE, b'{"n": %d}' % n)
        said = recorder.archive_due(NOON + (n + 1) * MINUTE)
    assert said is not None and said.startswith("no room (")
    waiting, given_up = map(int, re.findall(r"\d+", said))
    assert waiting + given_up == 5 and waiting >= 1 and given_up >= 2
    recorder._put = desk.shelf.put_content
    recorder.close()
    assert [at for at, _ in desk.lines()] == [NOON + n * MINUTE for n in range(given_up, 5)]


def test_a_lost_object_is_said_and_named(desk: Desk) -> None:
    desk.recorder(NOON, b"{}")
    desk.recorder.close()
    (key,) = desk.shelf.objects
    desk.shelf.objects.clear()
    with pytest.raises(Damaged, match=f"the archive has lost {key}"):
        desk.lines()


@given(st.lists(st.tuples(st.integers(1, 5_000), st.binary(max_size=60)), max_size=30), st.integers(20, 300))
def test_any_bytes_survive_as_text(payloads: list[tuple[int, bytes]], size: int) -> None:
    opened = connect(":memory:")
    migrate(opened, (MIGRATIONS,))
    desk, at = Desk(opened), NOON
    expected = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "ROTATE_BYTES", size)
        for pause, payload in payloads:
            at += pause
            desk.recorder(at, payload)
            desk.recorder.archive_due(at)
            whole = payload[:1] == b"{" and b"\n" not in payload
            shown = payload if whole else payload.decode(errors="replace").encode()
            expected.append((at, shown))
        desk.recorder.close()
    # A frame on a line of its own is read without the blanks around it.
    assert [(at, text.strip()) for at, text in desk.lines()] == [(at, text.strip()) for at, text in expected]
    opened.close()


def test_a_line_without_a_moment_is_none() -> None:
    assert parse_line(format_line(NOON, b'{"a": 1}')) == (NOON, b'{"a": 1}')
    for bad in (b"soon\t{}", b'{"frame": {}}', b"{"):
        with pytest.raises(ValueError):
            parse_line(bad)
