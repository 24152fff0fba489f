"""The reads: every list and every thing of the façade, as of now or of any moment."""

from typing import Annotated, TypedDict

from fastapi import APIRouter, Path, Query

from tapebook.api.agents import AgentView, ProfileView
from tapebook.domain.views import ExplainedRunView, OrderView, RecordedRunView, TradeView
from tapebook.surfaces.http.access import Reader
from tapebook.surfaces.http.answers import TypedRoute

AsOf = Annotated[str | None, Query(max_length=40, description="ISO-8601 (UTC) or epoch milliseconds; else now.")]
Most = Annotated[int, Query(ge=1, le=1000, description="At most so many rows.")]
Before = Annotated[str | None, Query(max_length=200, description="Go on behind this: `next` of the page before.")]
AgentFilter = Annotated[str | None, Query(max_length=64, description="Only rows of this agent.")]
AgentName = Annotated[str, Path(max_length=64, description="The name of an agent.")]
RunId = Annotated[str, Path(max_length=64, description="The id of a run, or how it begins.")]


class RunPage(TypedDict):
    """A page of decisions; `next` is the `before` of the following page, null at the end."""

    rows: list[RecordedRunView]
    next: str | None


class OrderPage(TypedDict):
    """A page of orders."""

    rows: list[OrderView]
    next: str | None


class TradePage(TypedDict):
    """A page of round trips."""

    rows: list[TradeView]
    next: str | None


def read_routes() -> APIRouter:
    """All routes that read."""
    router = APIRouter(route_class=TypedRoute)

    @router.get("/agents", tags=["agents"])
    def list_agents(caller: Reader, removed: bool = False) -> list[ProfileView]:
        """Every agent with its newest profile."""
        return caller.book.agents(removed=removed)

    @router.get("/agents/{agent}", tags=["agents"])
    def show_agent(caller: Reader, agent: AgentName) -> AgentView:
        """One agent: its profile, where it runs, and how its trades did."""
        return caller.book.agent(agent)

    @router.get("/runs", tags=["decisions"])
    def list_runs(
        caller: Reader, *, agent: AgentFilter = None, most: Most = 20, before: Before = None, as_of: AsOf = None
    ) -> RunPage:
        """Decisions, newest first."""
        page = caller.book.runs(agent, most=most, before=before, as_of=as_of)
        return {"rows": page, "next": page.next}

    @router.get("/runs/{run_id}", tags=["decisions"])
    def show_run(caller: Reader, run_id: RunId) -> ExplainedRunView:
        """One decision, explained: packet, reply, votes, verdicts, orders, fills and trades."""
        return caller.book.run(run_id)

    @router.get("/orders", tags=["trading"])
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

    @router.get("/agents/{agent}/trades", tags=["trading"])
    def list_trades(
        caller: Reader, agent: AgentName, *, most: Most = 50, before: Before = None, as_of: AsOf = None
    ) -> TradePage:
        """An agent's round trips: open ones, then closed ones, newest exit first."""
        page = caller.book.trades(agent, most=most, before=before, as_of=as_of)
        return {"rows": page, "next": page.next}

    return router
