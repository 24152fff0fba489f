"""The reflector that counts: a planted truth becomes a lesson, luck does not."""

import msgspec

from tapebook.domain.agent import AgentProfile
from tapebook.domain.money import E6
from tapebook.lessons import RejectedNote, hash_lessons_text, note_bullets, run_reflection
from tapebook.lessons.facts import result_bps
from tapebook.lessons.reflection import Lesson, ReflectorTerms
from tapebook.lessons.reflectors import statistics
from tests.lessons.trades import closed, world

AGENT = AgentProfile("a", ("BTC",), avoid=("never trade against the weekly trend",))


def reflect(trades: list) -> Lesson:  # type: ignore[type-arg]
    found = run_reflection(statistics.create(ReflectorTerms()), AGENT, trades, active=None)
    assert isinstance(found, Lesson), found
    return found


def test_a_planted_edge_is_found_and_named_with_its_numbers() -> None:
    note = reflect(world(1, edge_usd=15.0))
    lessons = [
        bullet for bullet in note_bullets(note.text) if bullet.startswith("Regime fit: trend_up_lowvol does better")
    ]
    assert len(lessons) == 1
    assert "n=" in lessons[0] and "95%" in lessons[0]


def test_luck_alone_hardly_ever_makes_a_lesson() -> None:
    spoken = [seed for seed in range(60) if note_bullets(reflect(world(seed)).text)]
    # Of 60 worlds without any edge, at a false share of 5 %, more than nine would need luck of 1 in 500.
    assert len(spoken) <= 9, spoken


def test_the_same_trades_give_the_same_note() -> None:
    assert reflect(world(3, edge_usd=8.0)) == reflect(world(3, edge_usd=8.0))


def test_a_note_names_its_window_and_its_hash() -> None:
    trades = world(1, edge_usd=15.0)
    note = reflect(trades)
    assert note.trades_considered == len(trades)
    assert note.window_start == trades[0].state.entry_tick_at
    assert note.window_end == max(trade.exit_tick_at for trade in trades)
    assert note.content_hash == hash_lessons_text(note.text)
    assert note.written_by == "statistics"


def test_winners_that_gave_most_of_it_back_are_named() -> None:
    trades = [closed(number, net_usd=2.0 + number % 3, best_usd=20.0) for number in range(20)]
    assert any("winners kept" in bullet for bullet in note_bullets(reflect(trades).text))


def test_no_trades_no_note() -> None:
    assert isinstance(run_reflection(statistics.create(ReflectorTerms()), AGENT, [], active=None), RejectedNote)


def test_few_trades_say_nothing() -> None:
    assert note_bullets(reflect([closed(number, net_usd=5.0) for number in range(5)]).text) == ()


def test_results_in_lessons_are_of_the_notional_at_entry() -> None:
    plain = closed(1, net_usd=5, size_usd=1_000)
    added = msgspec.structs.replace(plain.state, entered_usd_e6=10_000 * E6, entry_usd_e6=1_000 * E6)
    assert result_bps(msgspec.structs.replace(plain, state=added)) == result_bps(plain) == 50.0
