"""With the server of meanings away, words answer at once and say what is missing; it is not asked again for a while."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from tapebook.clock import VirtualClock
from tapebook.errors import ConfigError, Retry
from tapebook.library.search import index_as_of, search_documents
from tapebook.library.sync import sync_documents
from tapebook.search import embedding_server
from tapebook.wiring import Rooms
from tests.desk.desks import START, desk
from tests.library.libraries import ANN, Library
from tests.search.embedding_server import serving


def settings(url: str) -> str:
    """A home whose documents are embedded by a server."""
    return f'[recall]\nembedder = "openai"\nembedder_url = "{url}/v1"\n'


@contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def nobody() -> str:
    """An address nobody listens at."""
    with silent() as url:
        return url


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a document that was embedded, and one that was written since."""
    with serving() as server, desk(tmp_path / "home", settings=settings(server.url)) as floor:
        floor.hire(ANN)
        shelf = Library(floor)
        shelf.write("global/feed.md", "The feed was away: halt the desk first.")
        shelf.sync()
        first = search_documents(floor.rooms, "halt the feed")
        assert (first.missing, first[0].path, first[0].source) == ("", "global/feed.md", "hybrid")
        asked = len(server.seen)
        assert search_documents(floor.rooms, "halt the feed") == first and len(server.seen) == asked
        shelf.write("global/funding.md", "Funding flips at midnight.")
        # Refused for good, so that nothing waits between attempts.
        server.fails = [(401, b"{}", {})]
        with pytest.raises(ConfigError):
            sync_documents(floor.rooms)
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("how", "said"),
    [("refuses", "refused"), ("hangs", "timed out"), ("500", "status 500"), ("401", "refused the key")],
)
def test_words_answer_while_it_is_away(home: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str) -> None:
    monkeypatch.setattr(embedding_server, "QUESTION_SECONDS", 0.2)
    with silent() if how == "hangs" else serving() if how.isdigit() else nullcontext(nobody()) as place:
        url = place if isinstance(place, str) else place.url
        if not isinstance(place, str):
            place.fails = [(int(how), b"{}", {})] * 99
        (home / "tapebook.toml").write_text(settings(url), "utf-8")
        with closing(Rooms(home, clock=VirtualClock(START + 10_000))) as rooms:
            for question, path in (("halt the feed first", "feed"), ("when does funding flip", "funding")):
                found = search_documents(rooms, question, agent="ann")
                assert [each.path for each in found][:1] == [f"global/{path}.md"]
                assert said in found.missing and "words alone" in found.missing
                assert {each.source for each in found} == {"fts"}
                assert found.to_dict()["missing"] == found.missing
            if not isinstance(place, str) and how == "500":
                # After the first failure nobody is asked for a while.
                assert len(place.seen) == 1 and "asked again in" in found.missing
            # A decision does not mix answers: it lacks its citations, and says so.
            if how != "401":
                index = index_as_of(rooms.documents, rooms.archive, rooms.indexes, 1)
                with pytest.raises(Retry):
                    index.search("halt the feed now", scopes=("",), seq=index.head())


def test_what_it_has_no_vectors_of_is_named(home: Path) -> None:
    with serving() as server:
        (home / "tapebook.toml").write_text(settings(server.url), "utf-8")
        with closing(Rooms(home, clock=VirtualClock(START + 10_000))) as rooms:
            found = search_documents(rooms, "funding flips")
            assert found[0].path == "global/funding.md" and "recall sync" in found.missing
            sync_documents(rooms)
            assert search_documents(rooms, "funding flips").missing == ""


def test_common_words_alone_are_no_answer_for_a_person(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        floor.hire(ANN)
        shelf = Library(floor)
        for at in range(40):
            shelf.write(f"global/{at}.md", f"The market opens at a time of day. Lesson {at}: size down in thin books.")
        shelf.write("global/rare.md", "Tungsten was halted.")
        shelf.sync()
        nothing = search_documents(floor.rooms, "what time does the museum of modern sculpture close on holidays")
        assert nothing.citations == () and "none scores 0.22" in nothing.why
        rare = search_documents(floor.rooms, "which of the many metals that my uncle likes, perhaps tungsten, was it")
        assert [each.path for each in rare] == ["global/rare.md"]
        assert len(search_documents(floor.rooms, "thin books")) == 10
        # A decision's question is a list of words: what has one of them is cited as before.
        index = index_as_of(
            floor.rooms.documents, floor.rooms.archive, floor.rooms.indexes, floor.rooms.documents.log_head()
        )
        assert index.search("museum sculpture holidays tennis market", scopes=("",), seq=index.head()).citations
