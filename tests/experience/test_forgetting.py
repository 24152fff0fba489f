"""Forgetting and its undo: what counts is a function of the log, as of any event, on both databases."""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.db import Database, connect
from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.units import DAY, HOUR
from tapebook.errors import BadInput
from tapebook.experience.events import ForgetTerms, SeenFeatures
from tapebook.experience.features import MOMENT_FIELDS, FeatureVector
from tapebook.experience.forgetting import draft_forgetting, draft_remembering, outcomes_meant, proposers
from tapebook.experience.rebuild import rebuild_and_compare, restore_tables
from tapebook.experience.records import CONFIDENCE, Outcome, Record, RecordKey, outcome_of, records_from_scratch
from tapebook.experience.situations import fit_whitening
from tapebook.experience.store import MIGRATIONS, Experience
from tapebook.log import verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.experience.makers import T0, Desk, closed, memory_desk, run_of, vote

SETTINGS = ExperienceSettings(context_window=300, max_memory_size=5)
SOURCES = ("", "", "desk-1", "desk-2")


def outcomes(count: int, *, seed: int = 1) -> list[tuple[Outcome, SeenFeatures, str]]:
    """Outcomes of several sources, in the order of their exits, each with a moment."""
    rng, found = random.Random(seed), []
    for number in range(count):
        trade = closed(number, net_bps=rng.gauss(0, 30), symbol=rng.choice(("BTC", "ETH")))
        voted = [vote("trend", rng.choice(("long", None))), vote("carry", rng.choice(("short", None)))]
        run = run_of(trade, engine="ensemble", votes=voted, confidence_e4=rng.randrange(10_001))
        moment: FeatureVector = tuple(rng.randrange(-999, 999) for _ in MOMENT_FIELDS)
        found.append((outcome_of(trade, run), SeenFeatures(None, moment), rng.choice(SOURCES)))
    return found


def is_own(trade_id: str) -> bool:
    """Trades with an even number are of this account; what a name says goes before it."""
    return int(trade_id[1:]) % 2 == 0


def learn(desk: Desk, some: list[tuple[Outcome, SeenFeatures, str]]) -> None:
    for outcome, seen, source in some:
        pairs = [(outcome, seen)]
        desk.append(desk.experience.learn_outcomes("d", pairs, seq=desk.seq, source=source))


def forget(desk: Desk, terms: ForgetTerms) -> str | None:
    meant = outcomes_meant(desk.experience, "d", terms, seq=desk.seq, is_own=is_own)
    if not meant:
        return None
    made = draft_forgetting(desk.experience, "d", meant, terms=terms, reason="why", seq=desk.seq, at=T0)
    desk.append([made])
    return desk.experience.forgettings("d", seq=desk.seq)[-1].forget_id


def remember(desk: Desk, forget_id: str) -> None:
    desk.append([draft_remembering(desk.experience, "d", forget_id, seq=desk.seq, at=T0 + DAY)])


def state(experience: Experience, seq: int) -> tuple[object, ...]:
    """All that outcomes say as of a sequence number: sums, the last days, and which trades can be found."""
    records = experience.records("d", seq=seq)
    as_of = T0 + 100 * DAY
    recent = experience.recent_record("d", SETTINGS, seq=seq, as_of=as_of)
    known = experience.records_as_of("d", seq=seq)
    assert experience._cached_recent_record(known, SETTINGS, as_of) == recent
    assert {key: each for key, each in known.records.items() if each.n} == {
        key: each for key, each in records.items() if key in known.records
    }
    trades = experience._trades_up_to("d", seq, size=1_000)
    count = trades.count_as_of(seq)
    return records, recent, [each.seq for each in trades._trades[:count]]


def expected(counting: list[Outcome]) -> tuple[dict[RecordKey, Record], Record]:
    newest = sorted(counting, key=lambda each: (each.exited_at, each.trade_id))[-SETTINGS.max_memory_size :]
    total = sum(each.result_ppm for each in newest)
    squares = sum(each.result_ppm**2 for each in newest)
    usd = sum(each.net_usd_e6 for each in newest)
    wins = sum(each.is_win for each in newest)
    return records_from_scratch(counting), Record("recent", "last 300 days", len(newest), wins, total, squares, usd)


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        yield Desk(opened)


def test_forgotten_outcomes_count_no_longer_and_undo_restores_them(desk: Desk) -> None:
    every = outcomes(40)
    learn(desk, every[:30])
    before, at = state(desk.experience, desk.seq), desk.seq
    assert {kind for kind, _ in desk.experience.records("d", seq=at)} >= {CONFIDENCE, "provider"}
    gone = forget(desk, ForgetTerms(provider="trend"))
    assert gone is not None
    left = [outcome for outcome, *_ in every[:30] if "trend" not in proposers(outcome)]
    assert state(desk.experience, desk.seq)[:2] == expected(left)
    assert len(state(desk.experience, desk.seq)[2]) == len(left)  # type: ignore[arg-type]
    # As of any moment before it nothing is different, for whoever was there and for whoever comes later.
    for experience in (desk.experience, desk.reopened()):
        assert state(experience, at) == before
    # What is learned later counts, and what was forgotten is not learned again.
    learn(desk, every)
    counting = [*left, *(outcome for outcome, *_ in every[30:])]
    assert state(desk.experience, desk.seq)[:2] == expected(counting)
    assert state(desk.reopened(), desk.seq) == state(desk.experience, desk.seq)
    remember(desk, gone)
    assert state(desk.experience, desk.seq)[:2] == expected([outcome for outcome, *_ in every])
    (kept,) = desk.experience.forgettings("d", seq=desk.seq)
    assert (kept.reason, kept.terms, kept.undone_at) == ("why", ForgetTerms(provider="trend"), T0 + DAY)
    with pytest.raises(BadInput, match="counts again already"):
        remember(desk, gone)
    with pytest.raises(BadInput, match="nothing was forgotten as 'x': choose from none"):
        remember(desk, "x")
    assert rebuild_and_compare(desk.experience, "d", seq=desk.seq).differences == ()
    assert verify_log(desk.log, desk.db, packages=(LOG, MIGRATIONS), anchors={}) == []
    restore_tables(desk.log, desk.db, desk.stream)
    assert state(desk.reopened(), at) == before


TERMS = st.builds(
    ForgetTerms,
    source=st.sampled_from(("", "own", "imported", "desk-1", "desk-2")),
    provider=st.sampled_from(("", "trend", "carry", "ensemble", "nobody")),
    since=st.none() | st.integers(0, 30).map(lambda hour: T0 + hour * HOUR),
    until=st.none() | st.integers(0, 30).map(lambda hour: T0 + hour * HOUR),
).filter(lambda terms: terms != ForgetTerms())


def meets(outcome: Outcome, source: str, terms: ForgetTerms) -> bool:
    """The oracle of `outcomes_meant`."""
    sources = {"own": not source and is_own(outcome.trade_id)}
    sources |= {"imported": not sources["own"], "": True}
    return (
        sources.get(terms.source, source == terms.source)
        and (not terms.provider or terms.provider in proposers(outcome))
        and (terms.since is None or outcome.exited_at >= terms.since)
        and (terms.until is None or outcome.exited_at < terms.until)
    )


@given(steps=st.lists(TERMS | st.integers(0, 3), max_size=8), seed=st.integers(0, 99))
def test_any_order_of_learning_forgetting_and_undoing(steps: list[ForgetTerms | int], seed: int) -> None:
    """Two desks that learn the same: one that never forgot what does not stay forgotten, and an oracle of sets."""
    every, told, forgotten = outcomes(24, seed=seed), 0, dict[str, set[str]]()
    with memory_desk() as desk:
        states = {0: state(desk.experience, 0)}
        for step in steps:
            learn(desk, every[told : told + 4])
            told = min(told + 4, len(every))
            hidden = set[str]().union(*forgotten.values())
            if isinstance(step, ForgetTerms):
                wanted = {one.trade_id for one, _, source in every[:told] if meets(one, source, step)} - hidden
                made = forget(desk, step)
                assert (made is not None) == bool(wanted)
                forgotten |= {made: wanted} if made else {}
            elif step < len(forgotten):
                chosen = list(forgotten)[step]
                remember(desk, chosen)
                del forgotten[chosen]
            hidden = set[str]().union(*forgotten.values())
            counting = [one for one, *_ in every[:told] if one.trade_id not in hidden]
            states[desk.seq] = state(desk.experience, desk.seq)
            assert states[desk.seq][:2] == expected(counting)
            assert rebuild_and_compare(desk.experience, "d", seq=desk.seq).differences == ()
        cold = desk.reopened()
        for seq, was in random.Random(seed).sample(sorted(states.items()), len(states)):
            assert state(cold, seq) == was


def test_a_neighbour_that_is_forgotten_is_not_found(desk: Desk) -> None:
    every = outcomes(60)
    learn(desk, every)
    rows = np.array([seen.moment for _, seen, _ in every], np.int16)
    fit = fit_whitening(rows, last=len(rows))
    asked, trades = every[17][1].moment or (), desk.experience._trades_up_to("d", desk.seq, size=1_000)
    query = trades.whitened_query(fit, asked)
    near = trades.nearest_trades(fit, query, count=60, most=1, size=1_000)
    assert near[0][0] == 0 and near[0][1].vector == asked
    terms = ForgetTerms(since=every[17][0].exited_at, until=every[17][0].exited_at + 1)
    gone = forget(desk, terms) or ""
    trades = desk.experience._trades_up_to("d", desk.seq, size=1_000)
    (found,) = trades.nearest_trades(fit, query, count=trades.count_as_of(desk.seq), most=1, size=1_000)
    assert found[1].vector != asked
    remember(desk, gone)
    trades = desk.experience._trades_up_to("d", desk.seq, size=1_000)
    assert trades.nearest_trades(fit, query, count=60, most=1, size=1_000) == near


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_killed_while_forgetting_it_is_whole_or_not_at_all(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = request.getfixturevalue("empty_postgres") if engine == "postgres" else str(tmp_path / "book.db")
    with closing(connect(place)) as opened:
        first = Desk(opened)
        learn(first, outcomes(30))
        before, head = state(first.experience, first.seq), first.seq
    seen = set()
    for writes in (1, 4, 40, 999):
        killed = run_and_kill(place, after=writes)
        with closing(connect(place)) as opened:
            found = Desk(opened)
            seen.add(killed)
            assert state(found.experience, head) == before
            # Killed in the middle nothing of it is there; whoever comes next does all of it.
            assert (found.seq == head) == killed
            assert verify_log(found.log, found.db, packages=(LOG, MIGRATIONS), anchors={}) == []
            if not killed:
                left = [one for one, *_ in outcomes(30) if "carry" not in proposers(one)]
                assert state(found.experience, found.seq)[:2] == expected(left)
    assert seen == {True, False}


def run_and_kill(place: str, *, after: int) -> bool:
    """Forgets in a process of its own that is killed after so many writes; whether it was."""
    child = os.fork()
    if not child:
        try:
            with closing(connect(place)) as opened:
                found = Desk(opened)
                kill_after(found.db, after)
                forget(found, ForgetTerms(provider="carry"))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def kill_after(db: Database, count: int) -> None:
    """Kills this process at the write after so many."""
    write, left = db.execute_row, [count]

    def counted(*args: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*args)  # type: ignore[arg-type]

    db.execute_row = counted  # type: ignore[method-assign,assignment]
