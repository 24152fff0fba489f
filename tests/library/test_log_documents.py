"""What the log tells becomes documents: each trade, each day's decisions, what went wrong, and what agents noted."""

from pathlib import Path

import pytest

from tapebook.decision import EngineAnswer
from tapebook.desk.agents import add_agent, edit_agent, remove_agent
from tapebook.domain.market import Gap
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, HOUR, MINUTE, iso_text
from tapebook.errors import BadInput, StoreFailed
from tapebook.library import document_texts as docs
from tapebook.library import log_documents
from tapebook.library.log_documents import write_log_documents
from tapebook.library.search import search_documents
from tapebook.tick.decide import Slot, record_unmade_runs
from tapebook.tick.story import tick
from tests.desk.desks import START, desk, reply
from tests.library.libraries import ANN, Library, library, with_note

TODAY = iso_text(START)[:10]


def only(shelf: Library, part: str) -> str:
    """The text of the one document whose path has a part."""
    (path,) = [path for path in shelf.paths() if part in path]
    return shelf.text(path)


def test_a_closed_trade_tells_both_its_decisions_and_its_outcome(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.round_trip()
        assert shelf.sync().derived >= 2
        text = only(shelf, "agents/ann/trades/")
        assert text.startswith("# Trade: long BTC won +")
        assert '"breakout above the range"' in text and '"target reached"' in text
        assert "net +" in text and "fees -" in text and "regime unknown" in text
        runs = shelf.rooms.book.run_ids(most=9)
        assert all(f"run {run}" in text for run in runs[:2])
        assert "open long BTC for 100.00 USD at 1x, confidence 0.00: allowed" in text


def test_a_transcript_has_the_decisions_that_acted_or_were_refused(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        agent = shelf.floor.hire(ANN)
        shelf.round_trip()
        shelf.floor.say(agent, reply("hold", reason="nothing to see"))
        shelf.floor.later(MINUTE, BTC=101)
        shelf.floor.say(agent, reply("open", "long", 99_000, reason="too much"))
        shelf.floor.later(MINUTE, BTC=101)
        shelf.floor.say(agent, "this is not JSON")
        shelf.sync()
        text = shelf.text(f"agents/ann/transcripts/{TODAY}.md")
        assert text.count("\n## ") == 4
        assert "refused by R3_POSITION_CAP" in text and "not the JSON that was asked for" in text
        assert "nothing to see" not in text


def test_a_transcript_grows_and_goes_on_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "DECISIONS_PER_PART", 3)
    with library(tmp_path / "home") as shelf:
        agent = shelf.floor.hire(ANN)
        shelf.floor.quote(BTC=100)
        for number in range(8):
            shelf.floor.later(MINUTE, BTC=100)
            shelf.floor.say(agent, reply("open", "long", 99_000, reason=f"try {number}"))
            if number % 3 == 0:
                shelf.sync()
        shelf.sync()
        parts = [shelf.text(f"agents/ann/transcripts/{TODAY}{part}.md") for part in ("", "-2", "-3")]
        told = [line for text in parts for line in text.splitlines() if "because" in line]
        assert [f'"try {number}"' in line for number, line in enumerate(told)] == [True] * 8
        assert [text.count("\n## ") for text in parts] == [3, 3, 2]


def test_pages_give_the_same_documents_as_one_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(home: Path, page: int) -> dict[str, str]:
        monkeypatch.setattr(log_documents, "EVENTS_PER_PAGE", page)
        with library(home) as shelf:
            for number in range(4):
                shelf.round_trip(note=f"thought {number}")
            agent = shelf.floor.hire(ANN)
            slot = Slot(agent, "BTC", shelf.floor.clock.now())
            record_unmade_runs(shelf.rooms, [slot], status="failed", error="the engine broke")
            shelf.floor.later(MINUTE, BTC=100)
            shelf.floor.say(agent, reply("hold"))
            shelf.sync()
            assert shelf.floor.is_whole()
            return {path: shelf.text(path) for path in shelf.paths()}

    whole = told(tmp_path / "one", 5_000)
    assert told(tmp_path / "many", 3) == whole and len(whole) > 5


def test_decisions_that_fail_are_one_incident_until_one_works(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        agent, floor = shelf.floor.hire(ANN), shelf.floor
        for number in range(3):
            floor.later(MINUTE, BTC=100)
            record_unmade_runs(
                shelf.rooms, [Slot(agent, "BTC", floor.clock.now())], status="failed", error=f"broke {number}"
            )
        shelf.sync()
        text = only(shelf, "agents/ann/incidents/")
        assert "3 failed; symbols BTC" in text and "has not ended" in text and '"broke 0"' in text
        floor.later(MINUTE, BTC=100, ETH=10)
        floor.say(agent, reply("hold", symbol="ETH"), symbol="ETH")
        shelf.sync()
        assert "has not ended" in only(shelf, "agents/ann/incidents/")
        floor.later(MINUTE, BTC=100)
        floor.say(agent, reply("hold"))
        shelf.sync()
        assert f"ended {iso_text(floor.clock.now() - 1_000)[:16]} UTC" in only(shelf, "agents/ann/incidents/")
        floor.later(MINUTE, BTC=100)
        record_unmade_runs(shelf.rooms, [Slot(agent, "BTC", floor.clock.now())], status="expired", error="late")
        shelf.sync()
        assert len([path for path in shelf.paths() if "incidents" in path]) == 2


def test_a_degraded_decision_names_what_it_lacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library(tmp_path / "home") as shelf:
        agent = shelf.floor.hire(ANN)
        shelf.floor.quote(BTC=100)

        def broken(*_: object, **__: object) -> None:
            raise StoreFailed("no")

        monkeypatch.setattr(shelf.rooms.notes, "active_note", broken)
        run = shelf.floor.say(agent, reply("hold"))
        assert run.degraded == ("lessons",)
        monkeypatch.undo()
        shelf.sync()
        assert "what could not be read: lessons" in only(shelf, "agents/ann/incidents/")


def test_halts_are_told_with_their_end(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.floor.halt("", reason="exchange maintenance")
        shelf.floor.halt("ann.paper", reason="odd fills")
        shelf.sync()
        (desk,) = [path for path in shelf.paths() if path.startswith("incidents/")]
        assert "trading of the whole desk was halted" in shelf.text(desk) and "has not ended" in shelf.text(desk)
        assert '"odd fills"' in only(shelf, "agents/ann/incidents/")
        shelf.floor.later(HOUR)
        shelf.floor.resume("", reason="back")
        shelf.sync()
        assert '- resumed because: "back"' in shelf.text(desk) and "has not ended" not in shelf.text(desk)
        assert "has not ended" in only(shelf, "agents/ann/incidents/")


def test_an_outage_of_the_feed_is_one_incident_for_everybody(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        now = shelf.floor.clock.now()
        gaps = [
            Gap("hyperliquid", "mids", "*", now - HOUR, now - HOUR + 9 * MINUTE, "no frame"),
            Gap("hyperliquid", "books", "BTC", now - HOUR + MINUTE, now - HOUR + 9 * MINUTE, "no frame"),
            Gap("hyperliquid", "mids", "*", now - 10 * MINUTE, now - 5 * MINUTE, "not running"),
        ]
        shelf.rooms.tape.commit([], gaps=gaps)
        shelf.sync()
        outages = sorted(path for path in shelf.paths() if path.startswith("incidents/"))
        assert len(outages) == 2
        assert "channels: books, mids" in shelf.text(outages[0]) and '"no frame"' in shelf.text(outages[0])
        assert "was not filled" in shelf.text(outages[0])
        shelf.rooms.tape.commit([], filled=gaps[:2])
        shelf.sync()
        assert "all of it was fetched later" in shelf.text(outages[0])
        assert [version.scope for version in shelf.rooms.documents.versions(after=0, most=9)] == ["", "", ""]


def test_notes_of_replies_become_entries_of_the_day_they_were_said(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.round_trip(note="the open was thin; wait ten minutes next time")
        shelf.sync()
        journal = shelf.workspace / "agents" / "ann" / "journal" / f"{TODAY}.md"
        (written,) = shelf.rooms.documents.writes(most=9)
        assert (written.kind, written.written_by, written.agent) == ("journal", "ann", "ann")
        text = journal.read_text()
        assert f"run {written.run_id}, written by ann, trust: agent" in text
        assert "\n> the open was thin; wait ten minutes next time\n" in text
        assert shelf.text(f"agents/ann/journal/{TODAY}.md") == text
        shelf.floor.later(DAY)
        shelf.round_trip(note="second day")
        for _ in range(3):
            shelf.sync()
        assert journal.read_text() == text
        assert len(list(journal.parent.iterdir())) == 2


def test_what_a_shadow_thinks_is_told_nowhere(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        agent = shelf.floor.hire(ANN)
        shelf.floor.quote(BTC=100)
        slot = Slot(agent, "BTC", shelf.floor.clock.now(), trigger="shadow", branch="shadow")
        text = with_note(reply("open", "long", 99_000), "a shadow's thought")
        made = tick(shelf.rooms, slot, ask=lambda _rooms, _opened: EngineAnswer(text))
        assert isinstance(made, DecisionRun) and made.note == "a shadow's thought"
        shelf.sync()
        assert shelf.paths() == set()


def test_reading_again_finds_nothing(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.round_trip(note="x")
        with shelf.rooms.leases.holding(shelf.rooms.documents.stream):
            assert write_log_documents(shelf.rooms) > 0
            before = shelf.rooms.documents.log_head()
            assert write_log_documents(shelf.rooms) == 0
        assert shelf.rooms.documents.log_head() == before


def test_a_backtests_summary_is_a_document_of_its_agent(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.backtest("bt-1", "ann", "# Backtest of a breakout\n")
        shelf.backtest("bt-2", "nobody", "# Another\n")
        with shelf.rooms.leases.holding(shelf.rooms.documents.stream):
            assert write_log_documents(shelf.rooms) == 2 and write_log_documents(shelf.rooms) == 0
        assert shelf.text("agents/ann/backtests/bt_1.md") == "# Backtest of a breakout\n"
        assert shelf.text("backtests/bt_2.md") == "# Another\n"


def test_a_change_of_an_agent_is_a_document_with_its_date_and_reason(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        rooms, manual = shelf.rooms, "Never chase.\nStop at noon.\n"
        shelf.sync()
        assert not [path for path in shelf.paths() if "/changes/" in path]
        edit_agent(rooms, "ann", {"members": ("trend", "reversion"), "engine": "ensemble", "manual": manual})
        shelf.floor.later(DAY)
        edit_agent(rooms, "ann", {"members": ("trend",)}, reason="reversion lost in\nevery trend\u202e of June")
        edit_agent(rooms, "ann", {"manual": "Never chase.\nStop at ten.\n", "enabled": False})
        add_agent(rooms, "cat", {"watch": ("BTC",)}, reason="to compare with ann")
        remove_agent(rooms.book, rooms.clock, "bob", reason="it never traded")
        shelf.sync()
        text = shelf.text("agents/ann/changes/2026-01-06-v3.md")
        assert "# Change: agent ann was changed, version 3" in text and "- on 2026-01-06T06:00 UTC" in text
        assert '- why: "reversion lost in every trend of June"' in text
        assert '- members: stopped using "reversion"' in text and "trend,reversion" not in text
        last = shelf.text("agents/ann/changes/2026-01-06-v4.md")
        assert '- manual: stopped using "Stop at noon."' in last and '- manual: began to use "Stop at ten."' in last
        assert "- we stopped using it: it decides no more" in last and "no reason was given" in last
        assert "to compare with ann" in shelf.text("agents/cat/changes/2026-01-06-v1.md")
        assert '- why: "it never traded"' in shelf.text("agents/bob/changes/2026-01-06-v2.md")
        assert shelf.sync().derived == 0


def test_why_we_stopped_using_something_is_found(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        floor.hire(ANN)
        edit_agent(floor.rooms, "ann", {"engine": "ensemble", "members": ("trend", "reversion")})
        shelf = Library(floor)
        for day in range(5):
            shelf.write(f"agents/ann/journal/2026-01-0{day + 1}.md", f"Day {day}: reversion did well, trend did not.")
        floor.later(DAY)
        edit_agent(floor.rooms, "ann", {"members": ("trend",)}, reason="it lost in every trend of June")
        shelf.sync()
        found = search_documents(floor.rooms, "why did we stop using reversion", agent="ann")
        assert found[0].path == "agents/ann/changes/2026-01-06-v3.md"
        assert "it lost in every trend of June" in found[0].snippet
        assert {each.path.split("/")[2] for each in search_documents(floor.rooms, "reversion", kinds=["change"])} == {
            "changes"
        }


def test_a_reason_belongs_to_a_change(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        with pytest.raises(BadInput, match="nothing of ann differs"):
            edit_agent(shelf.rooms, "ann", {}, reason="no")
        with pytest.raises(BadInput, match="at most 500 are kept"):
            edit_agent(shelf.rooms, "ann", {"enabled": False}, reason="x" * 501)
        assert shelf.rooms.book.find_agent("ann").version == 1
