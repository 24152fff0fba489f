"""The routes that write: the four verbs of a bot, entries of documents, what stops agents and what changes them.

A write may carry an `Idempotency-Key`. The same request with the same key is answered as the first time, and nothing is
done again; another request with it is refused. A write that was cut, by the end of its server or by an error on the
way, goes on when it is sent again:

1. what has an id of its own (fills, tickets) or is named by its moment (`at`: prices, entries, a tick) is made again
   with the same id or the moment of the first attempt, so that it is the same thing;
2. the others (`note_events`) note what they append in the same transaction. Those that are done by one event are not
   made again once it is there.

What names files of the server is not here: imports and exports are for its command line.
"""

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tapebook.api.access import BegunWrite, KeptAnswer
from tapebook.api.app import FlattenReport, HaltReport, RemovedAgent, SavedAgent
from tapebook.api.recall import AppendedEntry, DecidedProposal, ProposalDiff, SyncReport
from tapebook.api.trades import Promotion
from tapebook.domain.run import ActionKind
from tapebook.domain.views import ExplainedRunView, FillView, RecordedRunView
from tapebook.errors import BadInput, Fix
from tapebook.surfaces.http.access import Caller, HomeAccess, caller_with
from tapebook.surfaces.http.answers import TypedRoute
from tapebook.surfaces.http.reads import AgentName, Name

MOST_BARS = 5_000
# The last millisecond of the year 9999: later instants have no text.
_LAST_INSTANT = 253_402_300_799_999
_REPLAYED = {"idempotency-replayed": "true"}
_ALREADY_DONE = "this was done before its server ended, and its answer was lost; it is not done again: read what stands"

Recorder = Annotated[Caller, Depends(caller_with("record"))]
Trader = Annotated[Caller, Depends(caller_with("trade"))]
Admin = Annotated[Caller, Depends(caller_with("admin"))]
WriteKey = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        max_length=200,
        description="The same request with the same key is done once and answered alike.",
    ),
]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text has no NUL character")
    return text


ShortText = Annotated[str, Field(max_length=200), AfterValidator(_without_nul)]
LongText = Annotated[str, Field(max_length=100_000), AfterValidator(_without_nul)]
Instant = Annotated[int, Field(ge=0, le=_LAST_INSTANT)] | Annotated[str, Field(max_length=40)]
# Prices and sizes are kept as integers of 64 bits in units of 1e-8.
Amount = Annotated[float, Field(gt=0, le=1e10, allow_inf_nan=False)]
SignedAmount = Annotated[float, Field(ge=-1e10, le=1e10, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]


class WriteBody(BaseModel):
    """What a write takes: the keys that are named, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PricePoint(WriteBody):
    """A price with its moment."""

    time: Instant
    price: Amount


class BarBody(WriteBody):
    """A finished bar; `time` is when it began."""

    time: Instant
    open: Amount
    high: Amount
    low: Amount
    close: Amount
    volume: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0


class ObserveBody(WriteBody):
    """What a bot saw of a symbol: the price of now, or prices with their moments; finished bars; or both."""

    symbol: ShortText
    prices: Amount | Annotated[list[PricePoint], Field(max_length=MOST_BARS)] | None = None
    candles: Annotated[list[BarBody], Field(max_length=MOST_BARS)] = []
    interval_seconds: Annotated[int, Field(ge=1, le=86_400)] = 60


class DecisionBody(WriteBody):
    """What a bot decided from the packet that came with the ticket; `provider` is whom outcomes are learned of."""

    ticket: Annotated[str, Field(max_length=4000)]
    action: ActionKind
    reason: Annotated[str, Field(max_length=4000), AfterValidator(_without_nul)] = ""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    provider: ShortText | None = None
    cites: Annotated[list[ShortText], Field(max_length=50)] = []
    side: Literal["long", "short"] | None = None
    notional_usd: Amount | None = None
    leverage: Annotated[int, Field(ge=1, le=1000)] = 1
    limit_price: Amount | None = None


class FillBody(WriteBody):
    """What a bot traded; the same `id` again changes nothing."""

    agent: ShortText
    symbol: ShortText
    id: ShortText
    side: Literal["buy", "sell"]
    size: Amount
    price: Amount
    fee_usd: Dollars = 0.0
    at: Instant | None = None
    run: ShortText | None = None
    maker: bool = False
    last: bool = False


class PositionBody(WriteBody):
    """What a bot holds, short below zero; the difference is booked as one fill."""

    agent: ShortText
    symbol: ShortText
    id: ShortText
    size: SignedAmount
    price: Amount
    at: Instant | None = None


class LearnBody(WriteBody):
    """Whose outcomes to learn; of all bots without an agent."""

    agent: ShortText | None = None


class EntryBody(WriteBody):
    """A text for an agent's journal, learnings or notes."""

    what: Literal["journal", "learning", "note"]
    text: LongText
    run: ShortText | None = None


class ProposalBody(WriteBody):
    """A manual that is proposed for an agent."""

    text: LongText
    run: ShortText | None = None


class TickBody(WriteBody):
    """The symbol to decide on."""

    symbol: ShortText


class StopBody(WriteBody):
    """An agent, or the whole desk without one, and why."""

    agent: ShortText | None = None
    reason: ShortText = "over HTTP"


class FlattenBody(WriteBody):
    """An agent, or `all` of them; one symbol, or every one."""

    agent: ShortText | None = None
    all: bool = False
    symbol: ShortText | None = None
    reason: ShortText = "over HTTP"


class AgentBody(WriteBody):
    """Settings of an agent by the keys of docs/agents.md."""

    settings: Annotated[dict[ShortText, Any], Field(max_length=100)] = {}
    reason: ShortText = ""


class NewAgentBody(AgentBody):
    """A new agent."""

    name: ShortText


class PromotionBody(WriteBody):
    """Whose lessons, and who is told them: an agent, all with a skill, or the agent's own other deployments."""

    agent: ShortText
    to: ShortText | None = None
    skill: ShortText | None = None


class LayerBody(WriteBody):
    """A value of a layer by the owner's hand, for one agent or for all."""

    layer: ShortText
    timeframe: ShortText
    key: ShortText
    value: Any
    agent: ShortText | None = None


class WriteAttempt:
    """One attempt of a write with a key; `is_partly_done` when some of it is written though it may have failed."""

    def __init__(self, begun: BegunWrite) -> None:
        self.write_id = begun.write_id
        self.moment = begun.moment
        self.is_partly_done = False


_attempt: ContextVar[WriteAttempt | None] = ContextVar("write attempt", default=None)


def _moment() -> int | None:
    """The moment of a write's first attempt; None for a write without a key, which is of now."""
    attempt = _attempt.get()
    return None if attempt is None else attempt.moment


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def note_events(*done_by: str) -> Callable[[Endpoint], Endpoint]:
    """Has a route note what it appends when it carries a key.

    `done_by` are kinds of events that finish it: once one was written, another attempt is refused with what to do.
    """

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        def write_noted(*args: Any, caller: Caller, **named: Any) -> Any:
            attempt = _attempt.get()
            if attempt is None:
                return endpoint(*args, caller=caller, **named)
            with caller.book.keyed_write(attempt.write_id) as keyed:
                if any(event.kind in done_by for event in keyed.earlier):
                    attempt.is_partly_done = True
                    raise HTTPException(409, _ALREADY_DONE)
                # Until it is known better: where even that cannot be read, the next attempt goes on.
                attempt.is_partly_done = True
                try:
                    return endpoint(*args, caller=caller, **named)
                except Fix:
                    attempt.is_partly_done = keyed.has_written()
                    raise

        return write_noted  # type: ignore[return-value]

    return decorate


class KeyedRoute(TypedRoute):
    """A route that writes: with an `Idempotency-Key` it does so once."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with the key in front of it."""
        write = super().get_route_handler()

        async def write_once(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if not key:
                return await write(request)
            access: HomeAccess = request.app.state.access
            caller = access.caller(request.headers.get("authorization"))
            store, whose = caller.store, (caller.token_id, key[:200])
            asked = b"\n".join([request.method.encode(), str(request.url).encode(), await request.body()])
            moment = await run_in_threadpool(caller.book.now)
            begun = await run_in_threadpool(store.begin_write, *whose, asked, moment=moment)
            if isinstance(begun, KeptAnswer):
                return Response(begun.body, begun.status, media_type="application/json", headers=_REPLAYED)
            attempt = WriteAttempt(begun)
            before = _attempt.set(attempt)
            try:
                response = await write(request)
            except (Fix, HTTPException, RequestValidationError):
                # What was refused before anything was written did nothing: its key is free for another request.
                end = store.leave_write if attempt.is_partly_done else store.free_key
                await run_in_threadpool(end, *whose)
                raise
            except BaseException:
                await run_in_threadpool(store.leave_write, *whose)
                raise
            finally:
                _attempt.reset(before)
            answer = KeptAnswer(response.status_code, bytes(response.body))
            await run_in_threadpool(store.finish_write, *whose, answer)
            return response

        return write_once


_bot = APIRouter(route_class=KeyedRoute, tags=["bots"])


@_bot.post("/observe")
def observe_market(caller: Recorder, body: ObserveBody, key: WriteKey = None) -> int:
    """Puts prices and finished bars on the tape, as known from now on; gives the newest commit."""
    moment = _moment()
    prices = [(each.time, each.price) for each in body.prices] if isinstance(body.prices, list) else body.prices
    if moment is not None and isinstance(prices, float):
        prices = [(moment, prices)]
    bars = [each.model_dump() for each in body.candles]
    return caller.book.observe(body.symbol, prices=prices, candles=bars, interval_seconds=body.interval_seconds)


@_bot.post("/decisions")
def record_decision(caller: Recorder, body: DecisionBody, key: WriteKey = None) -> RecordedRunView:
    """Writes down what a bot decided; the same ticket again gives the run that is there."""
    terms = body.model_dump(exclude={"ticket", "action"})
    return caller.book.record_decision(body.ticket, body.action, **terms)


@_bot.post("/fills")
def record_fill(caller: Recorder, body: FillBody, key: WriteKey = None) -> FillView:
    """Books what a bot traded."""
    return caller.book.record_fill(**_at_first_attempt(body))


@_bot.post("/positions")
def record_position(caller: Recorder, body: PositionBody, key: WriteKey = None) -> FillView | None:
    """Books the difference to what a bot holds; null when there is none."""
    return caller.book.record_position(**_at_first_attempt(body))


@_bot.post("/learn")
def learn_outcomes(caller: Recorder, body: LearnBody, key: WriteKey = None) -> dict[str, list[str]]:
    """Learns all that is due of a bot, or of all of them; by agent, why something could not be learned."""
    return caller.book.learn(body.agent)


_entry = APIRouter(route_class=KeyedRoute, tags=["memory"])


@_entry.post("/agents/{agent}/entries")
def append_entry(caller: Recorder, agent: AgentName, body: EntryBody, key: WriteKey = None) -> AppendedEntry:
    """Appends to an agent's journal, learnings or notes; an entry never becomes a rule."""
    return caller.book.recall.append(body.what, agent, body.text, run=body.run, by=caller.name, at=_moment())


@_entry.post("/agents/{agent}/proposals")
def propose_manual(caller: Recorder, agent: AgentName, body: ProposalBody, key: WriteKey = None) -> ProposalDiff:
    """Proposes a manual; it stands when the owner approves it."""
    return caller.book.recall.propose(agent, body.text, run=body.run, by=caller.name, at=_moment())


_control = APIRouter(route_class=KeyedRoute, tags=["trading"])


@_control.post("/agents/{agent}/tick")
def make_decision(caller: Trader, agent: AgentName, body: TickBody, key: WriteKey = None) -> ExplainedRunView:
    """Has an agent decide on a symbol once, now, and carries it out."""
    return caller.book.run(caller.book.tick(agent, body.symbol, at=_moment()).run_id)


@_control.post("/halt")
@note_events()
def halt_agents(caller: Trader, body: StopBody, key: WriteKey = None) -> HaltReport:
    """Stops an agent, or all of them, from sending orders."""
    return caller.book.halt(body.agent, reason=body.reason)


@_control.post("/resume")
@note_events()
def resume_agents(caller: Trader, body: StopBody, key: WriteKey = None) -> HaltReport:
    """Ends the halt of an agent, or that of the whole desk."""
    return caller.book.resume(body.agent, reason=body.reason)


@_control.post("/flatten")
@note_events()
def flatten_agents(caller: Trader, body: FlattenBody, key: WriteKey = None) -> list[FlattenReport]:
    """Cancels orders and closes positions of an agent, or of all."""
    if (body.agent is None) != body.all:
        raise BadInput("name one agent, or say `all` for every one")
    return caller.book.flatten(body.agent, symbol=body.symbol, reason=body.reason)


_admin = APIRouter(route_class=KeyedRoute, tags=["admin"])


@_admin.post("/agents")
@note_events("agent.saved")
def add_agent(caller: Admin, body: NewAgentBody, key: WriteKey = None) -> SavedAgent:
    """Adds an agent."""
    return caller.book.add_agent(body.name, _without_files(body.settings), reason=body.reason)


@_admin.patch("/agents/{agent}")
@note_events("agent.saved")
def edit_agent(caller: Admin, agent: AgentName, body: AgentBody, key: WriteKey = None) -> SavedAgent:
    """Changes an agent: a new version, unless nothing differs."""
    return caller.book.edit_agent(agent, _without_files(body.settings), reason=body.reason)


@_admin.delete("/agents/{agent}")
@note_events("agent.removed")
def remove_agent(
    caller: Admin,
    agent: AgentName,
    reason: Annotated[str, Query(max_length=200)] = "over HTTP",
    key: WriteKey = None,
) -> RemovedAgent:
    """Ends an agent that holds nothing; all of it can be read as before."""
    return caller.book.remove_agent(agent, reason=reason)


@_admin.post("/recall/proposals/{proposal_id}/approve")
@note_events("proposal.decided")
def approve_proposal(caller: Admin, proposal_id: Name, key: WriteKey = None) -> DecidedProposal:
    """Makes a proposed manual the agent's."""
    return caller.book.recall.approve(proposal_id, by=caller.name)


@_admin.post("/recall/proposals/{proposal_id}/reject")
@note_events("proposal.decided")
def reject_proposal(caller: Admin, proposal_id: Name, key: WriteKey = None) -> DecidedProposal:
    """Ends a proposal; the manual stays as it is."""
    return caller.book.recall.reject(proposal_id, by=caller.name)


@_admin.post("/recall/sync")
def sync_documents(caller: Admin, key: WriteKey = None) -> SyncReport:
    """Brings documents and index up to date."""
    return caller.book.recall.sync()


@_admin.post("/skills")
@note_events("note.promoted")
def promote_lessons(caller: Admin, body: PromotionBody, key: WriteKey = None) -> Promotion:
    """Has others told an agent's lessons."""
    return caller.book.skills.promote(body.agent, to=body.to, skill=body.skill)


@_admin.delete("/skills/{skill}")
@note_events("note.promoted")
def demote_lessons(caller: Admin, skill: Name, key: WriteKey = None) -> Promotion:
    """Takes back what was promoted to a skill or an agent."""
    return caller.book.skills.demote(skill)


@_admin.put("/horizons")
@note_events("layer.observed", "layer.curated")
def set_layer_value(caller: Admin, body: LayerBody, key: WriteKey = None) -> None:
    """Writes a value of a layer by the owner's hand."""
    caller.book.horizons.set(body.layer, body.timeframe, body.key, body.value, agent=body.agent)


@_admin.post("/horizons/rollup")
def roll_up_layers(caller: Admin, body: LearnBody, key: WriteKey = None) -> dict[str, bool]:
    """Brings the layers of an agent, or of all, up to this moment; for each scope, whether anything was new."""
    return caller.book.horizons.rollup(body.agent)


def _at_first_attempt(body: FillBody | PositionBody) -> dict[str, Any]:
    """What is told, of the moment of the first attempt unless it has its own."""
    told = body.model_dump()
    return told | {"at": _moment()} if body.at is None else told


def _without_files(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings, if none of them names a file of the server: `@FILE` is for the command line."""
    for name, value in settings.items():
        if isinstance(value, dict):
            _without_files(value)
        elif isinstance(value, str) and value.lstrip().startswith("@"):
            raise BadInput(f"`{name}` names a file: send its text")
    return settings


WRITE_ROUTERS = (_bot, _entry, _control, _admin)
"""All routes that write."""
