"""What an action asks for in the asset: how much must be bought or sold to get where it wants to be."""

from tapebook.domain.money import size_e8_for
from tapebook.domain.position import Position
from tapebook.domain.run import Action


def signed_size_e8(action: Action, held: Position | None, mark_e8: int) -> int:
    """Positive to buy, negative to sell; a hold asks for nothing, a close for all that is held."""
    have = held.size_e8 if held else 0
    if action.action == "hold":
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


def only_reduces(size_e8: int, held: Position | None) -> bool:
    """Whether a signed size makes a position smaller, at most down to nothing."""
    have = held.size_e8 if held else 0
    return have != 0 and (have > 0) != (size_e8 > 0) and abs(size_e8) <= abs(have)
