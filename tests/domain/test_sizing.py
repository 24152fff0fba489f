"""How much an action asks for: towards its target, never beyond it, and a close is of all."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.position import Position, only_reduces, signed_size_e8
from tapebook.domain.run import Action, ActionKind
from tapebook.domain.units import E8, notional_usd_e6

SIZES = st.integers(-(10**12), 10**12)
PRICES = st.integers(1, 10**6 * E8)
DOLLARS = st.integers(1, 10**12)
SIDES: st.SearchStrategy[Literal["long", "short"]] = st.sampled_from(["long", "short"])


def asked(kind: ActionKind, side: Literal["long", "short"] | None, usd_e6: int, have: int, price: int) -> int:
    action = Action(kind, "BTC", side, usd_e6, 1, "market", None, 0, "")
    return signed_size_e8(action, Position("BTC", have, 0) if have else None, price)


@given(SIZES, PRICES, DOLLARS, SIDES)
def test_hold_and_close(have: int, price: int, usd_e6: int, side: Literal["long", "short"]) -> None:
    assert asked("hold", side, usd_e6, have, price) == 0
    assert asked("close", side, usd_e6, have, price) == -have


@given(SIZES, PRICES, DOLLARS, SIDES)
def test_open_and_adjust_never_end_beyond_what_was_asked(
    have: int, price: int, usd_e6: int, side: Literal["long", "short"]
) -> None:
    sign = 1 if side == "long" else -1
    adjusted = have + asked("adjust", side, usd_e6, have, price)
    assert adjusted * sign >= 0 and abs(notional_usd_e6(adjusted, price)) <= usd_e6
    opened = asked("open", side, usd_e6, have, price)
    if have * sign >= 0:
        assert opened * sign >= 0 and abs(notional_usd_e6(opened, price)) <= usd_e6
    else:
        assert have + opened == adjusted


@given(SIZES, SIZES)
def test_what_only_reduces_ends_between_here_and_nothing(have: int, size: int) -> None:
    held = Position("BTC", have, 0) if have else None
    if size:
        between = have != 0 and abs(have + size) < abs(have) and (have + size) * have >= 0
        assert only_reduces(size, held) == between
