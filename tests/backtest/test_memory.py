"""The memory of a backtest: its rooms, what it begins with, and what it can see of a home's texts as of T."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tapebook
from tapebook.backtest.home import BacktestHome
from tapebook.backtest.memory import LEARNING_KINDS, inherited_seq, is_learning, memory_mode, with_memory_mode
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.planning import plan_for
from tapebook.backtest.result import BacktestResult
from tapebook.clock import VirtualClock
from tapebook.desk.agents import add_agent
from tapebook.domain.agent import ACCOUNT_ROOMS, MEMORY_ROOMS, AgentProfile, ContextProfile
from tapebook.domain.units import DAY, HOUR, iso_text, parse_instant
from tapebook.errors import BadInput, UnknownName
from tapebook.experience.records import ALL
from tapebook.home import make_home as new_home
from tapebook.horizons.contexts import draft_values_written
from tapebook.horizons.events import TimeframeValues
from tapebook.horizons.layers import ContextLayer
from tapebook.lab.replay import rebuild_packet
from tapebook.library.sync import sync_documents
from tapebook.log import Draft
from tapebook.settings.profiles import settings_from_mapping
from tapebook.wiring import Rooms
from tests.backtest.bars import START, bars, fill_tape, make_home

AGENT = AgentProfile("tester", ("BTC",))
NAME = "tester.paper"


def plan(memory: str, agent: AgentProfile, freeze_at: int | None = None) -> BacktestPlan:
    return BacktestPlan(agent, 1, ("BTC",), START, START + 10, "none", (), memory, freeze_at, 1, "")


def test_a_plan_stored_with_memory_off_keeps_its_meaning() -> None:
    """Its agent was shown nothing of its account either, and it learned nothing."""
    stored = msgspec.to_builtins(plan("off", AGENT))
    stored["agent"]["context"]["memory"] = False
    found = msgspec.convert(stored, BacktestPlan)
    assert found.agent.context.rooms == () and not is_learning(found, START)


@pytest.mark.parametrize(
    ("memory", "rooms", "learns", "reflects"),
    [
        ("on", MEMORY_ROOMS, True, True),
        ("off", ACCOUNT_ROOMS, False, False),
        ("none", (), False, False),
        ("none,trades", ("trades",), False, False),
        ("lessons", (*ACCOUNT_ROOMS, "lessons"), True, True),
        ("experience,documents", (*ACCOUNT_ROOMS, "experience", "documents"), True, False),
    ],
)
def test_what_a_memory_shows_and_learns(memory: str, rooms: tuple[str, ...], learns: bool, reflects: bool) -> None:
    agent = with_memory_mode(AGENT, memory)
    assert agent.context.rooms == rooms and memory_mode(memory) == memory
    assert is_learning(plan(memory, agent), START) is learns
    assert (agent.reflection.cadence != "off") is reflects


def test_on_and_frozen_leave_an_agent_the_rooms_of_its_own() -> None:
    own = msgspec.structs.replace(AGENT, context=ContextProfile(memory=("trades", "lessons")))
    assert with_memory_mode(own, "on").context == with_memory_mode(own, "frozen").context == own.context
    frozen = plan("frozen", own, freeze_at=START + 5)
    assert (is_learning(frozen, START + 4), is_learning(frozen, START + 5)) == (True, False)


# A memory that begins with another's

FIRST_END = START + 8 * DAY


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifteen days of quarter hours."""
    home = make_home(tmp_path_factory.mktemp("memory"), days=0, every_minutes="15", reflection_trades="5")
    fill_tape(home, list(bars("BTC", seed=1, days=15, minutes=15)))
    return home


@pytest.fixture(scope="module")
def first(home: Path) -> BacktestResult:
    return asked(home, end=FIRST_END)


@pytest.fixture(scope="module")
def second(home: Path, first: BacktestResult) -> BacktestResult:
    return asked(home, start=FIRST_END, memory_from=first.id, chunks="week")


def asked(home: Path, **wish: Any) -> BacktestResult:
    with tapebook.open(home) as book:
        return book.backtest("tester", **({"chunks": "none"} | wish))


@contextmanager
def opened(home: Path, result: BacktestResult) -> Iterator[Rooms]:
    with closing(Rooms(home / "backtests" / result.id, clock=VirtualClock(result.end))) as rooms:
        yield rooms


def learned(rooms: Rooms, *, seq: int, as_of: int) -> tuple[Any, ...]:
    """All that the rooms which learn say as of a sequence number, but for where in a log it stands."""
    records, note = rooms.experience.records_as_of(NAME, seq=seq), rooms.notes.active_note(NAME, seq=seq)
    situations = rooms.experience.situation_count(NAME, seq=seq)
    return records.records, situations, note, rooms.horizons.packet_rows(NAME, seq=seq, as_of=as_of)


def test_a_backtest_begins_with_what_another_had_learned(
    home: Path, first: BacktestResult, second: BacktestResult
) -> None:
    with opened(home, first) as before, opened(home, second) as after:
        at_the_end = learned(before, seq=before.book.head(NAME), as_of=FIRST_END)
        plan = BacktestHome(after.home).plan()
        begins = inherited_seq(after.book, after.log, plan)
        assert learned(after, seq=begins, as_of=FIRST_END) == at_the_end
        assert at_the_end[1] > 0 and at_the_end[2] is not None and at_the_end[3]
        # Of the account nothing comes along, and what is learned from then on is added to what was known.
        assert not after.book.closed_trades(NAME, seq=begins, most=10)
        assert after.book.account(NAME, seq=begins).portfolio.cash_usd_e6 == plan.agent.starting_cash_usd_e6
        records = after.experience.records_as_of(NAME, seq=after.book.head(NAME)).records
        whole = [record.n for (kind, _), record in records.items() if kind == ALL]
    assert whole == [first.total.trades + second.total.trades]
    assert plan.memory_from is not None and plan.memory_from.name == first.id


def test_made_again_it_is_the_same(home: Path, second: BacktestResult, first: BacktestResult) -> None:
    with tapebook.open(home) as book:
        wish: Any = {"start": FIRST_END, "memory_from": first.id, "chunks": "week"}
        for chunk in (None, *(each.name for each in second.chunks)):
            assert book.backtest_again("tester", chunk=chunk, **wish).differs == ()
        inherited = book.backtests.show(second.id)["memory_from"]
        assert inherited is not None and inherited["name"] == first.id
        said = "\n".join(book.backtests.lines(second.id))
    assert f"it began with what backtest {first.id} had learned by 2023-01-09 (" in said
    assert "memory showed positions, activity, trades, lessons, experience, horizons, documents\n" in said
    assert re.search(r"experience: \d+ outcomes and \d+ situations known", said)
    assert "of the home's documents and curated entries none was known before its end" in said


def test_the_live_agent_as_of_the_start(home: Path, tmp_path: Path, first: BacktestResult) -> None:
    """What it learned later is not taken over, however much that is."""
    live = shutil.copytree(home, tmp_path / "home")
    with opened(home, first) as rooms:
        found = [event for event in rooms.log.events(rooms.book.stream(NAME)) if event.kind in LEARNING_KINDS]
    half = len(found) // 2
    for at, events in ((FIRST_END - DAY, found[:half]), (FIRST_END + DAY, found[half:])):
        with closing(Rooms(live, clock=VirtualClock(at))) as rooms:
            drafts = [Draft(event.kind, event.happened_at, event.body) for event in events]
            rooms.log.append(rooms.book.stream(NAME), drafts, expected_seq=rooms.book.head(NAME))
    result = asked(live, start=FIRST_END, memory_from="live")
    with opened(live, result) as rooms:
        plan = BacktestHome(rooms.home).plan()
        source, kinds = plan.memory_from, Counter(event.kind for event in found[:half])
        copied = Counter(
            event.kind
            for event in rooms.log.events(rooms.book.stream(NAME), until=inherited_seq(rooms.book, rooms.log, plan))
        )
    assert source is not None and (source.name, source.events, source.learned_until) == ("live", half, FIRST_END)
    assert {kind: copied[kind] for kind in kinds} == kinds


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (
            {"start": FIRST_END - DAY},
            r"^backtest .* learned until 2023-01-09T.*, and this one begins before that, at 2023",
        ),
        ({"start": FIRST_END, "memory": "off"}, "would not be seen with `memory=` off: name rooms that are learned"),
        ({"start": FIRST_END, "memory_from": "live"}, "^the live tester had learned nothing by 2023-01-09"),
        ({"start": FIRST_END, "memory_from": "bt-none"}, "there is no backtest 'bt-none'"),
    ],
)
def test_a_memory_that_cannot_be_had(home: Path, first: BacktestResult, wish: dict[str, Any], says: str) -> None:
    with pytest.raises((BadInput, UnknownName), match=says) as refused:
        asked(home, **({"memory_from": first.id} | wish))
    assert "\n" not in str(refused.value)


# Documents and curated entries as of T


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of those days: documents and curated entries of several moments, some of them after its end."""
    home = tmp_path_factory.mktemp("texts") / "home"
    new_home(home)
    with closing(Rooms(home, clock=VirtualClock(START - 30 * DAY))) as rooms:
        add_agent(
            rooms, "tester", settings_from_mapping({"watch": "BTC", "engine": "ensemble", "every_minutes": "120"})
        )
    fill_tape(home, list(bars("BTC", seed=1, days=6, minutes=15)))
    write(home, START + DAY, {"global/old.md": "BTC tester ensemble: the oldest word on trends."})
    write(
        home,
        START + 2 * DAY,
        {"agents/tester/strategies/plan.md": "BTC ensemble: cut the plan in half.", "global/old.md": None},
    )
    curate(home, "", START + 3 * DAY, "greatest", "the word of the owner")
    curate(home, NAME, START + 3 * DAY + HOUR, "own", "the word on tester")
    dated = "---\nknown_at: 2023-01-05T06:00:00Z\n---\nBTC ensemble: dated back to the fifth of January."
    late = "BTC ensemble: nobody knew this in January."
    write(home, START + 300 * DAY, {"global/dated.md": dated, "global/late.md": late})
    curate(home, "", START + 300 * DAY, "never_again", "nobody knew this either")
    return home


def write(home: Path, at: int, files: dict[str, str | None]) -> None:
    """Files of the workspace, written or removed and synced at a moment."""
    for name, text in files.items():
        place = home / "workspace" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink() if text is None else place.write_text(text, encoding="utf-8")
    with closing(Rooms(home, clock=VirtualClock(at))) as rooms:
        sync_documents(rooms)


def curate(home: Path, scope: str, at: int, key: str, value: str) -> None:
    with closing(Rooms(home, clock=VirtualClock(at))) as rooms:
        told = TimeframeValues(ContextLayer.L1_LEGACY, "LEGACY", {key: msgspec.json.encode(value).decode()})
        rooms.book.append(
            scope, [draft_values_written(told, owner="local", at=at)], expected_seq=rooms.book.head(scope)
        )


def packets(home: Path, result: BacktestResult) -> dict[int, str]:
    """The packet of every decision, by its moment, made again from what is stored."""
    with opened(home, result) as rooms:
        runs = [rooms.book.run(run_id) for run_id in rooms.book.run_ids(most=10_000)]
        return {run.as_of: rebuild_packet(rooms, run).text for run in runs if run is not None}


@pytest.fixture(scope="module")
def shown(texts: Path) -> dict[int, str]:
    """The packets of a backtest over those days."""
    return packets(texts, asked(texts))


def test_a_packet_shows_documents_and_curated_entries_as_of_its_moment(texts: Path, shown: dict[int, str]) -> None:
    result = asked(texts)
    said = {
        "the oldest word on trends": (START + DAY, START + 2 * DAY),
        "cut the plan in half": (START + 2 * DAY, result.end),
        "the word of the owner": (START + 3 * DAY, result.end),
        "the word on tester": (START + 3 * DAY + HOUR, result.end),
        "dated back to the fifth": (parse_instant("2023-01-05T06:00:00Z"), result.end),
        "nobody knew this": (result.end, result.end),
    }
    for words, (since, until) in said.items():
        for at, text in shown.items():
            assert (words in text) == (since <= at < until), (words, iso_text(at))
    plan = BacktestHome(texts / "backtests" / result.id).plan()
    assert plan.texts is not None and (plan.texts.versions, plan.texts.dated, plan.texts.curated) == (4, 1, 2)
    with tapebook.open(texts) as book:
        assert book.backtest_again("tester", chunks="none").differs == ()
        lines = "\n".join(book.backtests.lines(result.id))
    assert "known: 4 versions of documents, 1 of them dated by what they say themselves, and 2 curated entries" in lines
    assert "documents: 2 documents at the end" in lines


def test_what_is_known_later_changes_no_byte(texts: Path, shown: dict[int, str], tmp_path: Path) -> None:
    """More of it, less of it, other words: the id, the packets and the result stay; what was known changes them."""
    before = asked(texts)
    later = shutil.copytree(texts, tmp_path / "later")
    shutil.rmtree(later / "backtests")
    write(later, START + 301 * DAY, {"global/late.md": "BTC ensemble: other words.", "global/more.md": "BTC more."})
    dated = "---\nknown_at: 2023-02-05\n---\nBTC ensemble: dated after the end."
    write(later, START + 302 * DAY, {"global/after.md": dated, "agents/tester/strategies/plan.md": None})
    curate(later, "", START + 303 * DAY, "greatest", "another word")
    after = asked(later)
    assert after.id == before.id and packets(later, after) == shown
    assert msgspec.json.encode(after) == msgspec.json.encode(before)
    write(
        later, START + 304 * DAY, {"global/second.md": "---\nknown_at: 2023-01-03\n---\nBTC ensemble: known in time."}
    )
    earlier = asked(later)
    assert earlier.id != before.id and packets(later, earlier) != shown


def test_a_later_version_with_an_earlier_date_stands_before_the_one_it_replaced(texts: Path, tmp_path: Path) -> None:
    home = shutil.copytree(texts, tmp_path / "home")
    write(home, START + 305 * DAY, {"global/dated.md": "---\nknown_at: 2023-01-04\n---\nBTC ensemble: the fourth."})
    shown = packets(home, asked(home))
    assert not any("dated back to the fifth" in text for text in shown.values())
    assert all(("the fourth" in text) == (at >= parse_instant("2023-01-04")) for at, text in shown.items())


def test_rooms_that_are_off_see_no_texts(texts: Path) -> None:
    for memory, versions, curated in (("documents", 4, 0), ("horizons", 0, 2), ("experience", None, None)):
        with closing(Rooms(texts, clock=VirtualClock(START))) as rooms:
            plan = plan_for(rooms, rooms.book.find_agent("tester"), {"chunks": "none", "memory": memory})
        found = (plan.texts.versions, plan.texts.curated) if plan.texts else (None, None)
        assert found == (versions, curated)


def test_a_date_that_is_none_is_one_line(texts: Path, tmp_path: Path) -> None:
    home = shutil.copytree(texts, tmp_path / "home")
    write(home, START + 306 * DAY, {"global/odd.md": "---\nknown_at: soon\n---\nBTC."})
    with pytest.raises(
        BadInput, match=r"^known_at in the front matter of global/odd.md: 'soon' is not a time"
    ) as refused:
        asked(home)
    assert "\n" not in str(refused.value)


# What an id covers


def test_an_id_covers_the_memory_it_begins_with_and_the_texts_it_sees(
    home: Path, first: BacktestResult, second: BacktestResult, texts: Path
) -> None:
    with closing(Rooms(home, clock=VirtualClock(START))) as rooms:
        tester = rooms.book.find_agent("tester")
        begins: dict[str, Any] = {"start": FIRST_END, "chunks": "week"}
        without = plan_for(rooms, tester, begins)
        given = plan_for(rooms, tester, begins | {"memory_from": first.id[:8]})
        assert given.id == second.id != without.id and (without.memory_from, without.texts) == (None, None)
        assert given.memory_from is not None
        other = msgspec.structs.replace(given.memory_from, head="another history")
        assert msgspec.structs.replace(given, memory_from=other).id != given.id
    with closing(Rooms(texts, clock=VirtualClock(START))) as rooms:
        tester = rooms.book.find_agent("tester")
        plan = plan_for(rooms, tester, {"chunks": "none"})
        rooms.config = msgspec.structs.replace(  # type: ignore[misc]
            rooms.config, recall=msgspec.structs.replace(rooms.config.recall, per_document=7)
        )
        assert plan_for(rooms, tester, {"chunks": "none"}).id != plan.id, "how documents are searched decides too"
