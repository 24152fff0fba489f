"""Packets for the tests of rule engines, made of the facts such an engine looks at and nothing else."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec

from tapebook.decision import EngineAnswer, EngineTerms, Reply, parse_reply
from tapebook.domain.packet import BarPrices, DecisionFacts, Packet, Section
from tapebook.domain.run import Action
from tapebook.domain.units import E6, E8

FLAT, LONG, SHORT = 0, 1, -1
Prices = tuple[float, float, float]


NO_FACTS = DecisionFacts()


def packet_of(*sections: Section, facts: DecisionFacts = NO_FACTS) -> Packet:
    """A packet about BTC with these sections and facts."""
    return Packet("a", "BTC", 0, 1, "", "", sections, 0, {}, "", "", facts=facts)


def account(held: int = FLAT, **changes: Any) -> DecisionFacts:
    """An account of 10,000 USD with the usual caps, and 1,000 USD held on a side."""
    usual = DecisionFacts(
        symbol="BTC",
        held_usd_e6=held * 1_000 * E6,
        equity_usd_e6=10_000 * E6,
        max_position_usd_e6=2_000 * E6,
        max_leverage=5,
        account_used_usd_e6=abs(held) * 1_000 * E6,
    )
    return msgspec.structs.replace(usual, **changes)


def bars(prices: Sequence[Prices]) -> BarPrices:
    """Bars of highs, lows and closes, oldest first."""
    highs, lows, closes = (tuple(round(each[column] * E8) for each in prices) for column in range(3))
    return BarPrices(highs, lows, closes, len(prices))


def seen(prices: Sequence[Prices], *, held: int = FLAT) -> Packet:
    """A packet of bars and an account."""
    return packet_of(facts=account(held, bars=bars(prices)))


def action_in(answer: EngineAnswer) -> Action:
    """The one action of an answer without a problem; its text and its typed form say the same."""
    assert answer.problem is None
    parsed = parse_reply(answer.reply)
    assert isinstance(parsed, Reply), parsed
    assert answer.actions in (None, parsed.actions)
    (only,) = parsed.actions
    return only


def proposed_by(engine: ModuleType, packet: Packet) -> Action:
    """What an engine proposes."""
    return action_in(engine.create(EngineTerms()).decide(packet))
