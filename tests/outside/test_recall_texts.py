"""Real documents and real attacks: manuals, runbooks, a journal, and corpora of prompt injections.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.desk.document_writes import add_folder, append_entry
from tapebook.domain.packet import Packet
from tapebook.domain.units import MINUTE
from tapebook.errors import BadInput
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.library.search import search_documents
from tapebook.library.sync import sync_documents
from tests.desk.desks import desk, reply
from tests.library.libraries import ANN, Library, with_note

pytestmark = pytest.mark.outside

ARCHIVES = ("prometheus_operator_runbooks", "hyperliquid_docs", "freqtrade_docs", "agentic_trading_journal")
HEADING = re.compile(r"## (Time and bars|Market|Portfolio|Last decision|Recent|Open|Experience|Horizons|Citations)")


@pytest.fixture(scope="module")
def texts() -> Path:
    """The folder of recorded texts."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "text"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, texts: Path) -> Iterator[Library]:
    """A desk whose agents find all of them."""
    folder = tmp_path_factory.mktemp("texts")
    with desk(folder / "home") as floor:
        floor.hire(ANN)
        for name in ARCHIVES:
            with tarfile.open(texts / f"{name}.tar.gz") as packed:
                packed.extractall(folder / name, filter="data")
            add_folder(
                floor.rooms.documents, floor.rooms.clock, floor.rooms.home, folder / name, leases=floor.rooms.leases
            )
        sync_documents(floor.rooms)
        yield Library(floor)


@pytest.mark.parametrize(
    ("question", "archive"),
    [
        ("what do I do when the feed disconnects", ""),
        ("AlertmanagerClusterDown", "prometheus_operator_runbooks/"),
        ("websocket server disconnects, reconnect", "hyperliquid_docs/"),
        ("etcd has no leader", "prometheus_operator_runbooks/"),
        ("how to avoid lookahead bias in a strategy", "freqtrade_docs/"),
        ("why did we buy VZ", "agentic_trading_journal/"),
    ],
)
def test_questions_are_answered_with_places_that_say_it(shelf: Library, question: str, archive: str) -> None:
    found = search_documents(shelf.rooms, question, limit=5).citations
    assert any(each.path.startswith(archive) for each in found), [each.path for each in found]
    for each in found:
        content = shelf.rooms.archive.get(f"sha256/{each.content_sha256[:2]}/{each.content_sha256}")
        assert content is not None
        lines = content.decode().split("\n")[each.start_line - 1 : each.end_line]
        said = "".join("".join(lines).split())
        assert all("".join(part.split()) in said for part in each.snippet.split("…"))


def test_the_question_of_the_readme_finds_the_passage_on_reconnection(shelf: Library) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    (question,) = re.findall(r'tapebook recall search "(.+)"', readme)
    assert shelf.status().documents >= 399
    best = search_documents(shelf.rooms, question, limit=3).citations
    assert any("the transport reconnects automatically" in each.snippet for each in best), best


@pytest.mark.parametrize("question", ["asdf", "zzzz", "vgjjspqm", "xjdxkxwqn lsrgqnp", "what is a yawoixzhsd"])
def test_words_that_nobody_knows_find_nothing(shelf: Library, question: str) -> None:
    assert search_documents(shelf.rooms, question).citations == ()


def test_front_matter_is_never_what_is_found(shelf: Library) -> None:
    for question in ("title", "weight 20", "title AlertmanagerClusterDown weight"):
        for each in search_documents(shelf.rooms, question, limit=50).citations:
            assert not each.snippet.startswith(("---", "+++")), each


def test_the_same_is_found_in_an_index_built_anew(shelf: Library) -> None:
    asked = ("feed disconnects", "funding rate", "stoploss", "websocket reconnect")
    before = [search_documents(shelf.rooms, words) for words in asked]
    shelf.reindex()
    assert [search_documents(shelf.rooms, words) for words in asked] == before
    shelf.floor.later(MINUTE, BTC=100)
    run = shelf.floor.say(shelf.floor.hire(ANN), reply("hold"))
    assert rebuild_packet(shelf.rooms, run).citations and replay_runs(shelf.rooms, [run.run_id]).different == []


def attacks(texts: Path) -> list[str]:
    """Every sentence of the corpora that asks for something nobody ordered, and pages they are hidden in."""
    folder = texts / "injection"
    found = [
        sentence
        for file in sorted(folder.glob("bipia/*attack*.json"))
        for several in json.loads(file.read_text("utf-8")).values()
        for sentence in several
    ]
    pages = [json.loads(line)["context"] for line in (folder / "bipia" / "email_test.jsonl").read_text().splitlines()]
    return found + pages + [file.read_text("utf-8") for file in sorted(folder.glob("agentdojo/*.yaml"))]


def test_injected_texts_stay_quoted_in_the_user_message(texts: Path, tmp_path: Path) -> None:
    found = attacks(texts)
    assert len(found) > 200
    with desk(tmp_path / "home") as floor:
        shelf, ann = Library(floor), floor.hire(ANN)
        floor.quote(BTC=100)
        plain = rebuild_packet(shelf.rooms, floor.say(ann, reply("hold")))
        for number, text in enumerate(found):
            shelf.write(f"global/{number}.md", f"BTC breakout\n\n{text}\n")
            shelf.write(f"agents/ann/memory/{number}.md", f"# BTC: {text}\n")
        kept = sum(_appended(shelf, text) for text in found[::10])
        assert kept > 10
        shelf.sync()
        for text in found[:60]:
            floor.later(MINUTE, BTC=100)
            run = floor.say(ann, with_note(reply("hold", reason=text[:200]), text[:400]))
            _check(rebuild_packet(shelf.rooms, run), plain)
        shelf.sync()
        floor.later(MINUTE, BTC=100)
        _check(rebuild_packet(shelf.rooms, floor.say(ann, reply("hold"))), plain)
        assert shelf.rooms.notes.reflections(ann.id, most=9) == [] and len(shelf.rooms.book.agents()) == 1


def _appended(shelf: Library, text: str) -> bool:
    try:
        append_entry(shelf.rooms, "ann", "learning", text[:1_500], by="owner")
    except BadInput:
        return False
    return True


def _check(packet: Packet, plain: Packet) -> None:
    """Nothing but the sections of data may differ, and their lines are those of sections."""
    assert packet.system == plain.system and packet.section("rules") is None
    assert packet.citations
    assert all(HEADING.match(line) for line in packet.text.splitlines() if line.startswith("#"))
    _, _, below = packet.text.partition("\n## Citations")
    for line in below.partition("\n\n")[0].splitlines()[1:]:
        assert line.startswith("- [c") and line.count('"') == 4 and line.endswith('"')
