"""The memories in the tick: experience, layers and lessons, read for a packet and taught by outcomes.

- experience: what the packet is told (`experience_for`), the moment of a decision (`moment_drafts`), and what closed
  trades teach (`outcomes_due`);
- the twins of an ensemble's members: a decision stores the price, the costs and the settings that value their votes
  (`slot_mark`), and the next one is told the trust they have earned by then;
- horizons: `LayerCache.packet_rows` gives the rows for a packet, `tick/learn.py` rolls days up;
- lessons (`lessons_for`): an agent's own note, then notes that were promoted to its skills. A skill is a name;
  every agent has the skill of its own name, and further ones stand in its profile. A promotion is an event of the
  owner's stream, and `promoted_notes_due` copies it to a deployment before its next decision, which reads its own
  stream alone.

Caches here hold the last window or note asked for and are compared by value, so nothing has to invalidate them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from tapebook.archive import SpooledArchive
from tapebook.book.events import EVENT_KINDS, RunDecided, event_body
from tapebook.book.store import Book
from tapebook.context import CURRENT_VERSION, Market, PacketVersion, Situation, renderer_3
from tapebook.decision import default_members
from tapebook.domain.agent import (
    NO_LESSONS_FOLLOWED,
    AgentProfile,
    Deployment,
    ExperienceRow,
    ExperienceSettings,
    FollowedLessons,
    LayerRow,
    Lessons,
    Note,
    SkillNote,
)
from tapebook.domain.cache import LastCall
from tapebook.domain.market import AssetContext, Candle, Liquidity, SettledFunding
from tapebook.domain.packet import AnalogFacts, Citation
from tapebook.domain.position import ClosedTrade, Portfolio, Position
from tapebook.domain.run import DecisionRun, SlotMark
from tapebook.domain.targets import NO_TRUST, LearnedTrust
from tapebook.domain.text import sanitise_lines
from tapebook.domain.units import E12, HOUR
from tapebook.errors import BadInput, UnknownName
from tapebook.experience import (
    HALF_HOUR,
    BarFeatures,
    Experience,
    ExperienceQuery,
    FeatureVector,
    MarketFeatures,
    PacketExperience,
    draft_moment_seen,
    feature_vector_of,
    market_features_at,
)
from tapebook.experience.memories import ReadRuns
from tapebook.experience.records import PPM_PER_BP, UNKNOWN_REGIME, Outcome, believed_rates_e4
from tapebook.experience.rows import FEWEST_CALIBRATED
from tapebook.experience.store import RecordsAsOf
from tapebook.home import shared_lock
from tapebook.lessons import NO_LESSONS, note_bullets, rendered_bullets, shared_bullets
from tapebook.lessons.hypotheses import EntryDecision, TradeCase, case_of, entry_facts
from tapebook.lessons.notes import Notes, draft_note_promoted
from tapebook.lessons.trials import follow_lessons
from tapebook.library.document_texts import trade_path
from tapebook.library.search import index_as_of
from tapebook.log import Draft, Log, Stream
from tapebook.search import GLOBAL_SCOPE
from tapebook.search.documents import Documents
from tapebook.search.index import RULES, IndexFiles, decode_search_terms
from tapebook.search.text import ShownTexts
from tapebook.settings.config import PaperSettings
from tapebook.settings.profiles import SKILL_NAME
from tapebook.tape.bars import RegimeClassifier
from tapebook.wiring import Rooms

STEP_TRADES = 2_000
"""How many trades are learned from at once: about a second, so that leases are kept alive in between."""

_RUN_KINDS = frozenset((EVENT_KINDS[RunDecided],))

# Packets of renderer 4 and before speak of the ensemble of their time, which this one had not joined.
_MEMBER_SINCE_LOOKBACKS = "analog"

LearnedFacts = tuple[tuple[ExperienceRow, ...], LearnedTrust, AnalogFacts | None]
"""Rows of experience, the trust in members of an ensemble, and what followed similar moments."""
NO_EXPERIENCE: LearnedFacts = ((), NO_TRUST, None)

_VectorInputs = tuple[tuple[Candle, ...], AssetContext | SettledFunding | None, Liquidity | None, int]
"""What a reading comes from beside what is held: bars, funding, book, and the half hour."""


def experience_for(
    rooms: Rooms, deployment: Deployment, market: Market, *, portfolio: Portfolio, seq: int, version: PacketVersion
) -> LearnedFacts:
    """What experience says of a situation as of a sequence number.

    It is read whole or not at all: a replay leaves out all that a run names by one word.
    """
    agent, experience = deployment.agent, rooms.experience
    settings = agent.experience
    if not settings.enabled:
        return NO_EXPERIENCE
    records = experience.records_as_of(deployment.id, seq=seq)
    # Bars that could not be classified are asked about like trades without a tag.
    regime = (market.regime if version.scaled_regimes else market_regime(market, version=version)) or UNKNOWN_REGIME
    position = portfolio.positions.get(market.symbol)
    held = 0 if position is None else 1 if position.size_e8 > 0 else -1
    # Who is to be trusted or not: the members of an ensemble, or the engine itself.
    usual = rooms.config.engine.default
    members = members_of(agent, usual)
    providers = members or (agent.engine or usual,)
    if not version.lookbacks:
        providers = tuple(name for name in providers if name != _MEMBER_SINCE_LOOKBACKS)
    if version.lookbacks:
        seen = experience.seen_moment(market)
        vector = None if seen is None else seen.vector
        question = ExperienceQuery(market.as_of, market.symbol, regime, providers, vector, held)
        found = experience.rows_for_packet(records, question, seq=seq, settings=settings)
    else:
        question = ExperienceQuery(market.as_of, market.symbol, regime, providers)
        found = PacketExperience(
            _old_experience_rows(experience, records, question, market=market, settings=settings, held=held)
        )
    twins, known = experience.twins, None
    if version.paper_twins and market.mid and members:
        runs = runs_of(rooms.book, rooms.log, deployment.id)
        known = twins.as_of(deployment.id, seq=seq, runs=runs).get(market.symbol)
    # What the next trade will cost is no part of what was earned, and the home's settings may change.
    mark = slot_mark(market, settings, cost_ppm=known.mark.cost_ppm) if known else None
    if known is None or mark is None or market.as_of < known.at:
        return found.rows, NO_TRUST, found.analog
    # The trust the members have earned by now, at the price of now.
    marked, weights = twins.cache.mark(known, market.as_of, mark)
    believed: tuple[int, ...] = ()
    if settings.calibrated_sizing is True:
        believed = believed_rates_e4(records.records, prior=settings.prior_trades, fewest=FEWEST_CALIBRATED)
    trust = LearnedTrust(weights, marked.missed_e9, believed)
    return (*twins.cache.rows(weights), *found.rows), trust, found.analog


def members_of(agent: AgentProfile, usual_engine: str) -> tuple[str, ...]:
    """Whose votes decide for an agent: the members it names, or its engine's; none where that decides alone."""
    try:
        usual = default_members(agent.engine or usual_engine)
    except UnknownName:
        # What an engine decided that is no longer installed can be read all the same.
        return ()
    return (agent.members or usual) if usual else ()


def moment_drafts(
    experience: Experience, run_id: str, situation: Situation, *, paper: PaperSettings, opens: bool, seq: int
) -> list[Draft]:
    """What is kept of the moment of a decision: a note once an hour, and what a run saw that opens something."""
    seen = experience.seen_moment(situation.market)
    if seen is None:
        return []
    drafts: list[Draft] = []
    deployment, symbol = situation.deployment.id, situation.market.symbol
    # At most one of each hour and symbol is noted; where it is not known that one is, `note` looks.
    if seen.features.at // HOUR > experience.moments.noted_hours[deployment].get(symbol, -1):
        # Stored with the note: settings may change, and what a packet was told may not.
        costs = round(PPM_PER_BP * (2 * paper.taker_fee_bps + 2 * paper.impact_bps + paper.spread_bps))
        drafts = experience.moments.note(deployment, symbol, seen, costs_ppm=costs, seq=seq)
    if opens:
        conditions = seen.conditions
        drafts.append(draft_moment_seen(run_id, symbol, seen.vector, conditions=conditions, at=situation.as_of))
    return drafts


def slot_mark(market: Market, settings: ExperienceSettings, *, cost_ppm: int) -> SlotMark | None:
    """What a decision values the twins of its members by; None without a price."""
    if market.mid is None or market.mid.price_e8 <= 0:
        return None
    funding = market.context.funding_e12 if market.context else 0
    if market.context is None and market.settled_funding is not None:
        funding = market.settled_funding.rate_e12 // market.settled_funding.interval_hours
    return SlotMark(
        market.mid.price_e8,
        cost_ppm,
        funding,
        market.regime or UNKNOWN_REGIME,
        settings.learning_rate_e4,
        settings.context_window,
        settings.max_memory_size,
    )


def runs_of(book: Book, log: Log, deployment: str) -> ReadRuns:
    """What reads the decisions of a deployment between two sequence numbers."""
    return partial(_runs_between, log, book.stream(deployment))


def _runs_between(log: Log, stream: Stream, after: int, until: int) -> list[DecisionRun]:
    newest = log.last_change_seq(stream, _RUN_KINDS, seq=until)
    if newest is not None and newest <= after:
        return []
    events = log.events(stream, after=after, until=until)
    return [event_body(event, RunDecided).run for event in events if event.kind in _RUN_KINDS]


def _old_experience_rows(
    experience: Experience,
    records: RecordsAsOf,
    question: ExperienceQuery,
    *,
    market: Market,
    settings: ExperienceSettings,
    held: int,
) -> tuple[ExperienceRow, ...]:
    """The rows of packets of renderer 4 and before, whose situations are those of the bars they show."""
    if not records.seq:
        return ()
    read = _feature_vector_cache(market.symbol, market.bar_minutes, len(market.bars), held=held)
    reading = read((market.bars, market.context or market.settled_funding, market.liquidity, market.as_of // HALF_HOUR))
    return experience.old_rows_for_packet(records, question, reading, settings=settings)


def market_regime(market: Market, *, version: PacketVersion) -> str | None:
    """The regime a packet of a version speaks of; before regimes were scaled it was not read with the market."""
    if version.scaled_regimes:
        return market.regime
    return _unscaled_regime_cache(market.symbol, market.bar_minutes, len(market.bars))(market.bars)


def outcomes_due(book: Book, experience: Experience, name: str, *, seq: int) -> list[Draft]:
    """The events of the next trades that ended and were not learned from yet, in the order of their ends.

    They are one step of `STEP_TRADES` at most: the next call goes on behind them, also after a restart.
    """
    after = experience.learned_up_to(name, seq=seq, ended=book.trade_end_seq)
    while closed := book.closed_after(name, after=after, seq=seq, most=STEP_TRADES):
        # Looked at again are mostly those learned just before, whose runs need not be read.
        new = [trade for trade in closed if not experience.is_learned(name, trade.state.trade_id)]
        entered = [(trade, book.run(trade.state.entry_run_id or "")) for trade in new]
        if drafts := experience.learn(name, entered, seq=seq):
            return drafts
        if len(closed) < STEP_TRADES:
            break
        after = book.trade_end_seq(closed[-1].state.trade_id) or seq
        experience.mark_learned_up_to(name, seq=after)
    experience.mark_learned_up_to(name, seq=seq)
    return []


def append_experience_snapshot(
    book: Book, experience: Experience, name: str, *, label: str, since_seq: int, seq: int, span: tuple[int, int]
) -> int:
    """Keeps what was achieved between two sequence numbers, such as in a chunk of a backtest; returns the new head."""
    taken = experience.draft_chunk_snapshot(name, label, since_seq=since_seq, seq=seq, span=span)
    return book.append(name, [taken], expected_seq=book.head(name))[-1].seq


def _market_features(
    as_of: int,
    shape: MarketFeatures,
    funding: AssetContext | SettledFunding | None,
    *,
    liquidity: Liquidity | None,
    held: int,
) -> MarketFeatures:
    """What is seen, from the shape of bars and the newest funding, current or settled: both by the hour."""
    if not isinstance(funding, SettledFunding):
        return market_features_at(as_of, shape, funding, liquidity, held=held)
    hourly = funding.rate_e12 / funding.interval_hours / E12
    return msgspec.structs.replace(market_features_at(as_of, shape, None, liquidity, held=held), funding=hourly)


# Caches of the last window asked for, compared bar by bar; not of results by window, since the hash of one costs half
# a look. A half-hour bar is the newest of six decisions in a row, and of many agents.
@lru_cache(maxsize=256)
def _bar_features_cache(_symbol: str, _minutes: int, _count: int) -> LastCall[tuple[Candle, ...], MarketFeatures]:
    """What looks at the shape of windows of one kind."""
    return LastCall(BarFeatures())


@lru_cache(maxsize=256)
def _unscaled_regime_cache(_symbol: str, _minutes: int, _count: int) -> RegimeClassifier:
    """What tags windows of one kind for packets of renderer 2."""
    return RegimeClassifier(scaled=False)


@lru_cache(maxsize=256)
def _feature_vector_cache(
    symbol: str, minutes: int, count: int, *, held: int
) -> LastCall[_VectorInputs, FeatureVector]:
    """Who makes the reading of windows of one kind: what is new every time is the moment, which is not in it."""
    eye = _bar_features_cache(symbol, minutes, count)

    def read(seen: _VectorInputs) -> FeatureVector:
        bars, funding, liquidity, half_hour = seen
        return feature_vector_of(
            _market_features(half_hour * HALF_HOUR, eye(bars), funding, liquidity=liquidity, held=held)
        )

    return LastCall(read)


# Beyond the end of any stream. What the owner promoted is read as it is now: that it was read is an event.
_NEWEST_SEQ = 2**62


class Promotion(msgspec.Struct, frozen=True):
    """What holds for a skill now, and the deployments that are told before their next decision."""

    skill: str
    note_id: str
    agent: str
    content_hash: str
    bullets: tuple[str, ...]
    told: tuple[str, ...]

    def result_line(self) -> str:
        """What happened, in a line."""
        whom = ", ".join(self.told) or "nobody yet: no other deployment has this skill"
        if not self.bullets:
            return f"nothing is promoted to {self.skill} any more; told: {whom}"
        return f"{len(self.bullets)} lessons of {self.agent} are promoted to {self.skill}; told: {whom}"


def promote(rooms: Rooms, deployment: Deployment, skill: str) -> Promotion:
    """Makes the note that stands for a deployment hold for a skill."""
    require_skill(skill)
    note = rooms.notes.active_note(deployment.id, seq=rooms.book.head(deployment.id))
    if note is None or not shared_bullets(note.lessons_text):
        raise BadInput(f"{deployment.agent.name} has no lessons to promote: `tapebook lessons show` says what it has")
    text, content_hash = note.lessons_text, note.content_hash
    at, agent = rooms.clock.now(), deployment.agent.name
    held = SkillNote(skill, note.note_id, deployment.id, agent, at, text, content_hash)
    return _append_promotion(rooms.book, rooms.home, held)


def demote(rooms: Rooms, skill: str) -> Promotion:
    """Ends what was promoted to a skill."""
    promoted = {each.skill: each for each in promotions(rooms.book, rooms.notes)}
    if skill not in promoted:
        known = ", ".join(promoted) or "none"
        raise UnknownName(f"nothing is promoted to {skill!r}; skills with lessons: {known}")
    ended = msgspec.structs.replace(promoted[skill], happened_at=rooms.clock.now(), lessons_text="", content_hash="")
    return _append_promotion(rooms.book, rooms.home, ended)


def promotions(book: Book, notes: Notes, *, as_of: int | None = None) -> list[SkillNote]:
    """What holds for each skill now, or held at a moment."""
    seq = _NEWEST_SEQ if as_of is None else book.seq_as_of("", as_of)
    return [each for each in notes.skill_notes("", seq=seq) if each.lessons_text]


def require_skill(name: str) -> None:
    """Refuses what cannot be the name of a skill."""
    if not SKILL_NAME.fullmatch(name):
        raise BadInput(f"{name[:60]!r} cannot be the name of a skill: use up to 40 letters, digits, . _ or -")


def promoted_notes_due(notes: Notes, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events by which a deployment is told what was promoted, or taken back, since it was last told."""
    wanted = skills_of(deployment.agent)
    held = [each for each in notes.skill_notes("", seq=_NEWEST_SEQ) if each.skill in wanted]
    if not held:
        return []
    stored = {each.skill: each for each in notes.skill_notes(deployment.id, seq=seq)}
    news = [(_note_for(deployment, each), stored.get(each.skill)) for each in held]
    return [draft_note_promoted(new) for new, old in news if (new.lessons_text if old is None else new != old)]


def cases_of(experience: Experience, deployment: str, trades: Sequence[ClosedTrade], *, seq: int) -> list[TradeCase]:
    """Closed trades as evidence for lessons, with what experience knows of the decisions behind them."""
    if not trades:
        return []
    # Those that ended in between and are not among the trades lack fills, and are few.
    since = min(trade.exit_tick_at for trade in trades) - 1
    most = 2 * len(trades) + STEP_TRADES
    outcomes = experience.outcomes(deployment, seq=seq, most=most, since=since)
    known = {outcome.trade_id: outcome for outcome in outcomes}
    return [case_of(trade, _entry_decision(known.get(trade.state.trade_id))) for trade in trades]


def _entry_decision(outcome: Outcome | None) -> EntryDecision:
    if outcome is None:
        return EntryDecision()
    voters = [
        vote.provider for vote in outcome.votes if vote.side == outcome.side and vote.action in ("open", "adjust")
    ]
    providers = (outcome.provider, *voters) if outcome.provider else None
    return EntryDecision(providers, outcome.confidence_e4, outcome.conditions)


def lessons_for(notes: Notes, deployment: Deployment, *, seq: int, version: PacketVersion = CURRENT_VERSION) -> Lessons:
    """What an agent is told of its lessons: the bullets of its note, then those of its skills; often nothing.

    Since lessons are hypotheses only bullets are told that were rendered from one. The hash is that of the first note
    with anything to tell, so that it joins one. Where none has, it is that of the agent's own note, and without one
    that of an empty text.
    """
    return _lessons_cache((version, deployment.agent, notes.notes_for_packet(deployment.id, seq=seq)))


def notes_of_lessons(
    notes: Notes, deployment: Deployment, *, seq: int, version: PacketVersion = CURRENT_VERSION
) -> list[Note | SkillNote]:
    """The notes that these lessons are from."""
    note, held = notes.notes_for_packet(deployment.id, seq=seq)
    own_bullets, shared_of = _bullet_readers(version)
    own = [note] if note and own_bullets(note.lessons_text) else []
    return [*own, *(each for each in _promoted_notes(deployment.agent, held) if shared_of(each.lessons_text))]


def lessons_and_scale(
    notes: Notes, experience: Experience, deployment: Deployment, market: Market, *, seq: int, version: PacketVersion
) -> tuple[Lessons | None, FollowedLessons]:
    """What an agent is told of its lessons, and what one that follows confirmed ones is to do here.

    By an ensemble they scale its size; by default none are followed, and nothing is read for it.
    """
    told, follow = lessons_for(notes, deployment, seq=seq, version=version), deployment.agent.reflection.follow
    if follow is msgspec.UNSET or not version.hypotheses:
        return told, NO_LESSONS_FOLLOWED
    lessons = [change.lesson for change in notes.lessons(deployment.id, seq=seq)]
    # Seen like the moment of an entry, so that a condition means the same before a trade as in its evidence.
    seen = experience.seen_moment(market)
    facts = entry_facts(
        symbol=market.symbol,
        side=None,
        regime=market_regime(market, version=version),
        at=market.as_of,
        conditions=dict(seen.conditions) if seen else {},
    )
    return told, follow_lessons(lessons, facts, skip=follow == "skip")


_BulletReader = Callable[[str], tuple[str, ...]]


def _bullet_readers(version: PacketVersion) -> tuple[_BulletReader, _BulletReader]:
    """How bullets are read from the own note, and from those of others."""
    return (rendered_bullets, shared_bullets) if version.hypotheses else (note_bullets, note_bullets)


def _join_lessons(
    inputs: tuple[PacketVersion, AgentProfile, tuple[Note | None, tuple[SkillNote, ...]]],
) -> Lessons:
    version, agent, (note, held) = inputs
    own_bullets, shared_of = _bullet_readers(version)
    own = own_bullets(note.lessons_text) if note else ()
    shared = [each for each in _promoted_notes(agent, held) if shared_of(each.lessons_text)]
    lines = [
        f"From {each.agent}: {line}" for each in shared for line in shared_of(each.lessons_text) if line not in own
    ]
    if shared and not own:
        return Lessons(tuple(lines), shared[0].content_hash)
    return Lessons((*own, *lines), note.content_hash if note else NO_LESSONS)


def _promoted_notes(agent: AgentProfile, held: Iterable[SkillNote]) -> list[SkillNote]:
    wanted = skills_of(agent)
    return [each for each in held if each.lessons_text and each.skill in wanted]


# Notes change once in many ticks.
_lessons_cache = LastCall(_join_lessons)


def _append_promotion(book: Book, home: Path, note: SkillNote) -> Promotion:
    with shared_lock(home):
        book.append("", [draft_note_promoted(note)], expected_seq=book.head())
    lines = [
        name
        for _, agent in book.agents()
        if note.skill in skills_of(agent)
        for name, _ in book.deployments(agent.name)
        if name != note.source
    ]
    bullets = shared_bullets(note.lessons_text)
    return Promotion(note.skill, note.note_id, note.agent, note.content_hash, bullets, tuple(lines))


def skills_of(agent: AgentProfile) -> frozenset[str]:
    return frozenset((agent.name, *agent.skills))


def _note_for(deployment: Deployment, held: SkillNote) -> SkillNote:
    """A promoted note as a deployment is told it: one of its own it knows, and only what held before it ends."""
    if held.source != deployment.id:
        return held
    return msgspec.structs.replace(held, lessons_text="", content_hash="")


MAX_CITATIONS = 6
"""More than fit the section; the shortest of them may."""


class ShownMemories(msgspec.Struct, frozen=True):
    """What a packet shows of other memories: closed trades, lessons, and rows of the horizons."""

    closed: Sequence[ClosedTrade] = ()
    lessons: Lessons | None = None
    horizons: Sequence[LayerRow] = ()


def citations_for(
    documents: Documents,
    indexes: IndexFiles,
    agent: AgentProfile,
    *,
    archive: SpooledArchive,
    market: Market,
    portfolio: Portfolio,
    remembered: ShownMemories,
    version: PacketVersion,
    seq: int,
) -> tuple[Citation, ...]:
    """The places in an agent's documents, and in everybody's, that speak to a situation as of a watermark.

    What the packet shows in another section is not among them.
    """
    closed = remembered.closed
    lines = sanitise_lines if version.sanitised else renderer_3.question_lines
    question = DecisionQuestion(
        symbol=market.symbol,
        regime=market_regime(market, version=version) or "",
        strategy=lines(agent.strategy or agent.engine),
        positions={symbol: _position_side(held) for symbol, held in portfolio.positions.items()},
        last_exit=lines(next((trade.exit_reason for trade in closed if trade.state.symbol == market.symbol), "")),
    )
    rules = decode_search_terms(documents.state_as_of(seq).terms).rules
    index = index_as_of(documents, archive, indexes, seq)
    search = partial(
        index.search, question.text(rules=rules), scopes=(agent.name, GLOBAL_SCOPE), seq=min(seq, index.head())
    )
    if rules == 1:
        return search(limit=MAX_CITATIONS).citations
    trades = [trade_path(agent.name, trade) for trade in closed]
    # As many again may be left out.
    found = search(limit=2 * MAX_CITATIONS, without=trades).citations
    return _not_in_packet(found, agent, remembered) if found else ()


def _position_side(held: Position) -> str:
    return "long" if held.size_e8 > 0 else "short"


def _not_in_packet(found: Sequence[Citation], agent: AgentProfile, remembered: ShownMemories) -> tuple[Citation, ...]:
    """The citations that say more than the packet does without them, numbered anew."""
    lessons = remembered.lessons.bullets if remembered.lessons else ()
    shown = ShownTexts(
        [agent.manual, agent.strategy, *agent.avoid, *lessons, *(row.value for row in remembered.horizons)]
    )
    rest = [each for each in found if not shown.covers(each.snippet)][:MAX_CITATIONS]
    return tuple(msgspec.structs.replace(each, id=f"c{at}") for at, each in enumerate(rest, start=1))


_MAX_LINE_CHARACTERS = 60


# The query is about the symbol at hand; many others would drown it.
_MAX_OTHER_POSITIONS = 4


_UNKNOWN_REGIME = "unknown"


class DecisionQuestion(msgspec.Struct, frozen=True):
    """A symbol, the regime of its bars, the strategy, the side of every open position, and why it was left last.

    Strategy and exit are sanitised lines; of each the first one, which names what the rest explains, is asked about.
    """

    symbol: str
    regime: str
    strategy: Sequence[str]
    positions: Mapping[str, str] = {}
    last_exit: Sequence[str] = ()

    def text(self, *, rules: int = RULES) -> str:
        """The sentence."""
        side = self.positions.get(self.symbol, "")
        held = f"open position {side}" if side else ""
        parts = [self.symbol, self.regime.replace("_", " "), _first_line(self.strategy), held]
        if rules == 1:
            parts = [*parts[:3], held or "no open position", _first_line(self.last_exit)]
        else:
            parts[1] = "" if self.regime == _UNKNOWN_REGIME else parts[1]
            parts.append(self._others())
        return " ".join(part for part in parts if part)

    def _others(self) -> str:
        others = sorted(symbol for symbol in self.positions if symbol != self.symbol)[:_MAX_OTHER_POSITIONS]
        held = " ".join(f"{symbol} {self.positions[symbol]}" for symbol in others)
        return f"open positions {held}" if held else ""


def _first_line(lines: Sequence[str]) -> str:
    return next(iter(lines), "")[:_MAX_LINE_CHARACTERS]
