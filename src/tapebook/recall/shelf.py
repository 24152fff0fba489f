"""The indexes of a home, in files that can be thrown away.

An index is opened when it is first asked for, and again when its file was replaced or removed since. A new one is built
in a file beside it (`fresh`) and takes its place at once (`replace`): whoever has the old one open reads it to the end.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tapebook.domain.files import private
from tapebook.recall.port import Index
from tapebook.recall.terms import SearchTerms

# SQLite's files beside a database; they must never meet another database of the same name.
_BESIDE = ("-wal", "-shm")


class Indexes:
    """Every index of a home: one file for what is stored alike, whatever its scores weigh."""

    def __init__(
        self, home: Path, make: Callable[[SearchTerms, Path], Index], *, chosen: SearchTerms, alone: bool = False
    ) -> None:
        self._home = home
        self._make = make
        self._alone = alone
        self._found: bool | None = None
        # The rules of before are asked until the next sync.
        before = msgspec.structs.replace(chosen, rules=1)
        self._likely = {str(self.place(terms)) for terms in (chosen, before, SearchTerms())}
        self._open: dict[SearchTerms, tuple[str, int, Index]] = {}

    def any(self) -> bool:
        """Whether there is an index that decisions of now could ask; alone, one look at the disk is enough."""
        if self._found is None or not self._alone:
            self._found = any(map(os.path.exists, self._likely))
        return self._found

    def place(self, terms: SearchTerms) -> Path:
        """The file of an index."""
        usual = SearchTerms()
        parts: list[str] = []
        if (terms.slot, terms.embedder, terms.model) != (usual.slot, usual.embedder, usual.model):
            parts = [terms.slot, terms.embedder, *("".join(c if c.isalnum() else "_" for c in terms.model).split())]
        rules = f"r{terms.rules}" if terms.rules > 1 else ""
        return self._home / f"{'-'.join(filter(None, ['recall', *parts, rules]))}.db"

    def of(self, terms: SearchTerms) -> Index:
        """The index of these terms, opened."""
        known = self._open.get(terms)
        if known is not None:
            path, number, index = known
            if number == _number(path):
                return index
            index.close()
        place = self.place(terms)
        with self._locked(fcntl.LOCK_SH):
            opened = self._make(terms, place)
            self._open[terms] = (str(place), _number(str(place)), opened)
        return opened

    def fresh(self, terms: SearchTerms) -> Index:
        """An index in a new file, or in the one a killed process was building."""
        return self._make(terms, self._next(terms))

    def replace(self, terms: SearchTerms) -> None:
        """Puts a fresh index, which nobody has open, in the place of the one there is."""
        place = self.place(terms)
        old = place.with_name(f"{place.stem}.old.db")
        with self._locked(fcntl.LOCK_EX):
            # In this order, whoever is killed leaves a home without an index, and never one with files of two.
            if place.exists():
                os.replace(place, old)
            for name in _BESIDE:
                Path(f"{place}{name}").unlink(missing_ok=True)
            os.replace(self._next(terms), place)
            old.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends all connections."""
        for _, _, index in self._open.values():
            index.close()
        self._open.clear()

    def _next(self, terms: SearchTerms) -> Path:
        place = self.place(terms)
        return place.with_name(f"{place.stem}.next.db")

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Keeps an index from being opened while its file is replaced."""
        with open(self._home / ".recall-files.lock", "a", encoding="utf-8", opener=private) as file:
            fcntl.flock(file, how)
            yield


def _number(path: str) -> int:
    """What tells a file from another of the same name; 0 when there is none."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
