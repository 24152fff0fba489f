"""Anchors: what has changed is anchored by whoever runs, once a minute and at the end, and two at once do no harm."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook import anchors
from tapebook.anchors import AnchorCheck, AnchorTimer, anchor_heads, lost_anchors, try_anchor_heads
from tapebook.desk.roles import ROLES, RoleName, StopSignal, run_role
from tapebook.errors import StaleWriter, StoreFailed
from tapebook.log import NotedAnchor, Restore
from tests.desk.desks import desk, reply


def anchor_count(home: Path) -> int:
    """How many anchors there are."""
    return len(list((home / "archive" / "anchors").rglob("*.z")))


def test_only_what_has_changed_is_anchored(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        assert anchor_heads(floor.rooms) is None
        agent = floor.hire()
        assert [anchor_heads(floor.rooms), anchor_heads(floor.rooms)] == [1, None]
        floor.quote(BTC=100)
        assert [anchor_heads(floor.rooms), anchor_heads(floor.rooms)] == [2, None]
        floor.say(agent, reply("hold"))
        assert [anchor_heads(floor.rooms), anchor_heads(floor.rooms)] == [3, None]
        content = floor.rooms.archive.get("anchors/000000/000000003")
        assert content is not None
        last = msgspec.json.decode(content, type=anchors.Anchor)
        assert [head[1] for head in last.heads] == [agent.id], "streams that did not move are not named again"
        assert list(AnchorCheck(floor.rooms).findings()) == []


@pytest.mark.parametrize("role", ROLES)
def test_every_role_anchors_when_it_stops(role: RoleName, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with desk(home) as floor, StopSignal() as stop:
        floor.hire()
        run_role(floor.rooms, role, stop=stop, seconds=0.0, report=lambda progress: None)
        assert anchor_count(home) == 1


def test_a_running_process_anchors_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, now = tmp_path / "home", [1_000.0]
    monkeypatch.setattr(anchors, "elapsed_seconds", lambda: now[0])
    with desk(home) as floor:
        floor.hire()
        timer, other = AnchorTimer(floor.rooms), AnchorTimer(floor.rooms)
        found = []
        for _ in range(13):
            floor.quote(BTC=100)
            assert timer.anchor_if_due() is None and other.anchor_if_due() is None
            found.append(anchor_count(home))
            now[0] += 10
            floor.later(10_000)
        assert found == [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3], "two processes anchor no more often than one"


def test_of_two_who_anchor_at_once_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path / "home") as floor:
        floor.hire()
        stale = floor.rooms.log.newest_anchor()
        assert anchor_heads(floor.rooms) == 1
        with pytest.raises(StaleWriter):
            floor.rooms.log.note_anchor(msgspec.structs.replace(stale, number=1), {})
        assert list(AnchorCheck(floor.rooms).findings()) == []


def test_an_anchor_that_another_process_writes_meanwhile_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        floor.hire()
        real = floor.rooms.archive.create

        def late(key: str, content: bytes) -> None:
            with floor.rooms.book_db.transaction():
                # No transaction is open while an archive is written: this one could not begin.
                pass
            real(key, content.replace(b'"written_at":', b'"written_at":1'))
            real(key, content)

        with monkeypatch.context() as patched:
            patched.setattr(floor.rooms.archive, "create", late)
            with pytest.raises(StaleWriter):
                anchor_heads(floor.rooms)
        assert anchor_heads(floor.rooms) == 2
        assert list(AnchorCheck(floor.rooms).findings()) == []


def test_an_archive_that_refuses_leaves_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path / "home") as floor:
        floor.hire()

        def refuse(key: str, content: bytes) -> None:
            raise StoreFailed("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(floor.rooms.archive, "create", refuse)
            assert "the disk is full" in (try_anchor_heads(floor.rooms) or "")
        assert floor.rooms.log.newest_anchor() == NotedAnchor()
        assert try_anchor_heads(floor.rooms) is None
        assert floor.rooms.log.newest_anchor().number == 1


class _Timeline:
    """The oracle: anchors with the one each follows, and restores as a person does them."""

    def __init__(self) -> None:
        self.parents = {1: 0}
        self.head, self.restores = 1, list[Restore]()

    def write_anchor(self) -> None:
        """Goes on from where the book is."""
        number = max(self.parents) + 1
        self.parents[number] = self.head
        self.head = number

    def restore(self, to: int) -> None:
        """Puts the book back to what it was at an anchor; nothing to note where it is the last."""
        last = max(self.parents)
        if to < last:
            self.restores.append(Restore(last, to, len(self.restores)))
        self.head = to

    def is_lost(self, number: int) -> bool:
        """Whether an anchor did not lead to where the book is."""
        at = self.head
        while at:
            if at == number:
                return False
            at = self.parents[at]
        return True


@given(st.lists(st.one_of(st.just(0), st.integers(1, 30)), max_size=40))
def test_lost_are_the_anchors_that_did_not_lead_to_where_the_book_is(steps: list[int]) -> None:
    timeline = _Timeline()
    restored = False
    for step in steps:
        if step == 0:
            timeline.write_anchor()
            restored = False
        elif not restored:
            # A second restore in a row is of a home that never went on, whose archive was not told of the first.
            timeline.restore(1 + step % max(timeline.parents))
            restored = True
    last = max(timeline.parents)
    lost = {number for each in lost_anchors(timeline.restores, last=last) for number in each}
    assert lost == {number for number in timeline.parents if timeline.is_lost(number)}
