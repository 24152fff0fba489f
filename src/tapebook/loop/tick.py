"""One tick, from what is known to what is done.

1. `execute` and `reconcile` first finish what an earlier attempt may have left: a killed process loses nothing;
2. `gather` reads every room as of now, and remembers how far it read;
3. `assemble` makes the packet, the engine answers it, the parser and the guard judge the answer;
4. `record` writes the decision and its intended orders before anything leaves;
5. `execute` hands the orders over, `reconcile` books what came of them.
"""

from tapebook.book.runs import run_id
from tapebook.context import assemble
from tapebook.domain.agent import Deployment
from tapebook.domain.run import DecisionRun, Trigger
from tapebook.loop.decide import decide
from tapebook.loop.execute import execute
from tapebook.loop.gather import gather, watermarks_now
from tapebook.loop.reconcile import mark_to_market, reconcile
from tapebook.loop.record import record
from tapebook.wiring import Rooms


def tick(
    rooms: Rooms,
    deployment: Deployment,
    symbol: str,
    *,
    scheduled_for: int,
    trigger: Trigger = "schedule",
    branch: str = "main",
) -> DecisionRun:
    """Decides once; the same tick again changes nothing and gives the run that is already there."""
    stream = rooms.book.stream(deployment.id).name
    run = run_id(stream, symbol, scheduled_for=scheduled_for, trigger=trigger, branch=branch)
    # A decision that is made may only finish its orders: what the next tick books, a restart must not book before it.
    if not rooms.book.has_run(run) or rooms.book.working_orders(deployment.id):
        execute(rooms, deployment)
        reconcile(rooms, deployment)
    made = rooms.book.run(run)
    if made is not None:
        return made
    mark_to_market(rooms, deployment)
    situation = gather(rooms, deployment, symbol, as_of=rooms.clock.now(), watermarks=watermarks_now(rooms, deployment))
    packet = assemble(situation)
    decision = decide(rooms, packet, situation)
    recorded = record(
        rooms, situation, packet, decision, run_id=run, scheduled_for=scheduled_for, trigger=trigger, branch=branch
    )
    execute(rooms, deployment)
    reconcile(rooms, deployment)
    return recorded
