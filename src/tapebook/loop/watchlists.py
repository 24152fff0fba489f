"""Which symbols are watched: retention archives their midpoints, and those of no others."""

from tapebook.book.store import Book


class Watchlists:
    """The symbols of all watchlists of a book, those of earlier versions of its agents too."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._seen: dict[str, int] = {}
        self._symbols: set[str] = set()

    def symbols(self) -> set[str]:
        """Every symbol that any version of any agent watches by now."""
        for newest, profile in self._book.agents(removed=True):
            # A version never changes, so each is read once.
            for version in range(self._seen.get(profile.name, 0) + 1, newest + 1):
                found = self._book.agent(profile.name, version=version)
                self._symbols.update(found[1].watchlist if found else ())
            self._seen[profile.name] = newest
        return self._symbols
