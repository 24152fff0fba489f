"""Packets for the tests of rule engines, made of what such an engine looks at and nothing else."""

from collections.abc import Sequence
from types import ModuleType

from tapebook.decision import EngineAnswer, EngineTerms, Reply, parse_reply
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import Action

FLAT, LONG, SHORT = 0, 1, -1
Prices = tuple[float, float, float]


def packet_of(*sections: Section) -> Packet:
    """A packet about BTC with these sections."""
    return Packet("a", "BTC", 0, 1, "", "", sections, 0, {}, "", "")


def facts(name: str, **values: str) -> Section:
    """A section of names and values."""
    return Section(name, name, ("name", "value"), tuple(values.items()))


def portfolio(held: int = FLAT, **changes: str) -> Section:
    """An account of 10,000 USD with the usual caps."""
    side = {FLAT: "flat", LONG: "long", SHORT: "short"}[held]
    usual = {"equity_usd": "10000.00", "position_side": side, "max_position_usd": "2000.00", "max_leverage": "5"}
    return facts("portfolio", **{**usual, **changes})


def bars(prices: Sequence[Prices]) -> Section:
    """Bars of highs, lows and closes, oldest first."""
    rows = tuple(("00:00", f"{high:.8f}", f"{low:.8f}", f"{close:.8f}", "1") for high, low, close in prices)
    return Section("bars", "bars", ("time", "high", "low", "close", "volume"), rows)


def seen(prices: Sequence[Prices], *, held: int = FLAT) -> Packet:
    """A packet of bars and a portfolio."""
    return packet_of(bars(prices), portfolio(held))


def action_in(answer: EngineAnswer) -> Action:
    """The one action of an answer without a problem."""
    assert answer.problem is None
    parsed = parse_reply(answer.reply)
    assert isinstance(parsed, Reply), parsed
    (only,) = parsed.actions
    return only


def proposed_by(engine: ModuleType, packet: Packet) -> Action:
    """What an engine proposes."""
    return action_in(engine.create(EngineTerms()).decide(packet))
