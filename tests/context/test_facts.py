"""The typed facts of a packet: the figures its sections show as text, and no part of its bytes."""

import msgspec
from hypothesis import given

from tapebook.context import Situation, assemble_packet
from tapebook.domain.market import SettledFunding
from tapebook.domain.packet import BarPrices, DecisionFacts
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.units import E6, decimal_text, short_price
from tests.caches import forget
from tests.context.situations import MARKET, NOW, empty_situation, patient, situation, situations


def test_facts_are_those_the_sections_show() -> None:
    packet = assemble_packet(situation())
    facts, bars, market = packet.facts, packet.section("bars"), packet.section("market")
    assert bars is not None and market is not None
    assert [short_price(each) for each in facts.bars.closes_e8] == bars.cells("close")
    assert [short_price(each) for each in facts.bars.highs_e8] == bars.cells("high")
    assert facts.bars.newest_at == MARKET.bars[-1].bucket_ts
    assert market.get("price") == short_price(facts.price_e8 or 0)
    assert (facts.funding_e12, facts.funding_age_ms, facts.funding_hours) == (12_500_000, 60_000, 1)
    assert facts.half_spread_ppm == 62
    assert (facts.symbol, facts.as_of) == (packet.symbol, packet.as_of)


def test_the_account_is_that_of_the_portfolio_section() -> None:
    held = Portfolio({"BTC": Position("BTC", -383_436, -250 * E6, 2)}, 9_000 * E6)
    packet = assemble_packet(situation(portfolio=held, marks={"BTC": 65_900 * 10**8}))
    facts, shown = packet.facts, packet.section("portfolio")
    assert shown is not None
    assert facts.held_side == "short"
    assert shown.get("position_usd") == decimal_text(-facts.held_usd_e6, E6, 2)
    assert shown.get("equity_usd") == decimal_text(facts.equity_usd_e6 or 0, E6, 2)
    assert shown.get("account_used_usd") == decimal_text(facts.account_used_usd_e6, E6, 2)
    assert shown.get("max_position_usd") == decimal_text(facts.max_position_usd_e6 or 0, E6, 2)


def test_a_settled_rate_is_by_the_hour() -> None:
    market = msgspec.structs.replace(MARKET, context=None, settled_funding=SettledFunding("BTC", NOW - 9_000, 8_000, 8))
    facts = assemble_packet(situation(market=market)).facts
    assert (facts.funding_e12, facts.funding_age_ms, facts.funding_hours) == (1_000, 9_000, 8)


def test_nothing_known_has_no_figures() -> None:
    facts = assemble_packet(empty_situation("BTC")).facts
    assert (facts.bars, facts.price_e8, facts.funding_e12, facts.held_side) == (BarPrices(), None, None, None)


@patient(20)
@given(situations())
def test_facts_leave_the_bytes_alone_and_no_trace(drawn: Situation) -> None:
    packet = assemble_packet(drawn)
    forget()
    again = assemble_packet(drawn)
    assert again.facts == packet.facts
    bare = msgspec.structs.replace(packet, facts=DecisionFacts())
    assert (bare.sha256, bare.inputs_sha256, bare.text) == (again.sha256, again.inputs_sha256, again.text)
