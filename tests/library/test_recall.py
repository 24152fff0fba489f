"""Documents in the tick: what is cited, whose documents are seen, and that a replay finds the same in any index."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.api import app
from tapebook.context import assemble_packet
from tapebook.domain.packet import Citation
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import MINUTE
from tapebook.errors import HomeError, StoreFailed
from tapebook.home import exclusive_lock
from tapebook.lab.explain import explain_run
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.library.search import search_documents
from tapebook.library.sync import sync_documents
from tapebook.search import IndexAnswer
from tapebook.search.index import SearchTerms
from tapebook.tick.prepare import documents_watermark, gather_situation, watermarks_now
from tapebook.wiring import Rooms
from tests.api.test_live import layers
from tests.desk.desks import reply
from tests.library.libraries import ANN, BOB, Library, library, use_plain_index

RULE = "Never chase a breakout of BTC after three losses."


def cited(shelf: Library, run: DecisionRun) -> tuple[Citation, ...]:
    """The citations a run was given."""
    return rebuild_packet(shelf.rooms, run).citations


def decide(shelf: Library, text: str = "", *, agent: str = "ann") -> DecisionRun:
    """One decision, a minute later."""
    shelf.floor.later(MINUTE, BTC=100)
    deployment = shelf.floor.hire(ANN if agent == "ann" else BOB)
    return shelf.floor.say(deployment, text or reply("hold"))


def test_a_decision_is_given_places_in_its_documents_and_may_cite_them(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("agents/ann/memory/rules.md", f"# Rules\n\n{RULE}\n")
        shelf.sync()
        run = decide(shelf, reply("hold", cites=["c1"]))
        packet = (shelf.rooms.archive.get(run.packet_key or "") or b"").decode()
        assert f'- [c1] "agents/ann/memory/rules.md:3-3" (memory, 0.03): "{RULE}"' in packet
        assert run.watermarks.docs == shelf.rooms.documents.log_head() and run.verdicts[0].allowed
        refused = decide(shelf, reply("hold", cites=["c9"]))
        assert refused.verdicts[0].rule == "R15_UNKNOWN_CITATION"


def test_without_documents_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library(tmp_path / "home") as shelf:
        monkeypatch.setattr(shelf.rooms.indexes, "open_index", lambda terms: pytest.fail("an index was opened"))
        monkeypatch.setattr(shelf.rooms.documents, "head", lambda: pytest.fail("documents were read"))
        run = decide(shelf)
        assert run.watermarks.docs == 0 and run.degraded == ()
        assert not (shelf.rooms.home / "recall-r3.db").exists()


def test_an_agent_without_memory_is_given_none(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        blind = app.Tapebook(shelf.rooms.home, clock=shelf.floor.clock)
        blind.edit_agent("bob", {"memory": False})
        blind.close()
        profile = shelf.rooms.book.agent("bob")
        assert profile is not None
        shelf.floor.later(MINUTE, BTC=100)
        run = shelf.floor.say(shelf.floor.hire(profile[1]), reply("hold"))
        assert cited(shelf, run) == ()


def test_an_agent_never_sees_anothers_workspace(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("agents/bob/SOUL.md", "BTC breakout: long position, unknown regime: bob's own secret")
        shelf.write("global/shared.md", "BTC breakout: for everybody")
        shelf.round_trip("bob", note="bob's own note")
        shelf.sync()
        for agent, secret in (("ann", False), ("bob", True)):
            run = decide(shelf, agent=agent)
            packet = (shelf.rooms.archive.get(run.packet_key or "") or b"").decode()
            assert ("bob's own secret" in packet) is secret and cited(shelf, run)
            assert {each.path.split("/")[0:2][-1] for each in cited(shelf, run)} <= {agent, "shared.md"}
        assert all("bob" not in each.path for each in search_documents(shelf.rooms, "breakout", agent="ann").citations)
        assert any("bob" in each.path for each in search_documents(shelf.rooms, "breakout").citations)


def test_a_replay_finds_the_same_whatever_became_of_the_documents(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        file = shelf.write("agents/ann/memory/rules.md", RULE)
        shelf.sync()
        runs = [decide(shelf)]
        file.write_text("BTC breakout rules were rewritten.")
        shelf.write("global/more.md", "BTC breakout BTC breakout BTC breakout")
        shelf.sync()
        runs.append(decide(shelf))
        file.unlink()
        shelf.sync()
        runs.append(decide(shelf))
        ids = [run.run_id for run in runs]
        assert [[each.snippet for each in cited(shelf, run)] for run in runs] == [
            [RULE],
            ["BTC breakout rules were rewritten.", "BTC breakout BTC breakout BTC breakout"],
            ["BTC breakout BTC breakout BTC breakout"],
        ]
        assert replay_runs(shelf.rooms, ids).different == []
        (shelf.rooms.home / "recall-r3.db").unlink()
        assert replay_runs(shelf.rooms, ids).different == []
        assert shelf.reindex().versions == 4
        assert replay_runs(shelf.rooms, ids).different == []
        assert shelf.floor.is_whole()


def test_a_changed_document_beyond_the_watermark_changes_no_packet(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        run = decide(shelf)
        for number in range(5):
            shelf.write(f"global/{number}.md", f"BTC breakout {number}")
            shelf.write("global/rules.md", f"BTC breakout rule {number}")
            shelf.sync()
            packet = rebuild_packet(shelf.rooms, run)
            assert f"{packet.system}\n\n{packet.text}".encode() == shelf.rooms.archive.get(run.packet_key or "")


def test_a_run_is_explained_with_the_words_it_was_given_after_the_file_changed(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        file = shelf.write("agents/ann/memory/rules.md", f"# Rules\n{RULE}\nand more\n")
        shelf.sync()
        run = decide(shelf, reply("hold", cites=["c1"]))
        file.unlink()
        shelf.sync()
        (shown,) = explain_run(shelf.rooms, run)["citations"] or []
        assert shown["path"] == "agents/ann/memory/rules.md" and shown["startLine"] == 2
        assert shown["text"] == RULE and shown["cited"] is True


def test_settings_of_today_do_not_change_what_was_found_yesterday(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        run, asked = decide(shelf), []
        (shelf.rooms.home / "tapebook.toml").write_text("[recall]\nper_document = 9\n")
        other = Rooms(shelf.rooms.home, clock=shelf.floor.clock)
        use_plain_index(other)
        of = other.indexes.open_index

        def noted(terms: SearchTerms) -> object:
            asked.append(terms.per_path)
            return of(terms)

        other.indexes.open_index = noted  # type: ignore[method-assign,assignment]
        shelf.floor.later(1_000)
        sync_documents(other)
        assert documents_watermark(other.documents, other.indexes) > run.watermarks.docs and asked[-1] == 9
        assert replay_runs(other, [run.run_id]).different == [] and asked[-1] == SearchTerms().per_path
        other.close()


def test_a_search_that_fails_leaves_the_decision_standing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()

        def broken(*_: object, **__: object) -> None:
            raise StoreFailed("the disk is gone")

        index = shelf.rooms.indexes.open_index(shelf.rooms.indexes.chosen)
        monkeypatch.setattr(index, "search", broken)
        run = decide(shelf)
        monkeypatch.undo()
        assert run.degraded == ("citations",) and run.status == "held"
        assert replay_runs(shelf.rooms, [run.run_id]).different == []


def test_a_search_of_the_past_sees_what_was_known_then(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        before = shelf.floor.clock.now()
        shelf.write("global/rules.md", "old breakout rule")
        shelf.sync()
        first = shelf.floor.clock.now() + 1_000
        shelf.floor.later(MINUTE, BTC=100)
        shelf.write("global/rules.md", "new breakout rule")
        shelf.sync()
        assert search_documents(shelf.rooms, "breakout", as_of=before).why == "there were no documents by then"
        assert [each.snippet for each in search_documents(shelf.rooms, "breakout", as_of=first).citations] == [
            "old breakout rule"
        ]
        found = search_documents(shelf.rooms, "breakout")
        assert [each.snippet for each in found] == ["new breakout rule"] == [found[0].snippet] and len(found) == 1
        assert shelf.rooms.documents.seq_as_of(before) == 0
        with app.open(shelf.rooms.home, clock=shelf.floor.clock) as book:
            use_plain_index(book._rooms)
            assert book.context("ann", "BTC", as_of=before).citations == ()
            texts = [book.context("ann", "BTC", as_of=at).text for at in (first, None)]
        assert ["old breakout" in text for text in texts] == [True, False]


def test_what_is_not_indexed_yet_is_not_known_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        indexed = shelf.rooms.documents.head()

        def killed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(shelf.rooms.indexes.open_index(shelf.rooms.indexes.chosen), "index", killed)
        shelf.write("global/later.md", "BTC breakout later")
        with pytest.raises(KeyboardInterrupt):
            shelf.sync()
        assert documents_watermark(shelf.rooms.documents, shelf.rooms.indexes) == indexed < shelf.rooms.documents.head()
        assert shelf.status().head < shelf.status().documents_head
        monkeypatch.undo()
        shelf.sync()
        assert documents_watermark(shelf.rooms.documents, shelf.rooms.indexes) == shelf.rooms.documents.log_head()


def test_a_worker_on_another_machine_builds_the_index_it_needs(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        run = decide(shelf)
        shelf.rooms.indexes.close()
        (shelf.rooms.home / "recall-r3.db").unlink()
        deployment = shelf.floor.hire(ANN)
        found = gather_situation(shelf.rooms, deployment, "BTC", as_of=run.as_of, watermarks=run.watermarks)
        assert assemble_packet(found).sha256 != "" and [each.snippet for each in found.citations] == [RULE]


def test_watermarks_say_how_far_the_documents_were_read(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        deployment = shelf.floor.hire(ANN)
        assert watermarks_now(shelf.rooms, deployment).docs == 0
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        assert watermarks_now(shelf.rooms, deployment).docs == shelf.rooms.documents.log_head()


def test_only_one_process_builds_an_index_anew(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        with exclusive_lock(shelf.rooms.home, "recall"), pytest.raises(HomeError, match="in use by process"):
            shelf.reindex()
        assert shelf.reindex().versions == 1


def asked_of(shelf: Library, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that decisions ask from now on."""
    found: list[str] = []
    index = shelf.rooms.indexes.open_index(shelf.rooms.indexes.chosen)
    search_of = index.search

    def noted(query: str, **more: Any) -> IndexAnswer:
        found.append(query)
        return search_of(query, **more)

    monkeypatch.setattr(index, "search", noted)
    return found


def test_a_decision_asks_about_its_situation_and_not_in_the_words_of_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/rules.md", RULE)
        shelf.sync()
        floor, ann = shelf.floor, shelf.floor.hire(ANN)
        floor.later(MINUTE, BTC=100, ETH=10)
        floor.say(ann, reply("open", "long", 100, reason="3.14 of 41 bars"))
        floor.later(10_000, BTC=100)
        floor.work(ann)
        asked = asked_of(shelf, monkeypatch)
        floor.later(MINUTE, BTC=101, ETH=10)
        floor.say(ann, reply("close", reason="target 65,123.5 reached after 17 minutes"))
        floor.later(10_000, BTC=101)
        floor.work(ann)
        floor.later(MINUTE, BTC=101, ETH=10)
        floor.say(ann, reply("open", "short", 100, symbol="ETH"), symbol="ETH")
        floor.later(10_000, BTC=101, ETH=10)
        floor.work(ann)
        floor.later(MINUTE, BTC=101, ETH=10)
        last = floor.say(ann, reply("hold"))
        own = "Follow the breakout of the week."
        assert asked == [
            f"BTC {own} open position long",
            f"ETH {own}",
            f"BTC {own} open positions ETH short",
        ]
        assert replay_runs(shelf.rooms, [last.run_id]).different == []


def test_what_stands_in_the_packet_is_not_cited_again(tmp_path: Path) -> None:
    manual = "Never add to a loser.\nOpen BTC only after a breakout, and with a stop."
    with library(tmp_path / "home") as shelf:
        floor = shelf.floor
        profile = msgspec.structs.replace(ANN, manual=manual)
        ann = floor.hire(profile)
        shelf.write("agents/ann/TRADING_MANUAL.md", f"# Manual\n\n{manual}\n")
        shelf.write("global/rules.md", RULE)
        shelf.write("global/partly.md", "Open BTC only after a breakout, and with a stop. Weekends are different.")
        shelf.round_trip()
        layers(floor).set("L1", "LEGACY", "bias", "BTC breakouts fail on Mondays.", agent="ann")
        shelf.write("global/curated.md", "> BTC breakouts fail on Mondays.\n")
        shelf.sync()
        floor.later(MINUTE, BTC=100)
        run = floor.say(ann, reply("hold"))
        packet = rebuild_packet(shelf.rooms, run)
        shown = [each.path for each in packet.citations]
        assert "BTC breakouts fail on Mondays" in packet.text.partition("## Citations")[0]
        # The trade, the manual and the curated entry have sections of their own.
        assert "global/rules.md" in shown and "global/partly.md" in shown
        assert not any(path.startswith(("agents/ann/trades/", "agents/ann/TRADING")) for path in shown)
        assert "global/curated.md" not in shown
        assert [each.id for each in packet.citations] == [f"c{at}" for at in range(1, len(shown) + 1)]
        assert replay_runs(shelf.rooms, [run.run_id]).different == []
