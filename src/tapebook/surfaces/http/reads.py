"""The routes that read: every list and every thing of the façade, as of now or of any moment."""

from typing import Annotated, Any, Literal, TypedDict

import msgspec
from fastapi import APIRouter, Path, Query

from tapebook.api.agents import AgentView, ProfileView
from tapebook.api.app import Check, Preview, ReplayReport, ShadowReport
from tapebook.api.backtests import BacktestReportView, BacktestView
from tapebook.api.experience import ExperienceView, NeighboursView
from tapebook.api.horizons import LayerView
from tapebook.api.lessons import HypothesesView
from tapebook.api.market import ALL_SOURCES, AssetContextView, AssetView, BarView, MarketSource, MarketView
from tapebook.api.portfolio import EquityView, HomePortfolioView, StatusView
from tapebook.api.recall import DocumentText, ProposalDiff, ProposalView, RecallStatus, WriteView
from tapebook.domain.agent import Horizon, SkillNote
from tapebook.domain.views import (
    ExplainedRunView,
    NoteView,
    OrderView,
    PacketView,
    RecordedRunView,
    RunComparison,
    TradeView,
    packet_view,
)
from tapebook.surfaces.http.access import Reader
from tapebook.surfaces.http.answers import TypedRoute

# Every text is bounded: what is longer than any name, id or time is refused before a database sees it.
AsOf = Annotated[str | None, Query(max_length=40, description="ISO-8601 (UTC) or epoch milliseconds; else now.")]
# A thousand decisions are two megabytes; whoever wants more follows the cursor.
Most = Annotated[int, Query(ge=1, le=1000, description="At most so many rows.")]
Before = Annotated[str | None, Query(max_length=200, description="Go on behind this: `next` of the page before.")]
AgentFilter = Annotated[str | None, Query(max_length=64, description="Of this agent alone.")]
AgentName = Annotated[str, Path(max_length=64, description="The name of an agent.")]
Symbol = Annotated[str, Query(max_length=64, description="A symbol, such as BTC.")]
SymbolPath = Annotated[str, Path(max_length=64, description="A symbol, such as BTC.")]
RunId = Annotated[str, Path(max_length=64, description="The id of a run, or how it begins.")]
Name = Annotated[str, Path(max_length=100)]
# Beyond any number of versions, and an integer that both databases take.
Version = Annotated[int | None, Query(ge=1, le=10**9, description="A version of the agent.")]


class RunPage(TypedDict):
    """A page of decisions; `next` is the `before` of the following page, null at the end."""

    rows: list[RecordedRunView]
    next: str | None


class OrderPage(TypedDict):
    """A page of orders; `next` is the `before` of the following page, null at the end."""

    rows: list[OrderView]
    next: str | None


class TradePage(TypedDict):
    """A page of round trips; `next` is the `before` of the following page, null at the end."""

    rows: list[TradeView]
    next: str | None


class CitationView(TypedDict):
    """A place in a document."""

    id: str
    path: str
    startLine: int
    endLine: int
    score: float
    snippet: str
    source: str
    contentSha256: str


class SearchAnswer(TypedDict):
    """The places that were found, best first; without any, `why`."""

    query: str
    seq: int
    citations: list[CitationView]
    why: str
    explained: list[dict[str, float]]
    missing: str


class OfferView(TypedDict):
    """What a bot may know now: a text for its own prompt, the whole packet, and the ticket of the decision."""

    ticket: str
    text: str
    packet: PacketView


class CallerView(TypedDict):
    """Who calls, and what they may do."""

    name: str
    owner: str
    scopes: list[str]


_agent = APIRouter(route_class=TypedRoute, tags=["agents"])


@_agent.get("/agents")
def list_agents(caller: Reader, removed: bool = False, as_of: AsOf = None) -> list[ProfileView]:
    """Every agent with its newest profile, or that of a moment."""
    return caller.book.agents(removed=removed, as_of=as_of)


@_agent.get("/agents/{agent}")
def show_agent(caller: Reader, agent: AgentName, version: Version = None, *, as_of: AsOf = None) -> AgentView:
    """One agent: its profile, where it runs, and how its trades did."""
    return caller.book.agent(agent, version=version, as_of=as_of)


@_agent.get("/agents/{agent}/context")
def show_context(
    caller: Reader, agent: AgentName, symbol: Symbol, *, as_of: AsOf = None, version: Version = None
) -> PacketView:
    """What an agent would see of a symbol now, or what it would have seen at a moment."""
    return packet_view(caller.book.context(agent, symbol, as_of=as_of, version=version))


@_agent.get("/agents/{agent}/decision")
def offer_decision(caller: Reader, agent: AgentName, symbol: Symbol, at: AsOf = None) -> OfferView:
    """What a bot that lives elsewhere may know now, and the ticket with which it records what it decides."""
    offer = caller.book.offer_decision(agent, symbol, at=at)
    return {"ticket": offer.ticket, "text": offer.text, "packet": packet_view(offer.packet)}


@_agent.get("/agents/{agent}/preview")
def show_preview(
    caller: Reader, agent: AgentName, symbol: Symbol, *, as_of: AsOf = None, version: Version = None
) -> Preview:
    """What a packet takes: tokens of every part against its cap, rows left out, warnings."""
    return caller.book.preview(agent, symbol, as_of=as_of, version=version)


@_agent.get("/agents/{agent}/shadow")
def compare_shadow(caller: Reader, agent: AgentName, most: Most = 500) -> ShadowReport:
    """An agent's decisions beside those of its shadow."""
    return caller.book.compare_shadow(agent, most=most)


_memory = APIRouter(route_class=TypedRoute, tags=["memory"])


@_memory.get("/agents/{agent}/lessons")
def list_lessons(caller: Reader, agent: AgentName, most: Most = 10, as_of: AsOf = None) -> list[NoteView]:
    """An agent's notes, the active one and those before it, newest first."""
    return caller.book.lessons(agent, most=most, as_of=as_of)


@_memory.get("/agents/{agent}/hypotheses")
def list_hypotheses(caller: Reader, agent: AgentName, most: Most = 20, as_of: AsOf = None) -> HypothesesView:
    """An agent's lessons with evidence and state, and the newest changes of them."""
    return caller.book.hypotheses(agent, most=most, as_of=as_of)


@_memory.get("/agents/{agent}/experience")
def show_experience(caller: Reader, agent: AgentName, as_of: AsOf = None) -> ExperienceView:
    """Whom an agent trusts and where it does well."""
    return caller.book.experience.show(agent, as_of=as_of)


@_memory.get("/horizons")
def list_horizons(
    caller: Reader,
    agent: AgentFilter = None,
    layer: Annotated[str | None, Query(max_length=20, description="L1 to L7, or a whole name.")] = None,
    as_of: AsOf = None,
) -> list[LayerView]:
    """The newest timeframe of every layer, or all that is kept of one; of an agent, or of all together."""
    return caller.book.horizons.show(agent, layer=layer, as_of=as_of)


@_memory.get("/skills")
def list_skills(caller: Reader, agent: AgentFilter = None, as_of: AsOf = None) -> list[SkillNote]:
    """Lessons that are promoted to others: all of them, or those an agent is told."""
    skills = caller.book.skills
    return skills.notes_for(agent, as_of=as_of) if agent else skills.promoted_notes(as_of=as_of)


@_memory.get("/agents/{agent}/experience/similar")
def find_similar(caller: Reader, agent: AgentName, symbol: Symbol, as_of: AsOf = None) -> NeighboursView:
    """The moments of the past most like one, and what the market did after them."""
    return caller.book.experience.similar(agent, symbol, as_of=as_of)


@_memory.get("/recall/search")
def search_documents(
    caller: Reader,
    query: Annotated[str, Query(max_length=2000, description="A question, in words.")],
    *,
    agent: AgentFilter = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    kind: Annotated[list[str] | None, Query(max_length=20, description="Kinds of documents.")] = None,
    as_of: AsOf = None,
) -> SearchAnswer:
    """Places in documents that answer a question: those an agent may see, or all."""
    found = caller.book.recall.search(query, agent=agent, limit=limit, as_of=as_of, kinds=kind)
    # Through builtins: scores come as tuples and structs.
    return msgspec.convert(msgspec.to_builtins(found.to_dict()), SearchAnswer)


@_memory.get("/recall/document")
def show_document(
    caller: Reader,
    path: Annotated[str, Query(max_length=1000, description="As a citation names it.")],
    *,
    agent: AgentFilter = None,
    sha256: Annotated[str | None, Query(max_length=64, description="The contentSha256 of a citation.")] = None,
    as_of: AsOf = None,
) -> DocumentText:
    """A whole document: now, as of a moment, or as it was cited."""
    return caller.book.recall.document(path, agent=agent, sha256=sha256, as_of=as_of)


@_memory.get("/recall/status")
def show_recall(caller: Reader) -> RecallStatus:
    """Documents, chunks, the last sync, what was refused, and how far the index is."""
    return caller.book.recall.status()


@_memory.get("/recall/proposals")
def list_proposals(
    caller: Reader, agent: AgentFilter = None, most: Most = 20, *, as_of: AsOf = None
) -> list[ProposalView]:
    """Proposed manuals, newest first."""
    return caller.book.recall.proposals(agent, most=most, as_of=as_of)


@_memory.get("/recall/proposals/{proposal_id}")
def show_proposal(caller: Reader, proposal_id: Name, as_of: AsOf = None) -> ProposalDiff:
    """One proposal, with what it changes."""
    return caller.book.recall.proposal(proposal_id, as_of=as_of)


@_memory.get("/recall/writes")
def list_writes(caller: Reader, agent: AgentFilter = None, most: Most = 50, *, as_of: AsOf = None) -> list[WriteView]:
    """Everything that was appended, proposed or approved, newest first."""
    return caller.book.recall.writes(agent, most=most, as_of=as_of)


_decision = APIRouter(route_class=TypedRoute, tags=["decisions"])


@_decision.get("/runs")
def list_runs(
    caller: Reader, *, agent: AgentFilter = None, most: Most = 20, before: Before = None, as_of: AsOf = None
) -> RunPage:
    """Decisions, newest first, as they stand or stood at a moment."""
    page = caller.book.runs(agent, most=most, before=before, as_of=as_of)
    return {"rows": page, "next": page.next}


@_decision.get("/runs/{run_id}")
def show_run(caller: Reader, run_id: RunId) -> ExplainedRunView:
    """One decision, explained: packet, reply, votes, verdicts, orders, fills and trades."""
    # What a decision was told and said never changes; what came of it is that of now, and lists have it as of a moment.
    return caller.book.run(run_id)


@_decision.get("/runs/{run_id}/replay")
def replay_run(caller: Reader, run_id: RunId) -> ReplayReport:
    """Builds the packet of a decision again and compares it byte for byte."""
    # One run alone: all of them can take minutes, which is for the command line.
    return caller.book.replay(run_id)


@_decision.get("/runs/{run_id}/compare/{other}")
def compare_runs(caller: Reader, run_id: RunId, other: RunId) -> RunComparison:
    """Two decisions, and what differs between the packets they were made from."""
    return caller.book.compare_runs(run_id, other)


_trading = APIRouter(route_class=TypedRoute, tags=["trading"])


@_trading.get("/orders")
def list_orders(
    caller: Reader,
    *,
    agent: AgentFilter = None,
    working: bool = False,
    most: Most = 20,
    before: Before = None,
    as_of: AsOf = None,
) -> OrderPage:
    """Orders, newest first; or those alone that have not ended."""
    page = caller.book.orders(agent, working=working, most=most, before=before, as_of=as_of)
    return {"rows": page, "next": page.next}


@_trading.get("/agents/{agent}/trades")
def list_trades(
    caller: Reader,
    agent: AgentName,
    *,
    status: Literal["open", "closed"] | None = None,
    most: Most = 50,
    before: Before = None,
    as_of: AsOf = None,
) -> TradePage:
    """An agent's round trips: open ones, then closed ones, newest exit first."""
    page = caller.book.trades(agent, status=status, most=most, before=before, as_of=as_of)
    return {"rows": page, "next": page.next}


@_trading.get("/portfolio")
def show_portfolio(caller: Reader, agent: AgentFilter = None, as_of: AsOf = None) -> HomePortfolioView:
    """What an agent, or all of them, hold and are worth."""
    return caller.book.portfolio(agent, as_of=as_of)


@_trading.get("/equity")
def show_equity(
    caller: Reader,
    *,
    agent: AgentFilter = None,
    since: AsOf = None,
    as_of: AsOf = None,
    most: Annotated[int, Query(ge=2, le=5000, description="At most so many points.")] = 600,
) -> EquityView:
    """Equity over time, of an agent or of all together, up to now or to a moment."""
    # The end of the line is the moment that is asked about.
    return caller.book.equity(agent, since=since, until=as_of, most=most)


_market = APIRouter(route_class=TypedRoute, tags=["market"])


@_market.get("/assets")
def list_assets(
    caller: Reader,
    category: Annotated[str | None, Query(max_length=64, description="Such as `Layer 2`.")] = None,
    delisted: bool = False,
    as_of: AsOf = None,
) -> list[AssetView]:
    """The markets there are, as they were known at a moment."""
    return caller.book.assets(category, delisted=delisted, as_of=as_of)


@_market.get("/market-context")
def show_market_context(
    caller: Reader,
    *,
    symbol: Annotated[list[str] | None, Query(max_length=50, description="Symbols; repeatable.")] = None,
    agent: AgentFilter = None,
    horizon: Horizon | None = None,
    source: Annotated[list[MarketSource] | None, Query(description="Sources; all by default.")] = None,
    as_of: AsOf = None,
) -> dict[str, AssetContextView]:
    """The compact context of assets: price, features, prediction markets and macro rows, each with its age."""
    return caller.book.market_context(
        symbol or (), agent=agent, horizon=horizon, sources=source or ALL_SOURCES, as_of=as_of
    )


# Last, since a symbol may hold slashes.
@_market.get("/candles")
def list_candles(
    caller: Reader,
    symbol: Symbol,
    *,
    minutes: Annotated[int, Query(ge=1, le=1440, description="How long a bar is.")] = 5,
    most: Most = 100,
    as_of: AsOf = None,
) -> list[BarView]:
    """The newest finished bars of a symbol, oldest first."""
    return caller.book.candles(symbol, minutes=minutes, most=most, as_of=as_of)


@_market.get("/market/{symbol:path}")
def show_market(caller: Reader, symbol: SymbolPath, as_of: AsOf = None) -> MarketView:
    """What is known of a symbol: price, liquidity, funding, volatility, positioning, gaps."""
    return caller.book.market(symbol, as_of=as_of)


_home = APIRouter(route_class=TypedRoute, tags=["home"])


@_home.get("/me")
def show_caller(caller: Reader) -> CallerView:
    """Who calls, whose rows they see, and what they may do."""
    return {"name": caller.name, "owner": caller.book.owner, "scopes": sorted(caller.scopes)}


@_home.get("/status")
def show_status(caller: Reader) -> StatusView:
    """Equity, the day, positions, working orders, health and cost, all of this moment."""
    return caller.book.status()


@_home.get("/health")
def show_health(caller: Reader) -> list[Check]:
    """The state of the home, point by point, of this moment."""
    # Disks, logs and leases have no past, so there is no `as_of`.
    return caller.book.doctor()


@_home.get("/activity")
def list_events(caller: Reader, since: AsOf = None, most: Most = 200) -> list[dict[str, Any]]:
    """What happened since a moment, newest first; without one, within six hours."""
    return caller.book.events(since=since, most=most)


@_home.get("/settings")
def show_settings(caller: Reader) -> dict[str, Any]:
    """The settings of the home as they are read, without passwords."""
    return caller.book.settings()


@_home.get("/backtests")
def list_backtests(caller: Reader) -> list[BacktestView]:
    """Every backtest with how far it has come and what it came to."""
    # A backtest has moments of its own; what it came to does not change any more.
    return caller.book.backtests.all()


@_home.get("/backtests/{name}")
def show_backtest(caller: Reader, name: Name) -> BacktestReportView:
    """A backtest with all its chunks, by its id or how that begins."""
    return caller.book.backtests.show(name)


@_home.get("/backtests/{name}/compare/{other}")
def compare_backtests(caller: Reader, name: Name, other: Name) -> dict[str, Any]:
    """Two finished backtests side by side."""
    return caller.book.backtests.compare(name, other).to_dict()


@_home.get("/backtests/{name}/equity")
def show_backtest_equity(caller: Reader, name: Name) -> EquityView:
    """Equity of a backtest over its time."""
    with caller.book.backtests.open(name) as made:
        return made.equity()


@_home.get("/backtests/{name}/trades")
def list_backtest_trades(caller: Reader, name: Name, most: Most = 50, before: Before = None) -> TradePage:
    """The round trips of a backtest: open ones, then closed ones, newest exit first."""
    with caller.book.backtests.open(name) as made:
        # A backtest has one agent.
        page = made.trades(made.agents()[0]["name"], most=most, before=before)
        return {"rows": page, "next": page.next}


@_home.get("/backtests/{name}/runs/{run_id}")
def show_backtest_run(caller: Reader, name: Name, run_id: RunId) -> ExplainedRunView:
    """One decision of a backtest, explained as those of the home are."""
    with caller.book.backtests.open(name) as made:
        return made.run(run_id)


READ_ROUTERS = (_agent, _memory, _decision, _trading, _market, _home)
"""All routes that read."""
