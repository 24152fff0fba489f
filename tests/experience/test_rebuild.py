"""Rebuild: from outcomes alone comes what is stored; what was changed by hand is found, and put right from the log."""

import pytest

from tapebook.experience.rebuild import rebuild_and_compare, restore_tables
from tests.db.places import sql
from tests.experience.makers import memory_desk, taught

DAMAGES = [
    ("UPDATE experience_records SET wins = wins + 1 WHERE kind = 'all'", "record all"),
    ("DELETE FROM experience_records WHERE kind = 'regime'", "record regime"),
    ("UPDATE experience_situations SET packed = zeroblob(22016)", "packed situations"),
    ("UPDATE experience_outcomes SET situations = 7 WHERE seq > 600", "is situation 7"),
    ("UPDATE experience_fits SET fit_json = replace(fit_json, 'far\":', 'far\":1')", "fit of situations 1 to 100"),
]


def test_rebuilt_is_what_is_stored() -> None:
    with memory_desk() as desk:
        taught(desk, 530)
        found = rebuild_and_compare(desk.experience, "d", seq=desk.seq)
        assert (found.outcomes, found.situations, found.differences) == (530, 530, ())
        assert found.fits >= 5
        assert found.records == len(desk.experience.records("d", seq=desk.seq))
        middle = rebuild_and_compare(desk.experience, "d", seq=desk.seq // 2)
        assert middle.differences == ()
        assert 0 < middle.outcomes < 530


def test_damage_is_found_and_put_right() -> None:
    with memory_desk() as desk:
        taught(desk, 530)
        for damage, named in DAMAGES:
            desk.db.execute(sql(damage))
            found = rebuild_and_compare(desk.reopened(), "d", seq=desk.seq).differences
            assert any(named in line for line in found), (damage, found)
            events = restore_tables(desk.log, desk.db, desk.stream)
            assert events == desk.seq
            assert rebuild_and_compare(desk.reopened(), "d", seq=desk.seq).differences == ()


def test_restoring_one_deployment_leaves_the_others() -> None:
    with memory_desk() as desk:
        taught(desk, 20)
        before = desk.experience.records("d", seq=desk.seq)
        assert restore_tables(desk.log, desk.db, desk.stream.__class__("local", "other")) == 0
        assert desk.reopened().records("d", seq=desk.seq) == before


@pytest.mark.parametrize("count", [0, 1])
def test_little_is_rebuilt_too(count: int) -> None:
    with memory_desk() as desk:
        taught(desk, count)
        assert rebuild_and_compare(desk.experience, "d", seq=desk.seq).outcomes == count
