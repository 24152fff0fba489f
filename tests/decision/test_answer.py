"""What a rule engine writes is what the parser reads."""

from tapebook.decision import Reply, parse_reply
from tapebook.decision.reply import make_answer
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action
from tapebook.domain.units import E6

PACKET = Packet("a", "ETH", 0, 1, "", "", (), 0, {}, "", "")


def test_answer_is_one_action_on_the_packets_symbol() -> None:
    text = make_answer(
        PACKET, "open", reason="up", confidence=0.123456, side="short", notional_usd=99.5, leverage=3
    ).reply
    action = Action("open", "ETH", "short", 99_500_000, 3, "market", None, 1_235, "up")
    assert parse_reply(text) == Reply((action,), "")


def test_confidence_is_half_unless_said() -> None:
    parsed = parse_reply(make_answer(PACKET, "hold", reason='quotes " and\nbreaks survive').reply)
    assert isinstance(parsed, Reply)
    assert parsed.actions[0].confidence_e4 == 5_000
    assert parsed.actions[0].reason == 'quotes " and breaks survive'
    assert parsed.actions[0].notional_usd_e6 == 0 * E6


def test_a_long_reason_is_cut_where_the_parser_would_cut_it() -> None:
    parsed = parse_reply(make_answer(PACKET, "hold", reason="x" * 1_000).reply)
    assert isinstance(parsed, Reply)
    assert parsed.actions[0].reason == "x" * 240
