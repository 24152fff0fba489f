"""An outcome says what the trade and its run said, in integers, with results of the notional entered."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.canonical import canonical_json
from tapebook.domain.run import Verdict
from tapebook.domain.units import E8
from tapebook.experience.records import MOST_PPM, Outcome, outcome_of, ppm_of
from tests.experience.makers import NOTIONAL, closed, run_of, vote


def test_outcome_has_what_trade_and_run_say() -> None:
    trade = closed(3, net_bps=12.34, gross_bps=20.0, regime="trend_up_lowvol", side="short", symbol="ETH")
    run = run_of(trade, engine="ensemble", votes=[vote("trend", "short"), vote("carry", None, "hold")])
    outcome = outcome_of(trade, run, conditions=(("volatility_1h", "0.005"),))
    assert (outcome.trade_id, outcome.run_id, outcome.symbol, outcome.side) == ("t3", "r3", "ETH", "short")
    assert (outcome.provider, [each.provider for each in outcome.votes]) == ("ensemble", ["trend", "carry"])
    assert (outcome.votes[0].side, outcome.votes[1].action) == ("short", "hold")
    assert (outcome.result_ppm, outcome.gross_ppm, outcome.is_win) == (1_234, 2_000, True)
    assert (outcome.net_usd_e6, outcome.notional_usd_e6) == (1_234_000, NOTIONAL)
    assert (outcome.entry_price_e8, outcome.exit_price_e8) == (100 * E8, round(100.2 * E8))
    assert outcome.holding_ms == trade.holding_ms
    assert (outcome.confidence_e4, outcome.regime) == (6_000, "trend_up_lowvol")
    assert msgspec.json.decode(canonical_json(outcome), type=Outcome) == outcome


def test_results_are_of_the_notional_at_entry() -> None:
    """A trade that was added to ten times over has the percentage its first order had."""
    trade = closed(1, net_bps=10)
    sized = msgspec.structs.replace(trade.state, entered_usd_e6=10 * NOTIONAL, entry_usd_e6=NOTIONAL)
    outcome = outcome_of(msgspec.structs.replace(trade, state=sized), None)
    assert (outcome.notional_usd_e6, outcome.result_ppm) == (NOTIONAL, 1_000)


def test_trade_nobody_decided_has_no_provider_and_no_confidence() -> None:
    outcome = outcome_of(closed(1, net_bps=-5, regime=None), None)
    assert (outcome.provider, outcome.votes, outcome.confidence_e4) == ("", (), None)
    assert (outcome.regime, outcome.is_win) == ("unknown", False)


def test_confidence_is_that_of_the_action_that_was_allowed() -> None:
    trade = closed(1, net_bps=1)
    run = run_of(trade, confidence_e4=4_000)
    refused = msgspec.structs.replace(run, verdicts=(Verdict(False, "R_TEST"),))
    assert outcome_of(trade, run).confidence_e4 == 4_000
    assert outcome_of(trade, refused).confidence_e4 is None


@given(st.integers(-(10**15), 10**15), st.integers(0, 10**12))
def test_results_stay_in_bounds(amount: int, notional: int) -> None:
    found = ppm_of(amount, notional)
    assert abs(found) <= MOST_PPM
    if notional and abs(amount) <= 10 * notional:
        assert found == pytest.approx(amount * 1e6 / notional, abs=0.5001)
