"""From a signal to a proposal: sizes stay within what the portfolio section allows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision.rule_engine import RuleSettings, Signal, follow_signal, read_packet
from tapebook.domain.money import E6
from tests.decision.engines.seen import FLAT, LONG, SHORT, action_in, facts, packet_of, portfolio

USUAL = RuleSettings()
UP = Signal("up", "long", 0.7, ("long",))
AMOUNTS = st.decimals(-(10**6), 10**6, places=2)


@given(AMOUNTS, AMOUNTS, st.integers(-1, 50), st.sampled_from([FLAT, SHORT]))
def test_size_and_leverage_are_within_the_caps(cap: Any, equity: Any, leverage: int, held: int) -> None:
    shown = portfolio(held, max_position_usd=str(cap), equity_usd=str(equity), max_leverage=str(leverage))
    proposed = action_in(follow_signal(read_packet(packet_of(shown)), UP))
    assert (proposed.action == "open") == (cap > 0 and equity > 0 and leverage >= 1)
    if proposed.action == "open":
        assert 0 < proposed.notional_usd_e6 <= min(cap, equity, USUAL.notional_usd) * E6
        assert 1 <= proposed.leverage <= min(leverage, USUAL.leverage)
    else:
        assert proposed.action == ("close" if held == SHORT else "hold")


@pytest.mark.parametrize(
    ("used", "size"),
    [("0.00", 1_000), ("9400.00", 600), ("9990.00", 10), ("9990.01", None), ("10000.00", None), ("12000.00", None)],
)
def test_the_account_as_a_whole_has_a_cap_and_orders_a_least_size(used: str, size: int | None) -> None:
    shown = portfolio(FLAT, max_account_usd="10000.00", account_used_usd=used, min_notional_usd="10.00")
    proposed = action_in(follow_signal(read_packet(packet_of(shown)), UP))
    assert (proposed.action, proposed.notional_usd_e6) == (("open", size * E6) if size else ("hold", 0))


@pytest.mark.parametrize("missing", ["equity_usd", "max_position_usd", "max_leverage"])
def test_caps_that_are_not_shown_open_nothing(missing: str) -> None:
    proposed = action_in(follow_signal(read_packet(packet_of(portfolio(FLAT, **{missing: "unknown"}))), UP))
    assert (proposed.action, proposed.confidence_e4) == ("hold", 0)


def test_without_a_portfolio_nothing_is_opened() -> None:
    assert action_in(follow_signal(read_packet(packet_of()), UP)).action == "hold"
    assert action_in(follow_signal(read_packet(packet_of(facts("portfolio"))), UP)).action == "hold"


@pytest.mark.parametrize(
    ("held", "wants", "stays", "kind"),
    [
        (LONG, None, (), "close"),
        (LONG, None, ("long",), "hold"),
        (LONG, None, ("short",), "close"),
        (LONG, "long", (), "hold"),
        (LONG, "short", (), "open"),
        (FLAT, None, (), "hold"),
        (SHORT, None, ("long", "short"), "hold"),
    ],
)
def test_what_is_wanted_and_what_is_held(held: int, wants: Any, stays: Any, kind: str) -> None:
    assert (
        action_in(follow_signal(read_packet(packet_of(portfolio(held))), Signal("s", wants, 0.7, stays))).action == kind
    )
