"""Recall in the tick: what a decision asks its documents, and how far the index knows them.

The index is derived: it takes in versions of the book with bodies of the archive, in their order (`catch_up`), and can
be thrown away at any time. A decision searches as of its watermark and with the terms of that time, so a replay finds
the same places in an index that was built anew.
"""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from tapebook.context import Market, PacketVersion, renderer_3
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.citation import Citation
from tapebook.domain.memory import LayerRow, Lessons
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.text import sanitise_lines
from tapebook.domain.trade import ClosedTrade
from tapebook.errors import StaleWriter, StoreFailed
from tapebook.home import sole_writer
from tapebook.loop.entries import body
from tapebook.loop.experience import market_regime
from tapebook.recall import GLOBAL, Index, IndexReport, Version
from tapebook.recall.documents import trade_path
from tapebook.recall.events import TermsChosen, draft
from tapebook.recall.question import Question
from tapebook.recall.snippet import ShownTexts
from tapebook.recall.terms import SearchTerms, terms_of
from tapebook.wiring import Rooms

MOST_CITATIONS = 6
"""More than fit the section; the shortest of them may."""

BATCH = 200
"""Versions whose bodies are in memory at a time."""

Progress = Callable[[int, int], None]


def silent(_done: int, _of: int) -> None:
    """Progress that nobody watches."""


def docs_head(rooms: Rooms) -> int:
    """The documents' watermark of this moment: all that is indexed here, and nothing that is not.

    Without an index there are no documents, which costs a look at the disk.
    """
    if not rooms.indexes.any():
        return 0
    until = rooms.documents.log_head()
    standing = rooms.documents.standing(until)
    indexed = rooms.indexes.of(terms_of(standing.terms)).head()
    # Terms count from their own event on, which may be behind the newest version.
    return until if indexed >= standing.newest > 0 else min(indexed, until)


class Remembered(msgspec.Struct, frozen=True):
    """What a packet shows of other memories: closed trades, lessons, and rows of the horizons."""

    closed: Sequence[ClosedTrade] = ()
    lessons: Lessons | None = None
    horizons: Sequence[LayerRow] = ()


def citations(
    rooms: Rooms,
    deployment: Deployment,
    market: Market,
    *,
    portfolio: Portfolio,
    remembered: Remembered,
    version: PacketVersion,
    seq: int,
) -> tuple[Citation, ...]:
    """The places in an agent's documents, and in everybody's, that speak to a situation as of a watermark.

    What the packet shows in another section is not among them.
    """
    agent, closed = deployment.agent, remembered.closed
    if not seq or not agent.context.memory:
        return ()
    lines = sanitise_lines if version.sanitised else renderer_3.question_lines
    question = Question(
        symbol=market.symbol,
        regime=market_regime(market, version=version) or "",
        strategy=lines(agent.strategy or agent.engine),
        positions={symbol: _side(held) for symbol, held in portfolio.positions.items()},
        last_exit=lines(next((trade.exit_reason for trade in closed if trade.state.symbol == market.symbol), "")),
    )
    rules = terms_of(rooms.documents.standing(seq).terms).rules
    index = index_as_of(rooms, seq)
    search = partial(index.search, question.text(rules=rules), scopes=(agent.name, GLOBAL), seq=min(seq, index.head()))
    if rules == 1:
        return search(limit=MOST_CITATIONS).citations
    trades = [trade_path(agent.name, trade) for trade in closed]
    # As many again may be left out.
    found = search(limit=2 * MOST_CITATIONS, without=trades).citations
    return _not_shown(found, agent, remembered) if found else ()


def _side(held: Position) -> str:
    return "long" if held.size_e8 > 0 else "short"


def _not_shown(found: Sequence[Citation], agent: AgentProfile, remembered: Remembered) -> tuple[Citation, ...]:
    """The citations that say more than the packet does without them, numbered anew."""
    lessons = remembered.lessons.bullets if remembered.lessons else ()
    shown = ShownTexts(
        [agent.manual, agent.strategy, *agent.avoid, *lessons, *(row.value for row in remembered.horizons)]
    )
    rest = [each for each in found if not shown.has(each.snippet)][:MOST_CITATIONS]
    return tuple(msgspec.structs.replace(each, id=f"c{at}") for at, each in enumerate(rest, start=1))


def index_as_of(rooms: Rooms, seq: int) -> Index:
    """The index with the terms of a watermark, knowing all versions up to it."""
    standing = rooms.documents.standing(seq)
    terms = terms_of(standing.terms)
    index = rooms.indexes.of(terms)
    if index.head() < standing.newest:
        # No further than the watermark: what came later may be damaged, and a replay of before does not need it.
        fill(rooms, index, until=standing.newest)
    return index


def choose_terms(rooms: Rooms) -> None:
    """Keeps the terms of the settings, if they are not those that stand; decisions search with them from now on."""
    chosen = rooms.search_terms().text
    if rooms.documents.standing(rooms.documents.log_head()).terms != chosen:
        rooms.documents.append([draft(rooms.clock.now(), TermsChosen(chosen))])


def catch_up(rooms: Rooms, terms: SearchTerms | None = None, *, progress: Progress = silent) -> IndexReport:
    """Indexes every version that is not indexed yet."""
    if not rooms.documents.head():
        return IndexReport()
    terms = terms or terms_of(rooms.documents.standing(rooms.documents.log_head()).terms)
    return fill(rooms, rooms.indexes.of(terms), progress=progress)


def fill(rooms: Rooms, index: Index, *, until: int | None = None, progress: Progress = silent) -> IndexReport:
    """Gives an index the versions behind its head, a batch at a time; whoever is killed goes on from there."""
    begun, newest = index.head(), rooms.documents.head() if until is None else until
    done = IndexReport(head=begun)
    while batch := rooms.documents.versions(after=done.head, until=newest, most=BATCH):
        try:
            report = index.index([(version, _body(rooms, version)) for version in batch])
        except StaleWriter:
            # Another process took some of them in; what is left is behind its head.
            done = msgspec.structs.replace(done, head=index.head())
            continue
        if report.head <= done.head:
            raise StoreFailed(f"the index stays at {report.head}: run `tapebook recall reindex`")
        done = IndexReport(
            done.versions + report.versions, done.written + report.written, done.kept + report.kept, report.head
        )
        progress(batch[-1].seq - begun, newest - begun)
    return done


def reindex(rooms: Rooms, *, progress: Progress = silent) -> IndexReport:
    """Builds the index anew beside the one that is there, and then puts it in its place.

    What a killed process has built by then is gone on with.
    """
    terms = rooms.search_terms()
    with sole_writer(rooms.home, "recall"):
        fresh = rooms.indexes.fresh(terms)
        try:
            report = fill(rooms, fresh, progress=progress)
        finally:
            fresh.close()
        rooms.indexes.replace(terms)
    return report


def _body(rooms: Rooms, version: Version) -> bytes:
    return body(rooms, version.sha256) if version.sha256 else b""
