"""What is kept in memory between decisions says what a new process would read, byte for byte."""

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.units import HOUR
from tapebook.experience.events import draft_situation_seen
from tapebook.experience.records import ASSET, REGIME
from tapebook.experience.rows import ExperienceQuery
from tests.experience.makers import T0, Desk, Pair, closed, memory_desk, run_of, sight, vote
from tests.matrix import examples

CHOSEN = ExperienceSettings(context_window=3, max_memory_size=40, neighbours=7)
REGIMES = ("chop_lowvol", "trend_up_lowvol", "trend_down_hivol")
SYMBOLS = ("BTC", "ETH", "SOL")


def pair(rng: random.Random, number: int) -> Pair:
    side = rng.choice(("long", "short"))
    trade = closed(number, net_bps=rng.gauss(0, 40), side=side, regime=rng.choice(REGIMES), symbol=rng.choice(SYMBOLS))
    votes = [vote(name, rng.choice(("long", "short", None))) for name in rng.sample(("trend", "carry", "x"), 2)]
    return trade, run_of(trade, engine="ensemble", votes=votes, confidence_e4=rng.randrange(10_000))


def ask(rng: random.Random, hour: int) -> ExperienceQuery:
    return ExperienceQuery(T0 + hour * HOUR, rng.choice(SYMBOLS), rng.choice(REGIMES), ("trend", "carry"))


def grown(desk: Desk, rng: random.Random, first: int, count: int) -> None:
    pairs = [pair(rng, number) for number in range(first, first + count)]
    desk.append(
        [draft_situation_seen(trade.state.entry_run_id or "", trade.state.symbol, sight(rng)) for trade, _ in pairs]
    )
    desk.learn(*pairs)


@given(st.integers(0, 10_000), st.lists(st.sampled_from([0, 1, 1, 2, 5, 30]), min_size=1, max_size=8))
@settings(max_examples=examples(25))
def test_asked_for_months_it_says_what_a_new_process_says(seed: int, steps: list[int]) -> None:
    rng = random.Random(seed)
    with memory_desk() as desk:
        grown(desk, rng, 0, 105)
        known, seqs = 105, [desk.seq]
        for count in steps:
            grown(desk, rng, known, count)
            known += count
            seqs.append(desk.seq)
            question, look = ask(rng, known), sight(rng)
            # Now, twice, and as of a moment before, as a replay would.
            for seq in (desk.seq, desk.seq, rng.choice(seqs), desk.seq):
                told = desk.experience.rows_as_of("d", question, look, seq=seq, settings=CHOSEN)
                plain = desk.reopened().rows_as_of("d", question, look, seq=seq, settings=CHOSEN)
                assert msgspec.json.encode(told) == msgspec.json.encode(plain)


def test_a_standing_catches_up_with_a_few_outcomes_as_if_it_had_read_all() -> None:
    rng = random.Random(3)
    with memory_desk() as desk:
        for number in range(60):
            grown(desk, rng, number, 1)
            question = ask(rng, number)
            desk.experience.rows_as_of("d", question, None, seq=desk.seq, settings=CHOSEN)
            kept, read = (each.records_as_of("d", seq=desk.seq) for each in (desk.experience, desk.reopened()))
            assert (kept.seq, kept.situations, kept.records) == (read.seq, read.situations, read.records)
            every = desk.experience.records("d", seq=desk.seq)
            assert kept.records_by_name and all(
                record == every.get(key, record) for key, record in kept.records_by_name.items()
            )
            assert {key[0] for key in kept.records_by_name} <= {REGIME, ASSET}


def test_a_standing_is_the_same_object_until_something_is_learned() -> None:
    with memory_desk() as desk:
        grown(desk, random.Random(1), 0, 5)
        first = desk.experience.records_as_of("d", seq=desk.seq)
        desk.append([draft_situation_seen("r99", "BTC", sight(random.Random(2)))])
        assert desk.experience.records_as_of("d", seq=desk.seq) is first
        grown(desk, random.Random(2), 5, 1)
        assert desk.experience.records_as_of("d", seq=desk.seq) is not first
        desk.experience.forget_cached("d")
        kept, read = (each.records_as_of("d", seq=desk.seq) for each in (desk.experience, desk.reopened()))
        assert kept.records == read.records


def test_trades_are_passed_over_only_once_they_are_learned() -> None:
    with memory_desk() as desk:
        assert desk.experience.learned_up_to("d", seq=0) == 0
        grown(desk, random.Random(1), 0, 3)
        learned = desk.seq
        desk.append([draft_situation_seen("r99", "BTC", sight(random.Random(2)))])
        assert desk.experience.learned_up_to("d", seq=desk.seq) == learned
        desk.experience.mark_learned_up_to("d", seq=desk.seq)
        assert desk.experience.learned_up_to("d", seq=desk.seq) == desk.seq
        # As of before that, only what is stored counts.
        assert desk.experience.learned_up_to("d", seq=desk.seq - 1) == learned
