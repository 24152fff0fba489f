"""The guard, twice: `judge` weighs what a reply proposes, `gate` weighs an order once more just before it leaves.

Both ask the same rules (`rules.py`) of the account as it is at that moment (`limits.py`); the first
rule that objects refuses. Every action is weighed against what is held now, so one of a reply may
trade: a second could take the position past a cap that each of them keeps.
"""

from collections.abc import Iterable, Sequence

from tapebook.decision.limits import Limits, Move, move_of
from tapebook.decision.rules import RULES, Proposal, expired, moved_away
from tapebook.domain.order import Order
from tapebook.domain.run import Action, Verdict
from tapebook.domain.sizing import only_reduces, signed_size_e8

# What may have changed between a decision and the moment its order leaves.
_AT_SEND = (
    "R1_KILL_SWITCH",
    "R2_SYMBOL_NOT_ENABLED",
    "R18_DELISTED",
    "R7_STALE_DATA",
    "R4_LEVERAGE",
    "R9_PRICE_DEVIATION",
    "R3_POSITION_CAP",
    "R14_ACCOUNT_CAP",
    "R16_MARGIN",
)


# What can be said against doing nothing; every other rule looks at the order, or at an account that is to change.
_OF_HOLD = ("R2_SYMBOL_NOT_ENABLED", "R15_UNKNOWN_CITATION")
_ALLOWED = Verdict(True)


def judge(actions: Sequence[Action], limits: Limits) -> tuple[Verdict, ...]:
    """A verdict for each action, in their order: one of them may trade."""
    verdicts: list[Verdict] = []
    trades = False
    for action in actions:
        rules = _OF_HOLD if action.action == "hold" else RULES
        verdict = _asked(rules, _proposal(action, limits), limits)
        if verdict.allowed and action.action != "hold":
            verdict = Verdict(False, "R13_ONE_ORDER", "an action before it trades already") if trades else verdict
            trades = True
        verdicts.append(verdict)
    return tuple(verdicts)


def gate(order: Order, limits: Limits, *, decided_mark_e8: int | None, most_ms: int) -> Verdict:
    """Whether an order may still leave, by limits that were read now and do not count the order itself.

    What a person wants flat passes; what only reduces may follow the price wherever it went.
    """
    if not order.run_id:
        return _ALLOWED
    late = expired(limits.at - order.intended_at, most_ms)
    if late:
        return Verdict(False, "R17_EXPIRED", late)
    move = move_of(order, limits.mark_e8)
    verdict = _asked(_AT_SEND, Proposal("close" if order.reduce_only else "open", order.symbol, move), limits)
    moved = None if order.reduce_only or not verdict.allowed else moved_away(decided_mark_e8, limits)
    return Verdict(False, "R9_PRICE_DEVIATION", moved) if moved else verdict


def _asked(codes: Iterable[str], proposal: Proposal, limits: Limits) -> Verdict:
    for code in codes:
        detail = RULES[code](proposal, limits)
        if detail is not None:
            return Verdict(False, code, detail)
    return _ALLOWED


def _proposal(action: Action, limits: Limits) -> Proposal:
    return Proposal(action.action, action.symbol, _move(action, limits), action.side, action.cites)


def _move(action: Action, limits: Limits) -> Move | None:
    """The order an action comes to, in the dollars that were asked for: its size is rounded down from them."""
    if action.action == "hold" or action.symbol != limits.symbol or not limits.mark_e8:
        return None
    mark, held = limits.mark_e8, limits.held
    size = signed_size_e8(action, held, mark)
    have = limits.held_usd_e6(action.symbol)
    wanted = 0 if action.action == "close" else action.notional_usd_e6 * (1 if action.side == "long" else -1)
    adds = action.action == "open" and (held is None or (held.size_e8 > 0) == (wanted > 0))
    usd = wanted if adds else wanted - have
    buys = size > 0 if size else usd > 0
    reduces = only_reduces(size, held)
    return Move(action.symbol, buys, abs(usd), mark, action.limit_price_e8, action.leverage, reduces)
