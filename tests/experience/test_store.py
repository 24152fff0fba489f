"""Experience in its database, on SQLite and PostgreSQL: a function of the log, the same however often it is opened."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.db import connect
from tapebook.domain.agent import ExperienceRow, ExperienceSettings
from tapebook.domain.units import DAY, HOUR
from tapebook.experience.events import draft_situation_seen
from tapebook.experience.features import PAGE_ROWS, MarketFeatures
from tapebook.experience.records import ALL, PROVIDER, outcome_of, records_from_scratch
from tapebook.experience.rows import ExperienceQuery
from tapebook.experience.store import MIGRATIONS
from tapebook.log import verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.experience.makers import T0, Desk, Pair, closed, memory_desk, run_of, sight, taught, vote

SETTINGS = ExperienceSettings()
ASK = ExperienceQuery(T0 + 30 * DAY, "BTC", "chop_lowvol", ("trend", "carry"))


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        yield Desk(opened)


def pair(number: int, net_bps: float = 5.0, **more: object) -> Pair:
    trade = closed(number, net_bps=net_bps, **more)  # type: ignore[arg-type]
    return trade, run_of(trade, engine="ensemble", votes=[vote("trend", "long"), vote("carry", "short")])


def test_learning_writes_outcome_and_records(desk: Desk) -> None:
    desk.learn(pair(1, 10), pair(2, -4, symbol="ETH"))
    seq = desk.learn(pair(3, 6))
    expected = records_from_scratch(
        [outcome_of(*pair(1, 10)), outcome_of(*pair(2, -4, symbol="ETH")), outcome_of(*pair(3, 6))]
    )
    assert desk.experience.records("d", seq=seq) == expected
    assert [each.trade_id for each in desk.experience.outcomes("d", seq=seq, most=10)] == ["t3", "t2", "t1"]
    assert desk.experience.outcomes("d", seq=seq, most=1)[0] == outcome_of(*pair(3, 6))
    assert verify_log(desk.log, desk.db, packages=(LOG, MIGRATIONS), anchors={}) == []


def test_learning_twice_changes_nothing(desk: Desk) -> None:
    seq = desk.learn(pair(1), pair(1), pair(2))
    assert desk.learn(pair(1), pair(2)) == seq
    assert desk.experience.records("d", seq=seq)[ALL, ""].n == 2


def test_opened_ten_times_it_says_the_same(desk: Desk) -> None:
    made = taught(desk, 130)
    seq, look = desk.seq, made[40][1]
    first = desk.experience.rows_as_of("d", ASK, look, seq=seq, settings=SETTINGS)
    assert any(row.kind == "similar" for row in first)
    for _ in range(10):
        again = desk.reopened()
        assert again.rows_as_of("d", ASK, look, seq=seq, settings=SETTINGS) == first
        assert again.records("d", seq=seq) == desk.experience.records("d", seq=seq)
    assert desk.seq == seq


def test_as_of_any_moment_the_future_changes_nothing(desk: Desk) -> None:
    rng = random.Random(3)
    asked: list[tuple[MarketFeatures, dict[int, tuple[ExperienceRow, ...]]]] = [(sight(rng), {}) for _ in range(3)]
    seqs = []
    for round_ in range(8):
        for number in range(round_ * 20, round_ * 20 + 20):
            trade = closed(number, net_bps=rng.gauss(0, 40))
            desk.append([draft_situation_seen(f"r{number}", "BTC", sight(rng))])
            desk.learn((trade, run_of(trade)))
        seqs.append(desk.seq)
        for look, answers in asked:
            answers[desk.seq] = desk.experience.rows_as_of("d", ASK, look, seq=desk.seq, settings=SETTINGS)
    for reader in (desk.experience, desk.reopened()):
        for look, answers in asked:
            for seq in random.Random(1).sample(seqs, len(seqs)):
                assert reader.rows_as_of("d", ASK, look, seq=seq, settings=SETTINGS) == answers[seq]
    assert len(set(map(str, asked[0][1].values()))) == len(seqs)


def test_situation_is_no_neighbour_before_its_trade_has_ended(desk: Desk) -> None:
    taught(desk, 110)
    look = sight(random.Random(99))
    trade = closed(500, net_bps=300)
    before = desk.see(trade, look)
    seq = desk.learn((trade, run_of(trade)))
    waiting = desk.experience.nearest("d", look, seq=before)
    ended = desk.experience.nearest("d", look, seq=seq)
    assert waiting is not None and ended is not None
    assert (waiting.searched, ended.searched) == (110, 111)
    assert waiting.neighbours[0].distance > 0
    assert (ended.neighbours[0].distance, ended.neighbours[0].result_ppm) == (0, 30_000)


def test_outcome_without_a_sight_counts_and_is_no_neighbour(desk: Desk) -> None:
    taught(desk, 105)
    seq = desk.learn(pair(700, run_id=None), pair(701))
    assert desk.experience.records_as_of("d", seq=seq).situations == 105
    assert desk.experience.records("d", seq=seq)[ALL, ""].n == 107
    found = desk.experience.nearest("d", sight(random.Random(1)), seq=seq)
    assert found is not None and found.searched == 105


def test_there_are_no_neighbours_before_the_first_fit(desk: Desk) -> None:
    taught(desk, 60)
    look = sight(random.Random(1))
    assert desk.experience.nearest("d", look, seq=desk.seq) is None
    assert desk.experience.fit_as_of("d", seq=desk.seq) is None
    rows = desk.experience.rows_as_of("d", ASK, look, seq=desk.seq, settings=SETTINGS)
    assert rows and all(row.kind != "similar" for row in rows)


def test_fit_is_kept_with_its_window_and_holds_from_its_own_event_on() -> None:
    with memory_desk() as desk:
        taught(desk, 150)
        fits = desk.experience.fits("d", seq=desk.seq)
        # Due at 100 and 125; seen by the next learning, which comes ten at a time.
        assert [(fit.first, fit.last) for fit in fits] == [(1, 100), (1, 130)]
        kinds = [(event.seq, event.kind) for event in desk.log.events(desk.stream)]
        first = next(seq for seq, kind in kinds if kind == "situation.fitted")
        assert desk.experience.fit_as_of("d", seq=first - 1) is None
        assert desk.experience.fit_as_of("d", seq=first) == fits[0]
        assert desk.experience.fit_as_of("d", seq=desk.seq) == fits[1]


def test_pages_hold_what_the_outcomes_hold() -> None:
    with memory_desk() as desk:
        made = taught(desk, PAGE_ROWS + 40)
        kinds = [event.kind for event in desk.log.events(desk.stream)]
        assert kinds.count("situation.packed") == 1
        history = [each.packed for each in desk.experience.history("d", seq=desk.seq)]
        whole = "".join(each or "" for each in history)
        for after, until in (
            (0, PAGE_ROWS + 40),
            (0, PAGE_ROWS),
            (3, PAGE_ROWS + 1),
            (PAGE_ROWS, PAGE_ROWS + 5),
            (PAGE_ROWS - 1, PAGE_ROWS),
            (7, 9),
        ):
            assert (
                desk.experience.packed_situations("d", after=after, until=until).hex() == whole[after * 86 : until * 86]
            )
        for number in (0, 100, PAGE_ROWS - 1, PAGE_ROWS, PAGE_ROWS + 39):
            found = desk.reopened().nearest("d", made[number][1], seq=desk.seq)
            assert found is not None and (found.neighbours[0].number, found.neighbours[0].distance) == (number + 1, 0)
        assert verify_log(desk.log, desk.db, packages=(LOG, MIGRATIONS), anchors={}) == []


def test_order_of_trades_that_end_together_does_not_matter(desk: Desk) -> None:
    together = [pair(number, 3.0 * number, exited_at=T0 + 50 * HOUR) for number in range(1, 8)]
    other = Desk(desk.db, deployment="e")
    desk.append(desk.experience.learn("d", together, seq=0))
    other.append(other.experience.learn("e", together[::-1], seq=0))
    bodies = [[event.body for event in each.log.events(each.stream)] for each in (desk, other)]
    assert bodies[0] == bodies[1]


def test_recent_record_takes_the_newest_by_time(desk: Desk) -> None:
    # Learned out of order, with ids that sort the other way.
    numbers = [30, 10, 50, 20, 40]
    for number in numbers:
        desk.learn(pair(number, float(number), trade_id=f"x{99 - number}"))
    as_of = T0 + 51 * HOUR
    three = ExperienceSettings(max_memory_size=3)
    found = desk.experience.recent_record("d", three, seq=desk.seq, as_of=as_of)
    assert (found.n, found.total_ppm, found.name) == (3, (30 + 40 + 50) * 100, "last 20 days")
    assert found.square_ppm2 == sum((100 * number) ** 2 for number in (30, 40, 50))
    day = ExperienceSettings(context_window=1)
    assert desk.experience.recent_record("d", day, seq=desk.seq, as_of=as_of).n == 3
    assert desk.experience.recent_record("d", day, seq=0, as_of=as_of).n == 0
    assert [each.trade_id for each in desk.experience.outcomes("d", seq=desk.seq, most=2)] == ["x49", "x59"]


def test_off_means_nothing_is_offered(desk: Desk) -> None:
    desk.learn(*(pair(number) for number in range(1, 10)))
    off = ExperienceSettings(enabled=False)
    assert desk.experience.rows_as_of("d", ASK, None, seq=desk.seq, settings=SETTINGS)
    assert desk.experience.rows_as_of("d", ASK, None, seq=desk.seq, settings=off) == ()
    assert desk.experience.rows_as_of("nobody", ASK, None, seq=desk.seq, settings=SETTINGS) == ()


def test_deployments_and_owners_are_apart(desk: Desk) -> None:
    other = Desk(desk.db, deployment="e")
    stranger = Desk(desk.db, owner="else")
    desk.learn(pair(1), pair(2))
    other.learn(pair(1))
    assert desk.experience.records("d", seq=desk.seq)[PROVIDER, "trend"].n == 2
    assert other.experience.records("e", seq=other.seq)[PROVIDER, "trend"].n == 1
    assert stranger.experience.records("d", seq=99) == {}


def test_snapshots_are_kept_and_the_newest_are_read(desk: Desk) -> None:
    desk.learn(pair(1, 10))
    since = desk.seq
    seq = desk.learn(pair(2, 20), pair(3, 30))
    desk.append([desk.experience.draft_chunk_snapshot("d", "Q1", since_seq=0, seq=since, span=(T0, T0 + 1))])
    desk.append([desk.experience.draft_chunk_snapshot("d", "Q2", since_seq=since, seq=seq, span=(T0 + 1, T0 + 2))])
    found = desk.experience.snapshots("d", seq=desk.seq)
    sums = [(each.chunk, each.result.n, each.result.total_ppm) for each in found]
    assert sums == [("Q2", 2, 5_000), ("Q1", 1, 1_000)]
    assert [each.chunk for each in desk.experience.snapshots("d", seq=desk.seq, most=1)] == ["Q2"]
    assert [each.chunk for each in desk.experience.snapshots("d", seq=desk.seq - 1)] == ["Q1"]


def test_only_a_search_needs_numpy() -> None:
    code = "import sys, tapebook.experience.events, tapebook.experience as e; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_home_nobody_wrote_to_knows_nothing(desk: Desk) -> None:
    assert desk.experience.records_as_of("d", seq=10).records == {}
    assert desk.experience.nearest("d", sight(random.Random(1)), seq=10) is None
    assert desk.experience.learn("d", [], seq=0) == []
