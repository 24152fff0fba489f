"""The composition root: opens the stores of a home and puts the configured adapters behind their ports."""

import logging
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from tapebook import plug
from tapebook.archive import SpooledArchive, open_archive
from tapebook.book.decision_queue import DecisionQueue, StoredReplies
from tapebook.book.events import PROJECTION
from tapebook.book.single_writer import SingleWriterBook
from tapebook.book.store import MIGRATIONS as BOOK
from tapebook.book.store import Book
from tapebook.broker import Broker, PaperTerms
from tapebook.clock import Clock, SystemClock, VirtualClock, elapsed_seconds
from tapebook.db import Database, connect, migrate, migrated_packages
from tapebook.db.buffered import BufferedDatabase
from tapebook.decision import Engine, EngineTerms, make_engine
from tapebook.domain.agent import AgentProfile
from tapebook.domain.text import redact_passwords
from tapebook.domain.units import MINUTE, SECOND, iso_text
from tapebook.errors import Busy
from tapebook.experience import Experience
from tapebook.experience.events import PROJECTION as EXPERIENCE_PROJECTION
from tapebook.experience.store import MIGRATIONS as EXPERIENCE
from tapebook.home import make_home_private, process_name, require_home
from tapebook.horizons import Horizons, LayerCache
from tapebook.horizons.events import PROJECTION as HORIZONS_PROJECTION
from tapebook.horizons.store import MIGRATIONS as HORIZONS
from tapebook.lessons import Reflector, ReflectorTerms
from tapebook.lessons.notes import MIGRATIONS as LESSONS
from tapebook.lessons.notes import PROJECTION as LESSONS_PROJECTION
from tapebook.lessons.notes import Notes
from tapebook.llm import Asker, Budget, Key, ModelTerms, NoSpendLedger, Price, SpendLedger, WaitClock, price_of
from tapebook.log import Leases, Log, ReadCache
from tapebook.log.single_writer import SingleWriterLog
from tapebook.log.store import MIGRATIONS as LOG
from tapebook.log.store import SET_BACK_PROJECTION as SET_BACKS
from tapebook.log.store import AcceptSetBack
from tapebook.search import Index
from tapebook.search.documents import MIGRATIONS as RECALL
from tapebook.search.documents import PROJECTION as RECALL_PROJECTION
from tapebook.search.documents import Documents
from tapebook.search.index import RULES, WORDS_ONLY_SLOT, EmbedderTerms, IndexFiles, IndexTerms, SearchTerms
from tapebook.settings.config import Config, embedder_keys, load_config, model_keys
from tapebook.sources import load_sources
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import MIGRATIONS as TAPE
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK
from tapebook.tick_memory import TickMemory

BOOK_PACKAGES = (LOG, BOOK, LESSONS, EXPERIENCE, HORIZONS, RECALL)
TAPE_PACKAGES = (TAPE,)
PROJECTIONS = (SET_BACKS, PROJECTION, LESSONS_PROJECTION, EXPERIENCE_PROJECTION, HORIZONS_PROJECTION, RECALL_PROJECTION)


_LOG = logging.getLogger("tapebook.clock")
# Without a handler the standard library would write the warnings of a silent process to stderr.
logging.getLogger("tapebook").addHandler(logging.NullHandler())


class PastTerms(msgspec.Struct, frozen=True):
    """How a home is opened for decisions over a tape that is there already, by the only process that writes its book.

    What was written is remembered, rows wait for the end of their transaction, nothing waits for the disk, and the
    tape is read forward up to a watermark; without one it may still grow. The bytes are the same. `configure` changes
    the settings of the home; `ledger` says what its models were asked before and may cost, and `replies` opens their
    stored answers.
    """

    configure: Callable[[Config], Config] = lambda config: config
    watermark: int | None = NO_WATERMARK
    ledger: SpendLedger | None = None
    replies: Callable[[Database, str], StoredReplies] | None = None


def open_backtest(home: Path, *, clock: VirtualClock, terms: PastTerms) -> "Rooms":
    """The rooms of a backtest, or of the past of a demo."""
    return Rooms(home, clock=clock, past=terms)


class Rooms:
    """Everything a tick needs, opened on one home with one clock; no part is ever replaced by another.

    `past` opens it for a backtest. `read_with` makes a reader beside those who have that configuration open: its
    connections write nothing.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Clock,
        past: PastTerms | None = None,
        slot: str | None = None,
        read_with: Config | None = None,
    ) -> None:
        require_home(home)
        make_home_private(home)
        config = read_with or with_slot(load_config(home), slot)
        self.home: Final = home
        self.clock: Final = clock
        self.config: Final[Config] = config if past is None else past.configure(config)
        reads, single_writer = read_with is not None, past is not None
        stores = self.config.store
        book_db = _open_database(
            home, stores.book, BOOK_PACKAGES, durable=not single_writer, large_pages=single_writer, read_only=reads
        )
        # Rows of events wait for the end of their transaction: on a server they take one round trip together.
        buffered = None if reads else BufferedDatabase(book_db)
        self.book_db: Database = book_db if buffered is None else buffered
        try:
            self.sources = load_sources(self.config.sources)
            self.tape_packages = (*TAPE_PACKAGES, *(each.migrations for each in self.sources if each.migrations))
            self.tape_db = _open_database(home, stores.tape, self.tape_packages, durable=False, read_only=reads)
            self._find_recorded_sources()
        except BaseException:
            self.book_db.close()
            raise
        # As durable as the book that names what is in it: a backtest is made again, and must not wait for the disk.
        archive = open_archive(self.config.archive.place, home=home, durable=not single_writer)
        self.archive: Final = SpooledArchive(
            archive, home / self.config.archive.spool, now=SystemClock().now, durable=not single_writer
        )
        # Virtual time never goes back: whoever opens a home at an earlier moment of it reads.
        may_go_back = None if single_writer or clock.never_goes_back else self._accept_clock_set_back
        alone = self._single_writer_log(buffered) if single_writer and buffered is not None else None
        db, fetch, owner = self.book_db, self.archive.get, self.config.owner
        self.log: Final[Log] = alone or Log(db, PROJECTIONS, clock=clock, fetch=fetch, may_go_back=may_go_back)
        seconds = self.config.desk.lease_seconds
        self.leases: Final = Leases(db, holder=process_name(), ttl_seconds=seconds, elapsed=elapsed_seconds)
        self.book: Final = self._book(alone)
        self.work: Final = DecisionQueue(db, owner=owner, leases=self.leases)
        open_replies = past.replies if past else None
        self.replies: Final = open_replies(db, owner) if open_replies else StoredReplies(db, owner=owner)
        self.experience: Final = self._experience(alone)
        horizons = Horizons(db, owner=owner, answers=ReadCache(self.log, HORIZONS_PROJECTION.projectors))
        self.horizons: Final = LayerCache(horizons)
        self.notes: Final = Notes(db, owner=owner, answers=ReadCache(self.log, LESSONS_PROJECTION.projectors))
        self.tape: Final = self._tape(may_go_back, past)
        # The newest commit of the tape that is known to be on the disk; None where nothing waits for the disk.
        self._tape_synced: int | None = None if single_writer else 0
        self.documents: Final = Documents(self.log, self.book_db, owner=self.config.owner, leases=self.leases)
        self.indexes: Final = IndexFiles(home, self._index, chosen=search_terms(self.config), alone=single_writer)
        self.memory: Final = TickMemory()
        self._keys = {provider: Key(text) for provider, text in model_keys().items()}
        # What models were asked before, and may cost; a backtest has one.
        self._ledger: SpendLedger = (past.ledger if past else None) or NoSpendLedger()
        self._askers: dict[tuple[str, str], Asker] = {}
        # A cache by name and terms: the engine of equal ones is the same for as long as the home is open.
        self._engine = cache(make_engine)
        self._last_engine: tuple[AgentProfile, Engine] | None = None
        self._brokers: dict[str, Broker] = {}

    def _find_recorded_sources(self) -> None:
        """What a source brought stays readable when the settings no longer name it: decisions were made with it."""
        # The book may lie in the same database, and its packages with it.
        packages = set(migrated_packages(self.tape_db)) - set(TAPE_PACKAGES) - set(BOOK_PACKAGES)
        self.recorded_sources = load_sources(self.config.sources, tables_of=packages)
        dropped = self.recorded_sources[len(self.sources) :]
        self.tape_packages += tuple(each.migrations for each in dropped)

    def _single_writer_log(self, db: BufferedDatabase) -> SingleWriterLog:
        log = SingleWriterLog(db, PROJECTIONS, clock=self.clock, fetch=self.archive.get)
        db.call_before_reads(log.finish_waiting)
        return log

    def _book(self, alone: SingleWriterLog | None) -> Book:
        if alone is not None:
            return SingleWriterBook(alone, self.book_db, owner=self.config.owner)
        return Book(self.log, self.book_db, owner=self.config.owner, leases=self.leases)

    def _experience(self, alone: SingleWriterLog | None) -> Experience:
        answers = ReadCache(self.log, EXPERIENCE_PROJECTION.projectors)
        experience = Experience(self.book_db, owner=self.config.owner, answers=answers)
        if alone is not None:
            alone.add_follower(experience.moments.follow)
        return experience

    def _accept_clock_set_back(self, known_before: int, now: int) -> int:
        """The time of a clock that was set back; Busy when it is this clock that is wrong."""
        # The exchange stamps bars itself, so a machine's clock that is behind the newest bar is wrong. The clock of
        # an invented world is right by definition: one that is started again begins anew.
        newest_bar = self.tape.newest_buckets().get("candles", 0)
        if now < newest_bar and not self.clock.is_invented:
            problem = f"the clock says {iso_text(now)}, but a bar of {iso_text(newest_bar)} is known"
            raise Busy(f"{problem}: set the clock of this machine right; nothing is written before")
        back = (known_before - now) // SECOND
        moments = {"seconds": back, "from": iso_text(known_before), "to": iso_text(now)}
        _LOG.warning("clock set back", extra={"fields": moments})
        return now

    def _tape(self, may_go_back: AcceptSetBack | None, past: PastTerms | None) -> Tape:
        db, clock, fetch, sources = self.tape_db, self.clock, self.archive.get, self.recorded_sources
        if past is None or past.watermark is None:
            return Tape(db, clock=clock, fetch=fetch, may_go_back=may_go_back, sources=sources)
        return ForwardTape(db, clock=clock, fetch=fetch, watermark=past.watermark, sources=sources)

    def sync_tape(self, seq: int) -> None:
        """Waits until the tape is on the disk up to a commit: a decision that outlives a power cut names it.

        The tape's own commits do not wait, so its newest are lost in a power cut; what was read for a decision is not.
        """
        if self._tape_synced is not None and seq > self._tape_synced:
            self.tape_db.sync()
            self._tape_synced = seq

    def engine(self, agent: AgentProfile) -> Engine:
        """The engine of an agent, made once; an agent that names none has the home's default."""
        # A tick asks three times in a row for one agent.
        last = self._last_engine
        if last is not None and last[0] is agent:
            return last[1]
        cap, settings = agent.caps.max_model_usd_e6_per_run, agent.engine_settings or ()
        terms = EngineTerms(agent.model, agent.members, cap, self._member, self._asker, settings)
        found = self._engine(agent.engine or self.config.engine.default, terms)
        self._last_engine = agent, found
        return found

    def _member(self, entry: str, cap: int) -> Engine:
        name, _, model = entry.partition(":")
        return self._engine(name, EngineTerms(model, (), cap, self._member, self._asker))

    def _asker(self, provider: str, model: str) -> Asker:
        """A provider's model, under the home's budget; its connections are shared by all who ask it."""
        if (provider, model) not in self._askers:
            key = self._keys[provider]
            self._askers[provider, model] = make_asker(self.config, provider, model, key=key, ledger=self._ledger)
        return self._askers[provider, model]

    def askers(self, agent: AgentProfile) -> tuple[list[Asker], list[Asker]]:
        """The models that an agent's decisions ask, and those that its notes ask; nothing is asked here."""
        # By identity: members of an ensemble that ask the same model count once.
        deciding: dict[str, Asker] = {}
        writing: dict[str, Asker] = {}

        def collect_into(found: dict[str, Asker]) -> Callable[[str, str], Asker]:
            def asker_for(provider: str, model: str) -> Asker:
                made = self._asker(provider, model)
                return found.setdefault(made.identity, made)

            return asker_for

        def member(entry: str, cap: int) -> Engine:
            name, _, model = entry.partition(":")
            return make_engine(name, EngineTerms(model, (), cap, member, collect_into(deciding)))

        cap, settings = agent.caps.max_model_usd_e6_per_run, agent.engine_settings or ()
        terms = EngineTerms(agent.model, agent.members, cap, member, collect_into(deciding), settings)
        make_engine(agent.engine or self.config.engine.default, terms)
        if agent.reflection.cadence != "off":
            writes = ReflectorTerms(agent.model, cap, collect_into(writing))
            plug.load("tapebook.lessons.reflectors", agent.reflection.reflector).create(writes)
        return list(deciding.values()), list(writing.values())

    def reflector(self, agent: AgentProfile) -> Reflector:
        """Who writes an agent's notes; a model may spend on one what it may spend on a decision."""
        terms = ReflectorTerms(agent.model, agent.caps.max_model_usd_e6_per_run, self._asker)
        made: Reflector = plug.load("tapebook.lessons.reflectors", agent.reflection.reflector).create(terms)
        return made

    def without_keys(self, text: str) -> str:
        """A text of others without any key this home has."""
        for key in (*self._keys.values(), *map(Key, embedder_keys().values())):
            text = key.redact(text)
        return redact_passwords(text)

    def _index(self, terms: SearchTerms, place: Path) -> Index:
        recall = self.config.recall
        made: Index = plug.load("tapebook.search.indexes", terms.slot).create(
            IndexTerms(
                str(place),
                embedder=terms.embedder or recall.embedder,
                embedding=EmbedderTerms(
                    terms.model,
                    recall.embedder_url,
                    Key(embedder_keys().get(terms.embedder, "")),
                    elapsed=elapsed_seconds,
                ),
                lexical_percent=terms.lexical_percent,
                semantic_percent=terms.semantic_percent,
                minimum_percent=terms.minimum_percent,
                per_path=terms.per_path,
                per_kind=dict(terms.per_kind),
                rules=terms.rules,
                filler_percent=terms.filler_percent,
            )
        )
        return made

    def broker(self, name: str) -> Broker:
        """The broker of that name."""
        if name not in self._brokers:
            self._brokers[name] = plug.load("tapebook.broker.brokers", name).create(paper_terms(self.config))
        return self._brokers[name]

    def close(self) -> None:
        """Ends all connections."""
        self.indexes.close()
        self.archive.close()
        self.book_db.close()
        self.tape_db.close()


def make_asker(config: Config, provider: str, model: str, *, key: Key, ledger: SpendLedger | None = None) -> Asker:
    """A model with its price and its budget; no name means the usual one of its provider."""
    llm = config.llm
    names = {"anthropic": llm.anthropic_model, "openai": llm.openai_model}
    urls = {"anthropic": llm.anthropic_url, "openai": llm.openai_url}
    name, url = model or names[provider], urls[provider]
    unknown = Price(round(llm.input_usd_per_mtok * 1e6), round(llm.output_usd_per_mtok * 1e6))
    return Asker(
        plug.load("tapebook.llm.models", provider).create(ModelTerms(name, url, key, elapsed_seconds)),
        name=name,
        place=url,
        price=price_of(name, unknown=unknown),
        budget=Budget(llm.attempts, llm.timeout_seconds, llm.total_seconds, llm.max_tokens),
        waiting=WaitClock(elapsed_seconds, time.sleep),
        ledger=ledger,
    )


def with_slot(config: Config, slot: str | None) -> Config:
    """The settings, with another search than they name."""
    return config if slot is None else replace(config, recall=replace(config.recall, slot=slot))


def search_terms(config: Config) -> SearchTerms:
    """The settings of recall, in the integers that are kept."""
    recall, plain = config.recall, config.recall.slot == WORDS_ONLY_SLOT
    return SearchTerms(
        slot=recall.slot,
        embedder="" if plain else recall.embedder,
        model="" if plain else recall.embedder_model,
        lexical_percent=round(recall.lexical_weight * 100),
        semantic_percent=round(recall.semantic_weight * 100),
        minimum_percent=round(recall.minimum_likeness * 100),
        per_path=recall.per_document,
        per_kind=tuple((kind, int(most)) for kind, _, most in (cap.partition(":") for cap in recall.per_kind)),
        rules=RULES,
    )


def paper_terms(config: Config) -> PaperTerms:
    """The settings of paper trading, in the integers a broker counts with."""
    paper = config.paper
    return PaperTerms(
        latency_ms=paper.latency_ms,
        taker_fee_ppm=round(paper.taker_fee_bps * 100),
        maker_fee_ppm=round(paper.maker_fee_bps * 100),
        spread_ppm=round(paper.spread_bps * 100),
        impact_ppm_per_100k=round(paper.impact_bps * 100),
        max_impact_ppm=round(paper.max_impact_bps * 100),
        liquidation_fee_ppm=round(paper.liquidation_fee_bps * 100),
        limit_order_ms=paper.limit_order_minutes * MINUTE,
        default_max_leverage=paper.default_max_leverage,
        fill=paper.fill,
        lots=paper.lots,
    )


def _open_database(
    home: Path,
    place: str,
    packages: tuple[str, ...],
    *,
    durable: bool,
    large_pages: bool = False,
    read_only: bool = False,
) -> Database:
    place = place if "://" in place else str(home / place)
    db = connect(place, durable=durable, large_pages=large_pages, read_only=read_only)
    try:
        if not read_only:
            migrate(db, packages)
    except BaseException:
        db.close()
        raise
    return db
