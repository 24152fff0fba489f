"""Last decision: what was proposed at the tick before this one, what the guard said, and what became of the order.

How far an order had come is as of the packet's watermark, so that a replay says the same.
"""

from tapebook.context.quote import Name, Words, plain, symbol_text
from tapebook.context.sections import FACTS, Layout, Rows, fact_text
from tapebook.context.situation import Situation
from tapebook.domain.instants import minute_text
from tapebook.domain.memo import Memo
from tapebook.domain.order import OrderOutcome
from tapebook.domain.run import Action, DecisionRun, Verdict

MOST_WORDS, MOST_DETAIL = 80, 100

Seen = tuple[DecisionRun | None, tuple[OrderOutcome, ...], tuple[str, ...]]


def look(situation: Situation) -> Seen:
    """The newest run on this symbol, its orders, and the symbols the agent was given."""
    return situation.last_run, situation.last_orders, situation.deployment.agent.watchlist


def rows(seen: Seen, words: Words = plain, name: Name = symbol_text) -> Rows:
    """When it was, and one row per action."""
    run, orders, watched = seen
    if run is None:
        return ()
    decided = run.actions, run.verdicts, orders, watched
    at = ("at", minute_text(run.as_of))
    actions = _action_rows(decided) if words is plain else _rows_of_actions(decided, words, name)
    if not run.error:
        return at, *actions
    what = "no answer" if run.status == "failed" else "refused, no readable reply"
    return at, *actions, (what, f'"{words(run.error, MOST_DETAIL)}"')


_Decided = tuple[tuple[Action, ...], tuple[Verdict, ...], tuple[OrderOutcome, ...], tuple[str, ...]]


def _rows_of_actions(decided: _Decided, words: Words = plain, name: Name = symbol_text) -> Rows:
    """What was proposed, what became of it, and why it was proposed."""
    actions, verdicts, orders, watched = decided
    outcomes = {order.symbol: order for order in orders}
    return tuple(
        [
            _row(action, verdict, outcomes.get(action.symbol), watched=watched, words=words, name=name)
            for action, verdict in zip(actions, verdicts, strict=True)
        ]
    )


# Most ticks decide what the tick before decided.
_action_rows = Memo(_rows_of_actions)


def _row(
    action: Action,
    verdict: Verdict,
    order: OrderOutcome | None,
    *,
    watched: tuple[str, ...],
    words: Words,
    name: Name,
) -> tuple[str, str]:
    # A model can name any symbol it likes; only those it was given are repeated outside quotes.
    symbol = name(action.symbol) if action.symbol in watched else "another symbol"
    what = f"{action.action} {symbol}" + (f" {action.side}" if action.side else "")
    outcome = "allowed" if verdict.allowed else f'refused by {verdict.rule}: "{words(verdict.detail, MOST_DETAIL)}"'
    if verdict.allowed and action.action != "hold" and order is not None:
        outcome = _outcome(order, words)
    return what, f'{outcome}; reason: "{words(action.reason, MOST_WORDS)}"'


def _outcome(order: OrderOutcome, words: Words) -> str:
    """What became of an allowed order; one that was refused later is not called allowed."""
    if order.status == "rejected":
        rule, at_send, detail = order.detail.partition(" at send: ")
        if at_send:
            return f'refused at send by {words(rule, 40)}: "{words(detail, MOST_DETAIL)}"'
        return f'refused by the broker: "{words(order.detail, MOST_DETAIL)}"'
    if order.status == "cancelled":
        return f'allowed, then cancelled: "{words(order.detail, MOST_DETAIL)}"'
    return "allowed, not sent: dry run" if order.status == "dry" else f"allowed, {order.status}"


LAYOUT = Layout(
    name="last_decision",
    cap=100,
    title="Last decision",
    columns=FACTS,
    look=look,
    rows=rows,
    text=fact_text,
    memory=True,
)
