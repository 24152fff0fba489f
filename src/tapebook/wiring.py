"""The composition root: the only place that knows which concrete thing stands behind each port."""

from pathlib import Path

from tapebook import plug
from tapebook.archive import Archive
from tapebook.book.projection import PROJECTION
from tapebook.book.store import MIGRATIONS as BOOK
from tapebook.book.store import Book
from tapebook.broker import Broker, PaperTerms
from tapebook.clock import Clock
from tapebook.config import Config, load
from tapebook.db import Database, connect, migrate
from tapebook.decision import Engine
from tapebook.home import require_home
from tapebook.log import Log
from tapebook.log.store import MIGRATIONS as LOG
from tapebook.tape.store import MIGRATIONS as TAPE
from tapebook.tape.store import Tape

BOOK_PACKAGES = (LOG, BOOK)
TAPE_PACKAGES = (TAPE,)


class Rooms:
    """Everything a tick needs, opened on one home with one clock."""

    def __init__(self, home: Path, *, clock: Clock) -> None:
        require_home(home)
        self.home = home
        self.clock = clock
        self.config: Config = load(home)
        self.book_db = _open(home, self.config.store.book, BOOK_PACKAGES, durable=True)
        self.tape_db = _open(home, self.config.store.tape, TAPE_PACKAGES, durable=False)
        self.log = Log(self.book_db, [PROJECTION], clock=clock)
        self.book = Book(self.log, self.book_db, owner=self.config.owner)
        self.archive: Archive = plug.load("tapebook.archive.archives", "folder").create(
            home / self.config.archive.place
        )
        self.tape = Tape(self.tape_db, clock=clock, fetch=self.archive.get)
        self._engines: dict[str, Engine] = {}
        self._brokers: dict[str, Broker] = {}

    def engine(self, name: str) -> Engine:
        """The engine of that name; no name means the home's default."""
        name = name or self.config.engine.default
        if name not in self._engines:
            self._engines[name] = plug.load("tapebook.decision.engines", name).create()
        return self._engines[name]

    def broker(self, name: str) -> Broker:
        """The broker of that name."""
        if name not in self._brokers:
            self._brokers[name] = plug.load("tapebook.broker.brokers", name).create(paper_terms(self.config))
        return self._brokers[name]

    def close(self) -> None:
        """Ends all connections."""
        self.book_db.close()
        self.tape_db.close()


def paper_terms(config: Config) -> PaperTerms:
    """The settings of paper trading, in the integers a broker counts with."""
    paper = config.paper
    fees = (round(paper.taker_fee_bps * 100), round(paper.maker_fee_bps * 100), round(paper.spread_bps * 100))
    return PaperTerms(paper.latency_ms, *fees)


def _open(home: Path, place: str, packages: tuple[str, ...], *, durable: bool) -> Database:
    db = connect(place if "://" in place else str(home / place), durable=durable)
    migrate(db, packages)
    return db
