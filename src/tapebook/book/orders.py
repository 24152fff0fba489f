"""From allowed actions to orders: sizes in the asset, ids that are a function of the run."""

from collections.abc import Sequence

from tapebook.domain.canonical import short_id
from tapebook.domain.money import size_e8_for
from tapebook.domain.order import Order
from tapebook.domain.position import Position
from tapebook.domain.run import Action, Verdict


def client_id(run_id: str, index: int) -> str:
    """The id under which a broker knows the order of a run's action, on every attempt."""
    return short_id("order", run_id, index)


def orders_for(
    run_id: str, actions: Sequence[tuple[Action, Verdict]], *, held: Position | None, mark_e8: int | None, at: int
) -> list[Order]:
    """The orders that allowed actions ask for; a hold, or a size of nothing, asks for none."""
    orders = []
    for index, (action, verdict) in enumerate(actions):
        size = _signed_size(action, held, mark_e8) if verdict.allowed and mark_e8 else 0
        if size:
            orders.append(_order(action, size, held, client=client_id(run_id, index), run_id=run_id, at=at))
    return orders


def _signed_size(action: Action, held: Position | None, mark_e8: int | None) -> int:
    """What must be bought (positive) or sold to get where the action wants to be."""
    have = held.size_e8 if held else 0
    if action.action == "hold" or mark_e8 is None:
        return 0
    if action.action == "close":
        return -have
    long = action.side == "long"
    wanted = size_e8_for(action.notional_usd_e6, mark_e8) * (1 if long else -1)
    # Asked of the side and not of the size: an add too small to be a size must not sell what is held.
    if action.action == "open" and (have == 0 or (have > 0) == long):
        return wanted
    # Turning a position, and adjusting one, both aim at the size that was asked for.
    return wanted - have


def _order(action: Action, size: int, held: Position | None, *, client: str, run_id: str, at: int) -> Order:
    have = held.size_e8 if held else 0
    shrinks = have != 0 and (have > 0) != (size > 0) and abs(size) <= abs(have)
    return Order(
        client_id=client,
        run_id=run_id,
        symbol=action.symbol,
        side="buy" if size > 0 else "sell",
        size_e8=abs(size),
        type=action.order_type,
        limit_price_e8=action.limit_price_e8,
        reduce_only=shrinks,
        leverage=action.leverage,
        intended_at=at,
    )
