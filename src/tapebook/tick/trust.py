"""The twins of an ensemble's members in the tick: what a decision is told of them, and what it stores for them.

A decision stores the price, the costs and the settings that value its members' votes (`slot_mark`). The next one is
told the trust they have earned by then (`trust_for`), and once a day the twins are kept as an event (`twins_due`).
"""

from functools import partial

from tapebook.book.events import EVENT_KINDS, RunDecided, event_body
from tapebook.book.store import Book
from tapebook.context import Market, PacketVersion
from tapebook.domain.agent import Deployment, ExperienceRow, ExperienceSettings
from tapebook.domain.run import DecisionRun, SlotMark
from tapebook.domain.targets import NO_TRUST, LearnedTrust
from tapebook.experience import Experience
from tapebook.experience.memories import ReadRuns
from tapebook.experience.records import UNKNOWN_REGIME, believed_rates_e4
from tapebook.experience.rows import FEWEST_CALIBRATED
from tapebook.log import Draft, Log, Stream
from tapebook.wiring import Rooms

_RUN_KINDS = frozenset((EVENT_KINDS[RunDecided],))


def slot_mark(market: Market, settings: ExperienceSettings, *, cost_ppm: int) -> SlotMark | None:
    """What a decision values the twins of its members by; None without a price."""
    if market.mid is None or market.mid.price_e8 <= 0:
        return None
    funding = market.context.funding_e12 if market.context else 0
    if market.context is None and market.settled is not None:
        funding = market.settled.rate_e12 // market.settled.interval_hours
    return SlotMark(
        market.mid.price_e8,
        cost_ppm,
        funding,
        market.regime or UNKNOWN_REGIME,
        settings.learning_rate_e4,
        settings.context_window,
        settings.max_memory_size,
    )


def trust_for(
    experience: Experience, deployment: Deployment, market: Market, *, runs: ReadRuns, seq: int, version: PacketVersion
) -> tuple[LearnedTrust, tuple[ExperienceRow, ...]]:
    """The trust in the members of an ensemble as of a sequence number, at the price of now; and its rows."""
    settings = deployment.agent.experience
    if not (version.paper_twins and settings.enabled and market.mid):
        return NO_TRUST, ()
    memory = experience.twins
    known = memory.as_of(deployment.id, seq=seq, runs=runs).get(market.symbol)
    # What the next trade will cost is no part of what was earned, and the home's settings may change.
    mark = slot_mark(market, settings, cost_ppm=known.mark.cost_ppm if known else 0)
    if known is None or mark is None or market.as_of < known.at:
        return NO_TRUST, ()
    twins, weights = memory.cache.mark(known, market.as_of, mark)
    believed: tuple[int, ...] = ()
    if settings.calibrated_sizing is True:
        records = experience.records_as_of(deployment.id, seq=seq).records
        believed = believed_rates_e4(records, prior=settings.prior_trades, fewest=FEWEST_CALIBRATED)
    return LearnedTrust(weights, twins.missed_e9, believed), memory.cache.rows(weights)


def runs_of(book: Book, log: Log, deployment: str) -> ReadRuns:
    """What reads the decisions of a deployment between two sequence numbers."""
    return partial(_runs_between, log, book.stream(deployment))


def _runs_between(log: Log, stream: Stream, after: int, until: int) -> list[DecisionRun]:
    newest = log.last_change_seq(stream, _RUN_KINDS, seq=until)
    if newest is not None and newest <= after:
        return []
    events = log.events(stream, after=after, until=until)
    return [event_body(event, RunDecided).run for event in events if event.kind in _RUN_KINDS]


def twins_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The event that keeps the twins of a deployment, once a day."""
    if (deployment.agent.engine or rooms.config.engine.default) != "ensemble":
        return []
    runs = runs_of(rooms.book, rooms.log, deployment.id)
    return rooms.experience.twins.draft_if_due(deployment.id, now=rooms.clock.now(), seq=seq, runs=runs)
