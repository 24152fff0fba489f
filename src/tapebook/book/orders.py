"""From allowed actions to orders: sizes in the asset, ids that are a function of what asked for them."""

from collections.abc import Sequence

from tapebook.domain.canonical import short_id
from tapebook.domain.order import Order
from tapebook.domain.position import Position
from tapebook.domain.run import Action, Verdict
from tapebook.domain.sizing import only_reduces, signed_size_e8


def client_id(run_id: str, index: int) -> str:
    """The id under which a broker knows the order of a run's action, on every attempt."""
    return short_id("order", run_id, index)


def orders_for(
    run_id: str, actions: Sequence[tuple[Action, Verdict]], *, held: Position | None, mark_e8: int | None, at: int
) -> list[Order]:
    """The orders that allowed actions ask for; a hold, or a size of nothing, asks for none."""
    orders = []
    for index, (action, verdict) in enumerate(actions):
        size = signed_size_e8(action, held, mark_e8) if verdict.allowed and mark_e8 else 0
        if size:
            orders.append(_order(action, size, held, client=client_id(run_id, index), run_id=run_id, at=at))
    return orders


def flattening(stream: str, held: Position, *, at: int) -> Order:
    """The order of a person who wants a position gone; it belongs to no run."""
    return Order(
        client_id=short_id("flatten", stream, held.symbol, at),
        run_id="",
        symbol=held.symbol,
        side="sell" if held.size_e8 > 0 else "buy",
        size_e8=abs(held.size_e8),
        type="market",
        limit_price_e8=None,
        reduce_only=True,
        leverage=held.leverage,
        intended_at=at,
    )


def _order(action: Action, size: int, held: Position | None, *, client: str, run_id: str, at: int) -> Order:
    return Order(
        client_id=client,
        run_id=run_id,
        symbol=action.symbol,
        side="buy" if size > 0 else "sell",
        size_e8=abs(size),
        type=action.order_type,
        limit_price_e8=action.limit_price_e8,
        reduce_only=only_reduces(size, held),
        leverage=action.leverage,
        intended_at=at,
    )
