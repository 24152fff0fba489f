"""What may become the active note, and what may not."""

import pytest

from tapebook.domain.agent import AgentProfile
from tapebook.lessons import SLOTS, RejectedNote, check_note, note_text
from tapebook.lessons.reflection import ReflectorTerms
from tapebook.lessons.reflectors import statistics
from tests.lessons.trades import closed, world

TRADES = [closed(number, net_usd=number - 10.0) for number in range(20)]


def check(text: str, **other: object) -> str | RejectedNote:
    given = {"avoid": (), "trades": TRADES, "active": None} | other
    return check_note(text, **given)  # type: ignore[arg-type]


def why(text: str, **other: object) -> str:
    found = check(text, **other)
    assert isinstance(found, RejectedNote), found
    return found.why


def test_an_empty_slot_is_a_valid_slot() -> None:
    assert check(note_text({})) == note_text({})


def test_nothing_and_too_much_are_refused() -> None:
    assert "empty" in why("  \n ")
    assert "4000" in why("x" * 4_001)


@pytest.mark.parametrize("text", ["BTC is good", "### Entry timing\n- 20 trades", note_text({}) + "\n\n### Wishes"])
def test_anything_but_the_five_slots_is_refused(text: str) -> None:
    assert why(text)


def test_a_fifth_bullet_is_refused() -> None:
    assert "more than 4" in why(note_text({"Sizing": [f"20 trades, point {n}" for n in range(1, 6)]}))


def test_a_rule_in_disguise_is_refused_however_it_is_spaced() -> None:
    text = note_text({"Sizing": ["20 trades: Never  trade AGAINST the trend"]})
    assert "avoid rule" in why(text, avoid=("never trade against the trend",))


def test_a_number_the_trades_do_not_give_is_refused() -> None:
    assert "do not give" in why(note_text({"Sizing": ["size 9,999 wins"]}))
    assert "no number" in why(note_text({"Sizing": ["larger is better"]}))


def test_numbers_of_the_trades_pass() -> None:
    text = note_text({"Sizing": ["of 20 trades the best made $9.00 in 60 minutes"]})
    assert check(text) == text


def test_a_bullet_of_the_active_note_may_stay() -> None:
    old = note_text({"Sizing": ["777 trades ago this was so"]})
    assert check(old, active=old) == old


def test_a_long_note_is_cut_to_whole_bullets() -> None:
    slots = {slot: [f"20 trades {'and so on ' * 12}{n}" for n in range(1, 5)] for slot in SLOTS}
    found = check(note_text(slots))
    assert isinstance(found, str)
    assert len(found) <= 2_000
    assert set(found.splitlines()) <= set(note_text(slots).splitlines())


def test_what_the_counting_reflector_writes_passes_its_own_check() -> None:
    for seed in range(20):
        trades = world(seed, edge_usd=12.0)
        text = statistics.create(ReflectorTerms()).reflect(AgentProfile("a", ("BTC",)), trades, active=None).text
        assert isinstance(check_note(text, avoid=(), trades=trades, active=None), str)
