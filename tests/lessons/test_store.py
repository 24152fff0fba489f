"""Notes in the log and in their table, on both databases."""

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.agent import Note, SkillNote
from tapebook.domain.run import Usage
from tapebook.lessons.notes import (
    LESSON_KINDS,
    MIGRATIONS,
    PROJECTION,
    FollowedExit,
    Notes,
    draft_exits_followed,
    draft_lesson_change,
    draft_note_promoted,
    draft_note_refused,
    draft_note_written,
)
from tapebook.lessons.trials import Lesson, Trial, judge
from tapebook.log import Log, Stream, verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tests.lessons.test_trials import hypothesis, world

T0 = 1_767_571_200_000
STREAM = Stream("me", "a.paper")


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Database:
    made = connect(":memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    request.addfinalizer(made.close)
    migrate(made, (LOG, MIGRATIONS))
    return made


def note(number: int, usage: Usage | None = None) -> Note:
    told = (f"text {number}", f"h{number}", "statistics")
    return Note(f"n{number}", "a", 1, T0 + number, T0 - 5, T0, 10 * number, *told, usage)


def test_a_new_note_takes_the_place_of_the_one_before(db: Database) -> None:
    log, notes = Log(db, [PROJECTION], clock=VirtualClock(T0)), Notes(db, owner="me")
    assert notes.active_note("a.paper", seq=100) is None
    log.append(STREAM, [draft_note_written(note(1))], expected_seq=0)
    later = [draft_note_refused(note(9), "no"), draft_note_written(note(2, Usage("m", 5, 6, 7, 1)))]
    log.append(STREAM, later, expected_seq=1)
    standing = [notes.active_note("a.paper", seq=seq) for seq in (0, 1, 2, 3)]
    assert [each.note_id if each else None for each in standing] == [None, "n1", "n1", "n2"]
    assert [notes.last_reflection("a.paper", seq=seq) for seq in (0, 1, 2)] == [None, (1, T0 + 1), (2, T0 + 9)]
    kept = notes.reflections("a.paper", most=9)
    assert [(each.note.note_id, each.status, each.problem) for each in kept] == [
        ("n2", "active", ""),
        ("n9", "refused", "no"),
        ("n1", "superseded", ""),
    ]
    assert kept[0].note == note(2, Usage("statistics", 5, 6, 7, 1))
    assert verify_log(log, db, packages=(LOG, MIGRATIONS), anchors={}) == []


def test_nobody_reads_anothers_notes(db: Database) -> None:
    log = Log(db, [PROJECTION], clock=VirtualClock(T0))
    log.append(STREAM, [draft_note_written(note(1))], expected_seq=0)
    assert Notes(db, owner="you").active_note("a.paper", seq=9) is None
    assert Notes(db, owner="you").reflections("a.paper", most=9) == []


def test_the_newest_promotion_of_each_skill_holds_as_of_a_sequence_number(db: Database) -> None:
    log, notes = Log(db, [PROJECTION], clock=VirtualClock(T0)), Notes(db, owner="me")
    one, two = (SkillNote("sizing", f"n{each}", "a.paper", "a", T0, f"text {each}", f"h{each}") for each in (1, 2))
    other = SkillNote("chop", "n1", "a.paper", "a", T0, "text", "h")
    ended = SkillNote("sizing", "n2", "a.paper", "a", T0, "", "")
    log.append(
        Stream("me"),
        [draft_note_promoted(one), draft_note_promoted(other), draft_note_promoted(two), draft_note_promoted(ended)],
        expected_seq=0,
    )
    log.append(STREAM, [draft_note_promoted(one)], expected_seq=0)
    assert [notes.skill_notes("", seq=seq) for seq in (0, 1, 2, 3)] == [[], [one], [other, one], [other, two]]
    assert notes.skill_notes("", seq=9) == [other, ended]
    assert notes.skill_notes("a.paper", seq=9) == [one]
    assert Notes(db, owner="you").skill_notes("", seq=9) == []
    assert verify_log(log, db, packages=(LOG, MIGRATIONS), anchors={}) == []


def test_a_lesson_is_read_as_of_a_sequence_number_with_its_history(db: Database) -> None:
    log, notes = Log(db, [PROJECTION], clock=VirtualClock(T0)), Notes(db, owner="me")
    held = hypothesis()
    new = Lesson(held, Trial(0))
    more = Lesson(held, judge(new.trial, held, world(1, edge_bps=40.0, n=20), at=T0, seq=2))
    sure = Lesson(held, judge(new.trial, held, world(1, edge_bps=40.0, n=300), at=T0, seq=3))
    over = Lesson(held, judge(new.trial, held, world(2, edge_bps=-40.0, n=300), at=T0, seq=4))
    assert [each.trial.status for each in (more, sure, over)] == ["registered", "confirmed", "retired"]
    steps = [(new, None), (more, new), (sure, more), (over, sure)]
    log.append(STREAM, [draft_lesson_change(after, before, at=T0 + 1) for after, before in steps], expected_seq=0)
    assert notes.lessons("a.paper", seq=0) == []
    assert [notes.lessons("a.paper", seq=seq)[0].lesson for seq in (1, 2, 3, 9)] == [new, more, sure, over]
    history = [(each.seq, each.change, each.lesson) for each in notes.lesson_history("a.paper", most=9)]
    assert history == [(4, "retired", over), (3, "confirmed", sure), (1, "registered", new)]
    assert set(LESSON_KINDS.values()) <= PROJECTION.projectors.keys()
    assert Notes(db, owner="you").lessons("a.paper", seq=9) == []
    assert verify_log(log, db, packages=(LOG, MIGRATIONS), anchors={}) == []


def test_what_followed_an_exit_is_written_once_and_read_as_of(db: Database) -> None:
    log, notes = Log(db, [PROJECTION], clock=VirtualClock(T0)), Notes(db, owner="me")
    first, second = FollowedExit("t1", -120, None), FollowedExit("t2", 5, 9)
    for seq, exits in enumerate(((first,), (second,))):
        log.append(STREAM, [draft_exits_followed(exits, at=T0)], expected_seq=seq)
    assert notes.followed_exits("a.paper", seq=1, most=9) == {"t1": first}
    assert notes.followed_exits("a.paper", seq=9, most=9) == {"t1": first, "t2": second}
    assert notes.followed_exits("a.paper", seq=9, most=1) == {"t2": second}
    assert verify_log(log, db, packages=(LOG, MIGRATIONS), anchors={}) == []
