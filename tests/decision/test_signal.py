"""From a signal to a proposal: the side of the target, sizes within the caps, and no word about what is held."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision.rule_engine import RuleEngine, RuleSettings, Signal, follow_signal, walk_side
from tapebook.domain.packet import DecisionFacts
from tapebook.domain.units import E6
from tests.decision.engines.seen import FLAT, LONG, SHORT, account, action_in, packet_of

USUAL = RuleSettings()
UP = Signal("up", 10_000, 7_000)
AMOUNTS = st.integers(-(10**12), 10**12)


@given(AMOUNTS, AMOUNTS, st.integers(-1, 50), st.sampled_from([FLAT, SHORT]))
def test_size_and_leverage_are_within_the_caps(cap: int, equity: int, leverage: int, held: int) -> None:
    shown = account(held, max_position_usd_e6=cap, equity_usd_e6=equity, max_leverage=leverage)
    proposed = action_in(follow_signal(shown, UP))
    assert (proposed.action == "open") == (cap >= 10_000 and equity >= 10_000 and leverage >= 1)
    if proposed.action == "open":
        assert 0 < proposed.notional_usd_e6 <= min(cap, equity, USUAL.notional_usd * E6)
        assert 1 <= proposed.leverage <= min(leverage, USUAL.leverage)
    else:
        assert proposed.action == ("close" if held == SHORT else "hold")


@pytest.mark.parametrize(
    ("used", "size"), [(0, 1_000), (9_400, 600), (9_990, 10), (9_990.01, None), (10_000, None), (12_000, None)]
)
def test_the_account_as_a_whole_has_a_cap_and_orders_a_least_size(used: float, size: int | None) -> None:
    caps = {"max_account_usd_e6": 10_000 * E6, "min_notional_usd_e6": 10 * E6}
    proposed = action_in(follow_signal(account(FLAT, account_used_usd_e6=round(used * E6), **caps), UP))
    assert (proposed.action, proposed.notional_usd_e6) == (("open", size * E6) if size else ("hold", 0))


@pytest.mark.parametrize("missing", ["equity_usd_e6", "max_position_usd_e6", "max_leverage"])
def test_caps_that_are_not_known_open_nothing(missing: str) -> None:
    proposed = action_in(follow_signal(account(FLAT, **{missing: None}), UP))
    assert (proposed.action, proposed.confidence_e4) == ("hold", 0)


def test_without_an_account_nothing_is_opened() -> None:
    assert action_in(follow_signal(DecisionFacts(symbol="BTC"), UP)).action == "hold"


@pytest.mark.parametrize(
    ("held", "target", "kind", "side"),
    [
        (LONG, 0, "close", None),
        (LONG, 10_000, "hold", None),
        (LONG, 2_000, "hold", None),
        (LONG, -10_000, "open", "short"),
        (LONG, -2_000, "close", None),
        (LONG, None, "hold", None),
        (FLAT, None, "hold", None),
        (FLAT, 0, "hold", None),
        (FLAT, 5_000, "hold", None),
        (FLAT, 5_001, "open", "long"),
        (SHORT, 10_000, "open", "long"),
        (SHORT, -1, "hold", None),
    ],
)
def test_what_is_wanted_and_what_is_held(held: int, target: int | None, kind: str, side: Any) -> None:
    proposed = action_in(follow_signal(account(held), Signal("s", target)))
    assert (proposed.action, proposed.side) == (kind, side)


def test_strength_is_size() -> None:
    assert action_in(follow_signal(account(), Signal("s", -7_500))).notional_usd_e6 == 750 * E6


def test_a_side_is_held_from_its_reason_until_no_reason_is_left() -> None:
    up, down, nothing, stay = ("long", True, False), ("short", False, True), (None, False, False), (None, True, True)
    walks: list[tuple[list[Any], str | None]] = [
        ([], None),
        ([stay], None),
        ([up, stay, stay], "long"),
        ([up, nothing], None),
        ([up, nothing, stay], None),
        ([up, down], "short"),
        ([down, (None, True, False)], None),
    ]
    for steps, side in walks:
        assert walk_side(steps) == side


def test_a_rule_without_a_signal_says_so() -> None:
    with pytest.raises(NotImplementedError, match="RuleEngine gives neither"):
        RuleEngine().decide(packet_of())
