"""A broken memory never stops a tick: its section is missing, the run says why, and replay leaves it out again."""

import json
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.desk import health
from tapebook.desk.librarian import Librarian
from tapebook.domain.agent import AgentProfile, Deployment, ReflectionSettings, SkillNote
from tapebook.domain.market import Candle
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, E8, HOUR, MINUTE
from tapebook.errors import Busy, Damaged, StaleWriter, StoreFailed
from tapebook.home import make_home
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.lessons import SLOTS, Lesson, Proposals, hash_lessons_text, note_text
from tapebook.lessons.notes import draft_note_promoted
from tapebook.lessons.search import CaseTable
from tapebook.library.sync import sync_documents
from tapebook.tick.decide import Slot
from tapebook.tick.learn import learn_what_is_due
from tapebook.tick.prepare import MAX_CAUSE_CHARS, MAX_CAUSES, OptionalReads, cause_of, documents_watermark, safe_causes
from tapebook.tick.story import tick
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply
from tests.desk.worker_harness import shops, work
from tests.matrix import covering, examples
from tests.tick.test_learn import LEARNER, alone, season, trade

RULE = "Never average down on a BTC long after a breakout."


class Speechless(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS: dict[str, Exception] = {
    "ValueError": ValueError("not a number\x00\n" + "x" * 10_000),
    "KeyError": KeyError("lessons"),
    "CorruptError": apsw.CorruptError("database disk image is malformed"),
    "OperationalError": sqlite3.OperationalError("no such column"),
    "UnicodeDecodeError": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "RecursionError": RecursionError("maximum recursion depth exceeded"),
    "MemoryError": MemoryError(),
    "Speechless": Speechless(),
    "Damaged": Damaged("stored data contradict themselves \ud800"),
    "StoreFailed": StoreFailed("the disk refused"),
    "Busy": Busy("held by another process"),
    "ExceptionGroup": ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
}

# What is broken, by the name of the section that it costs.
MEMORIES: dict[str, str] = {
    "lessons": "rooms.notes.notes_for_packet",
    "experience": "rooms.experience.records_as_of",
    "horizons": "rooms.horizons.packet_rows",
    "citations": "tapebook.tick.prepare.citations_for",
    "activity": "rooms.book.session",
    "recent_trades": "rooms.book.closed_trades",
    "last_decision": "rooms.book.last_run",
    "features": "tapebook.tick.prepare.with_features",
}
# Lessons are in the system message, and features in the section of the market.
SECTIONS = {name: "recent_activity" if name == "activity" else name for name in MEMORIES}
del SECTIONS["lessons"], SECTIONS["features"]


def broken(error: Exception) -> Callable[..., NoReturn]:
    """What raises."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def break_it(patch: pytest.MonkeyPatch, rooms: Rooms, place: str, error: Exception) -> None:
    """Breaks a method of a room, or a function of a module."""
    if not place.startswith("rooms."):
        patch.setattr(place, broken(error))
        return
    _, *path, method = place.split(".")
    patch.setattr(attrgetter(".".join(path))(rooms), method, broken(error))


class Full:
    """A desk whose agent remembers something in every memory."""

    def __init__(self, floor: Desk) -> None:
        self.floor, self.rooms = floor, floor.rooms
        # Of an ensemble the trust in its members is read too, whoever answers here.
        self.agent = floor.hire(replace(LEARNER, engine="ensemble"))
        season(floor, self.agent)
        floor.later(DAY, BTC=100, ETH=100)
        now = floor.clock.now()
        hour, flat = now - now % HOUR, (100 * E8,) * 4
        bars = [Candle("BTC", 900, hour - number * 900_000, *flat, 1.0, 100.0, 1) for number in range(8, 0, -1)]
        floor.rooms.tape.commit(bars)
        file = floor.rooms.home / "workspace" / "global" / "rules.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(RULE, "utf-8")
        sync_documents(floor.rooms)
        trade(floor, self.agent, "BTC", wins=True, odd=0.1)
        self.decide()

    def decide(self, text: str = reply("hold")) -> DecisionRun:
        """One more decision."""
        self.floor.later(MINUTE, BTC=100, ETH=100)
        return self.floor.say(self.agent, text)

    def replays(self, run: DecisionRun) -> bool:
        """Whether the packet is made again byte for byte."""
        return replay_runs(self.rooms, [run.run_id]).different == []


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    """The desk of this file."""
    with desk(tmp_path_factory.mktemp("full") / "home") as floor:
        made = Full(floor)
        packet = rebuild_packet(made.rooms, made.decide())
        there = {section.name for section in packet.sections}
        assert there >= set(SECTIONS.values()) and "BTC trades do better" in packet.system
        yield made


@pytest.mark.parametrize(("name", "error"), covering(MEMORIES, ERRORS))
def test_whatever_a_memory_raises_the_tick_decides_without_it(
    name: str, error: str, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_it(patch, full.rooms, MEMORIES[name], ERRORS[error])
        run = full.decide()
    assert run.status == "held" and run.degraded == (name,)
    (cause,) = run.degraded_causes
    assert cause.startswith(f"{name}: {error}") and len(cause) <= MAX_CAUSE_CHARS and cause.isprintable()
    assert full.rooms.book.run(run.run_id) == run
    packet = rebuild_packet(full.rooms, run)
    assert name not in SECTIONS or packet.section(SECTIONS[name]) is None
    assert ("BTC trades do better" in packet.system) == (name != "lessons")
    portfolio = packet.section("portfolio")
    assert portfolio is not None and portfolio.get("could_not_be_read") == name
    assert full.replays(run)
    # What is whole again is there again.
    after = full.decide()
    assert (after.degraded, after.degraded_causes) == ((), ()) and full.replays(after)


def test_everything_at_once_may_be_broken(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for place in MEMORIES.values():
            break_it(patch, full.rooms, place, ValueError("gone"))
        run = full.decide()
    assert set(run.degraded) == set(MEMORIES) and len(run.degraded_causes) == len(MEMORIES)
    assert run.status == "held" and full.replays(run) and full.floor.is_whole()


def test_experience_is_in_a_packet_whole_or_not_at_all(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay leaves out what a run names, so nothing of it may be there."""
    with monkeypatch.context() as patch:
        break_it(patch, full.rooms, "rooms.experience.twins.as_of", ValueError("gone"))
        run = full.decide()
    assert run.degraded == ("experience",) and run.degraded_causes == ("experience: ValueError: gone",)
    assert full.replays(run) and rebuild_packet(full.rooms, run).section("experience") is None


PLACES = [*MEMORIES.values(), "tapebook.tick.prepare.documents_watermark", "rooms.horizons.store.last_change"]
PLACES += [
    f"tapebook.tick.learn.{name}" for name in ("outcomes_due", "layers_due", "promoted_notes_due", "run_reflection")
]
PLACES += [
    "rooms.experience.twins.as_of",
    "rooms.notes.last_reflection",
    "tapebook.tick.decide.moment_drafts",
    "tapebook.tick.execute.lessons_for",
]


@settings(max_examples=examples(40), deadline=None)
@given(st.dictionaries(st.sampled_from(PLACES), st.sampled_from(list(ERRORS)), max_size=6), st.booleans())
def test_a_tick_never_raises_for_a_memorys_sake(full: Full, failing: dict[str, str], opens: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for place, error in failing.items():
            break_it(patch, full.rooms, place, ERRORS[error])
        run = full.decide(reply("open", "long", 100) if opens else reply("close"))
        full.floor.later(10_000, BTC=100, ETH=100)
        full.floor.work(full.agent)
    assert run.packet_sha256 and full.replays(run)


def test_causes_are_few_short_and_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with desk(tmp_path / "home") as floor:
        said = [
            cause_of("lessons", ValueError(f"401 for sk-secret-0123456789{'!' * 999}")),
            cause_of("book", OSError("cannot reach postgresql://me:password@host/db")),
            *(cause_of("lessons", KeyError(number)) for number in range(99)),
        ]
        kept = safe_causes(said, without_keys=floor.rooms.without_keys)
    assert len(kept) == MAX_CAUSES and max(map(len, kept)) == MAX_CAUSE_CHARS
    assert kept[0].startswith("lessons: ValueError: 401 for …!!!") and kept[1].endswith("postgresql://…@host/db")
    assert not [cause for cause in kept if "secret" in cause or "password" in cause]


def test_a_read_that_was_left_out_is_not_tried() -> None:
    optional = OptionalReads(["lessons"], causes=["learning layers: KeyError"])
    assert optional.read_or_default("lessons", 7, broken(ValueError())) == 7
    assert optional.read_or_default("other", 0, lambda: 1) == 1
    assert (optional.degraded, optional.causes) == (["lessons"], ["learning layers: KeyError"])


def test_what_is_no_memory_is_raised(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("rooms.book.account", "rooms.book.orders_under_way", "tapebook.tick.prepare.read_market"):
        with monkeypatch.context() as patch:
            break_it(patch, full.rooms, place, ValueError("not a memory"))
            with pytest.raises(ValueError, match="not a memory"):
                full.decide()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("tapebook.tick.prepare.lessons_and_scale", _interrupted)
        full.decide()


def _interrupted(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


def test_nothing_grows_while_nobody_knows_what_was_done_today(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever another test left held, which may have been more: the position is this size before it grows.
    for text in (reply("close"), reply("open", "long", 100, symbol="BTC")):
        opened = full.decide(text)
        full.floor.later(10_000, BTC=100, ETH=100)
        full.floor.work(full.agent)
    assert opened.status == "placed"
    with monkeypatch.context() as patch:
        break_it(patch, full.rooms, MEMORIES["activity"], KeyError("orders"))
        grows, closes = full.decide(reply("adjust", "long", 300)), full.decide(reply("close"))
    (verdict,) = grows.verdicts
    assert (grows.status, verdict.rule) == ("rejected", "R5_DAILY_LOSS")
    assert verdict.detail == "what was done today cannot be read (activity: KeyError: 'orders')"
    assert closes.status == "placed"


# What is written beside a decision


def test_a_sighting_that_fails_costs_no_order(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        break_it(patch, full.rooms, "tapebook.tick.decide.moment_drafts", ValueError("no shape"))
        run = full.decide(reply("open", "long", 100, symbol="BTC"))
    assert run.status == "placed" and run.degraded == () and run.degraded_causes == ("sighting: ValueError: no shape",)
    full.floor.later(10_000, BTC=100, ETH=100)
    full.floor.work(full.agent)
    full.decide(reply("close"))
    full.floor.later(10_000, BTC=100, ETH=100)
    full.floor.work(full.agent)
    after = full.decide()
    learned = full.rooms.experience.outcomes(full.agent.id, seq=full.rooms.book.head(full.agent.id), most=1)
    assert after.degraded == () and [each.run_id for each in learned] == [run.run_id]
    assert full.replays(run) and full.floor.is_whole()


def test_fills_are_booked_without_lessons(full: Full, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    full.decide(reply("open", "long", 100, symbol="BTC"))
    full.floor.later(10_000, BTC=100, ETH=100)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "tapebook"):
        break_it(patch, full.rooms, "tapebook.tick.execute.lessons_for", KeyError("note"))
        full.floor.work(full.agent)
    account = full.rooms.book.account(full.agent.id, seq=full.rooms.book.head(full.agent.id))
    assert account.open_trades["BTC"].entry_lessons_hash is None
    assert [record.fields["cause"] for record in caplog.records] == ["lessons: KeyError: 'note'"]
    full.decide(reply("close"))
    full.floor.later(10_000, BTC=100, ETH=100)
    full.floor.work(full.agent)


# While learning

PARTS = {"outcomes": "outcomes_due", "layers": "layers_due", "promoted notes": "promoted_notes_due"}


@pytest.mark.parametrize(("part", "error"), covering([*PARTS, "reflection"], ERRORS))
def test_whatever_learning_raises_the_tick_goes_on_and_the_rest_is_learned(
    part: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = PARTS.get(part, "run_reflection")
    with desk(tmp_path / "home") as floor:
        agent = everything_due(floor)
        with monkeypatch.context() as patch:
            break_it(patch, floor.rooms, f"tapebook.tick.learn.{name}", ERRORS[error])
            run = floor.say(agent, reply("hold"))
        assert run.status == "held" and run.degraded == ("learning",)
        (cause,) = run.degraded_causes
        assert cause.startswith(f"learning {part}: {error}")
        assert what_was_learned(floor, agent) == {*PARTS, "reflection"} - {part}
        floor.later(MINUTE, BTC=100, ETH=100)
        after = floor.say(agent, reply("hold"))
        assert (after.degraded, after.degraded_causes) == ((), ())
        if part != "reflection":
            assert what_was_learned(floor, agent) == {*PARTS, "reflection"}
        assert replay_runs(floor.rooms, [run.run_id, after.run_id]).different == [] and floor.is_whole()


def everything_due(floor: Desk) -> Deployment:
    """An agent with trades nobody learned from, a day that is over, a note that is due and one that was promoted."""
    agent = floor.hire(replace(LEARNER, reflection=ReflectionSettings(every_n_trades=2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tapebook.tick.story.learn_what_is_due", lambda rooms, deployment: ())
        for _ in range(2):
            floor.later(MINUTE, BTC=100, ETH=100)
            tick_without_learning(floor, agent, reply("open", "long", 100))
            floor.later(10_000, BTC=100, ETH=100)
            floor.work(agent)
            floor.later(MINUTE, BTC=101, ETH=100)
            tick_without_learning(floor, agent, reply("close"))
            floor.later(10_000, BTC=101, ETH=100)
            floor.work(agent)
    text = note_text({SLOTS[0]: ["Wait for the close."]})
    shared = SkillNote("a", "note-1", "elsewhere", "other", floor.clock.now(), text, hash_lessons_text(text))
    floor.rooms.book.append("", [draft_note_promoted(shared)], expected_seq=floor.rooms.book.head())
    floor.later(DAY, BTC=100, ETH=100)
    assert what_was_learned(floor, agent) == set()
    return agent


def tick_without_learning(floor: Desk, agent: Deployment, text: str) -> None:
    """A decision before which nothing is learned."""
    from tapebook.decision import EngineAnswer

    slot = Slot(agent, "BTC", floor.clock.now())
    tick(floor.rooms, slot, ask=lambda _decide, _packet: EngineAnswer(text), learn=lambda _rooms, _deployment: ())


def what_was_learned(floor: Desk, agent: Deployment) -> set[str]:
    """The parts of learning that have left something in the log."""
    seq, rooms = floor.rooms.book.head(agent.id), floor.rooms
    found = {
        "outcomes": rooms.experience.outcomes(agent.id, seq=seq, most=9),
        "layers": rooms.horizons.packet_rows(agent.id, seq=seq, as_of=floor.clock.now(), curated=0),
        "promoted notes": rooms.notes.skill_notes(agent.id, seq=seq),
        "reflection": [each for each in rooms.notes.reflections(agent.id, most=9) if each.status == "active"],
    }
    return {name for name, learned in found.items() if learned}


class Counted:
    """A reflector that costs money and breaks; it counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def propose(self, agent: AgentProfile, table: CaseTable, *, standing: Sequence[Lesson]) -> Proposals:
        self.asked += 1
        raise ValueError("the model said something that nobody can read")


def test_a_model_that_breaks_is_asked_again_at_the_next_trigger_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent, reflector = everything_due(floor), Counted()
        monkeypatch.setattr(floor.rooms, "reflector", lambda agent: reflector)
        runs = []
        for _ in range(5):
            floor.later(MINUTE, BTC=100, ETH=100)
            runs.append(floor.say(agent, reply("hold")))
        assert reflector.asked == 1 and [run.degraded for run in runs] == [("learning",), (), (), (), ()]
        (kept,) = floor.rooms.notes.reflections(agent.id, most=9)
        assert kept.status == "refused" and "ValueError: the model said" in kept.problem
        for _ in range(2):
            trade(floor, agent, "BTC", wins=True, odd=0.0)
        floor.say(agent, reply("hold"))
        assert reflector.asked == 2 and floor.is_whole()


def test_a_note_that_cannot_be_written_is_not_paid_for_at_every_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent, reflector = everything_due(floor), Counted()
        monkeypatch.setattr(floor.rooms, "reflector", lambda agent: reflector)
        learn_what_is_due(floor.rooms, replace(agent, agent=replace(agent.agent, reflection=ReflectionSettings("off"))))
        monkeypatch.setattr(floor.rooms.book, "append", unwritable(floor.rooms, "note.refused", KeyError("column")))
        causes = [learn_what_is_due(floor.rooms, agent) for _ in range(4)]
        assert [len(each) for each in causes] == [2, 0, 0, 0] and reflector.asked == 1
        assert causes[0][1] == "learning reflection: KeyError: 'column'\n"


def unwritable(rooms: Rooms, kind: str, error: Exception) -> Callable[..., Any]:
    """An append that fails for what writes events of one kind."""
    append = rooms.book.append

    def appended(deployment: str, drafts: Sequence[Any], *, expected_seq: int) -> Any:
        if any(draft.kind.startswith(kind) for draft in drafts):
            raise error
        return append(deployment, drafts, expected_seq=expected_seq)

    return appended


def test_a_part_whose_rows_cannot_be_written_leaves_the_others_standing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = everything_due(floor)
        with monkeypatch.context() as patch:
            patch.setattr(
                floor.rooms.book,
                "append",
                unwritable(floor.rooms, "experience.learned", apsw.ConstraintError("unique")),
            )
            causes = learn_what_is_due(floor.rooms, agent)
        assert [cause.partition(":")[0] for cause in causes] == ["learning outcomes"]
        assert what_was_learned(floor, agent) == {"layers", "promoted notes", "reflection"}
        assert learn_what_is_due(floor.rooms, agent) == () and "outcomes" in what_was_learned(floor, agent)
        assert floor.is_whole()


@pytest.mark.parametrize("error", [StaleWriter("another writer was first"), StoreFailed("the disk is full")])
def test_what_the_book_says_of_an_append_is_raised(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = everything_due(floor)
        head = floor.rooms.book.head(agent.id)
        with monkeypatch.context() as patch, pytest.raises(type(error)):
            patch.setattr(floor.rooms.book, "append", broken(error))
            floor.say(agent, reply("hold"))
        assert floor.rooms.book.head(agent.id) == head


def test_who_writes_alone_goes_on_too_and_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with alone(tmp_path / "home") as floor:
        agent = everything_due(floor)
        with monkeypatch.context() as patch:
            break_it(patch, floor.rooms, "tapebook.tick.learn.outcomes_due", KeyError("x"))
            lacking = [floor.say(agent, reply("hold"))]
            floor.later(MINUTE, BTC=100, ETH=100)
            lacking.append(floor.say(agent, reply("hold")))
        assert [run.degraded for run in lacking] == [("learning",)] * 2
        floor.later(MINUTE, BTC=100, ETH=100)
        assert floor.say(agent, reply("hold")).degraded == ()
        assert what_was_learned(floor, agent) == {*PARTS, "reflection"}
        assert replay_runs(floor.rooms, floor.rooms.book.run_ids(most=99)).different == [] and floor.is_whole()


# Damage on the disk


def test_an_index_that_is_garbage_costs_the_citations(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        Full(floor)
        clock = floor.clock
    for beside in home.glob("recall*.db*"):
        beside.unlink()
    (home / "recall-r3.db").write_bytes(b"this is no database " * 500)
    with closing(Rooms(home, clock=clock)) as rooms:
        floor = Desk(rooms, clock)
        agent = floor.hire(LEARNER)
        with pytest.raises(Damaged):
            documents_watermark(rooms.documents, rooms.indexes)
        floor.later(MINUTE, BTC=100, ETH=100)
        run = floor.say(agent, reply("hold"))
        assert run.degraded == ("citations",) and run.watermarks.docs == 0
        assert run.degraded_causes[0].startswith("citations: Damaged: ")
        # The librarian cannot help it either, and says so instead of ending the desk.
        librarian = Librarian(rooms)
        assert librarian.turn() is False and "recall-r3.db" in (librarian.problem or "")
        (home / "recall-r3.db").unlink()
        rooms.indexes.close()
        floor.later(MINUTE, BTC=100, ETH=100)
        sync_documents(rooms)
        assert replay_runs(rooms, [run.run_id]).different == []
        floor.later(MINUTE, BTC=100, ETH=100)
        assert floor.say(agent, reply("hold")).degraded == ()


DAMAGE = {
    "a situation that is no JSON": ("UPDATE experience_sights SET sight_json = '{'", "learning"),
    "a record that is no number": ("UPDATE experience_records SET n = 'x', total_ppm = 'x'", "experience"),
    "a note that is no text": ("UPDATE reflection_notes SET lessons_text = CAST(x'ff00fe' AS TEXT)", "lessons"),
    "a layer that is no JSON": ("UPDATE context_versions SET value = '{'", "horizons"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The home of such a desk that holds a position, and when that was; only to be copied."""
    home = tmp_path_factory.mktemp("full") / "home"
    with desk(home) as floor:
        before = Full(floor)
        assert before.decide(reply("open", "long", 100)).status == "placed"
        floor.later(10_000, BTC=100, ETH=100)
        floor.work(before.agent)
        return home, floor.clock.now()


@pytest.mark.parametrize("what", DAMAGE)
def test_rows_that_are_damaged_cost_their_section(what: str, filled: tuple[Path, int], tmp_path: Path) -> None:
    (home, now), (statement, name) = filled, DAMAGE[what]
    home, clock = shutil.copytree(home, tmp_path / "home"), VirtualClock(now)
    with closing(Rooms(home, clock=clock)) as rooms:
        rooms.book_db.execute(sql(statement))
    # Another process, which remembers nothing.
    with closing(Rooms(home, clock=clock)) as rooms:
        floor = Desk(rooms, clock)
        agent, made = floor.hire(LEARNER), []
        for text in (reply("close"), reply("hold"), reply("hold")):
            floor.later(MINUTE, BTC=100, ETH=100)
            made.append(floor.say(agent, text))
            floor.later(10_000, BTC=100, ETH=100)
            floor.work(agent)
        assert [run.status for run in made] == ["placed", "held", "held"] and floor.held(agent) == {}
        assert name in {lost for run in made for lost in run.degraded}
        for run in made:
            assert set(run.degraded) <= {name, "learning"} and bool(run.degraded) == bool(run.degraded_causes)
        assert replay_runs(rooms, [run.run_id for run in made]).different == []
        assert rooms.book.cash_differences() == []


# Who is told


def test_doctor_says_what_was_missing_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        agent = floor.hire(LEARNER)
        floor.later(MINUTE, BTC=100, ETH=100)
        floor.say(agent, reply("hold"))
        assert memory_check(floor.rooms) == health.Check("memory", True, "no decision of the last 24 h lacked anything")
        for number in range(3):
            with monkeypatch.context() as patch:
                break_it(patch, floor.rooms, "rooms.notes.notes_for_packet", KeyError(number))
                floor.later(MINUTE, BTC=100, ETH=100)
                if number == 1:
                    # Without anything to learn, nobody would ask for the layers.
                    floor.rooms.memory.nothing_to_learn_at.clear()
                    break_it(patch, floor.rooms, "tapebook.tick.learn.layers_due", ValueError("day"))
                run = floor.say(agent, reply("hold"))
        said = "degraded in the last 24 h: lessons ×3 (KeyError: 2), learning layers ×1 (ValueError: day)"
        assert memory_check(floor.rooms) == health.Check("memory", False, f"{said}; newest run {run.run_id}")
        with app.open(home, clock=floor.clock) as book:
            assert book.run(run.run_id)["degraded_causes"] == ("lessons: KeyError: 2",)
            assert next(each["degraded"] for each in book.runs()) == ("lessons",)
        floor.later(DAY + MINUTE, BTC=100)
        assert memory_check(floor.rooms).ok


def memory_check(rooms: Rooms) -> health.Check:
    """The line of `doctor`."""
    (found,) = [check for check in health.health_checks(rooms) if check.name == "memory"]
    return found


def test_it_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    make_home(tmp_path / "home")
    with shops(tmp_path / "home") as (one, _):
        one.hire(AgentProfile("a", ("BTC",), cadence_ms=5 * MINUTE))
        one.quote("BTC", "ETH")
        one.list_due()
        break_it(monkeypatch, one.rooms, "rooms.notes.notes_for_packet", KeyError("note"))
        with caplog.at_level(logging.WARNING, "tapebook"):
            worker = one.worker()
            work(worker)
        (run_id,) = one.rooms.book.run_ids(most=9)
        assert (worker.made, worker.failed) == (1, 0)
        assert worker.problem is None, "the run says it"
        fields = {"deployment": "a.paper", "symbol": "BTC", "run": run_id, "cause": "lessons: KeyError: 'note'"}
        assert [(record.getMessage(), vars(record)["fields"]) for record in caplog.records] == [
            ("memory failed", fields)
        ]
        assert json.dumps(worker.progress_line())
