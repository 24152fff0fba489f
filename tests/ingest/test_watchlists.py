"""Who is watched: all symbols of all versions of all agents, as they are when it is asked."""

from pathlib import Path

from tapebook.domain.agent import AgentProfile
from tapebook.ingest.compaction import Watchlists
from tests.ingest import ingest_harness as weather


def test_symbols_of_earlier_versions_and_of_agents_saved_since_are_watched(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    with weather.opened(home, at=weather.BORN) as rooms:

        def save(name: str, *symbols: str) -> None:
            rooms.book.save_agent(AgentProfile(name, symbols), at=weather.BORN)

        watched = Watchlists(rooms.book)
        assert watched.symbols() == set(weather.SYMBOLS)
        save("one", "XRP", "TON")
        save("one", "TON", "APT")
        save("two", "SUI")
        assert watched.symbols() - set(weather.SYMBOLS) == {"XRP", "TON", "APT", "SUI"}
        save("one", "ENA")
        assert watched.symbols() == Watchlists(rooms.book).symbols() >= {"XRP", "ENA", "SUI"}
