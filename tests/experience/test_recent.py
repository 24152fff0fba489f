"""The last days from memory: the same as from the tables, however time goes on and outcomes come."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.units import DAY
from tapebook.experience.records import EndedTrade, RecentRecord, Record
from tapebook.experience.rows import ExperienceQuery
from tests.experience.makers import T0, closed, memory_desk, run_of
from tests.matrix import examples

ENDED = st.tuples(st.integers(100, 160), st.integers(-900, 900), st.integers(-9, 9))


def plain(ended: list[EndedTrade], *, since: int, most: int) -> Record:
    inside = [each for each in sorted(ended) if each[0] > since][-most:]
    ppm, usd = [each[1] for each in inside], [each[2] for each in inside]
    sums = (sum(each > 0 for each in usd), sum(ppm), sum(each * each for each in ppm), sum(usd))
    return Record("recent", "x", len(inside), *sums)


@given(st.lists(ENDED, max_size=30, unique_by=lambda each: each[0]), st.integers(1, 12), st.integers(1, 20))
def test_a_window_that_moves_on_counts_what_a_new_one_would(ended: list[EndedTrade], most: int, span: int) -> None:
    kept: list[EndedTrade] = []
    recent = RecentRecord([], name="x", most=most)
    assert RecentRecord(sorted(ended), name="x", most=most).record(since=0, as_of=200) == plain(
        ended, since=0, most=most
    )
    for each in sorted(ended):
        assert recent.add(each)
        assert not recent.add(each), "what ended with another, or before it, is not known to come last"
        kept.append(each)
        for later in range(0, 8, 3):
            since = each[0] - span + later
            assert recent.record(since=since, as_of=each[0] + later) in (None, plain(kept, since=since, most=most))
        assert recent.record(since=each[0] - span, as_of=each[0] - 1) is None, "before what is known, or asked for"


def test_a_record_is_made_again_only_when_an_outcome_comes_or_leaves() -> None:
    recent = RecentRecord([(100, 5, 1), (110, -3, -1)], name="x", most=9)
    first = recent.record(since=90, as_of=120)
    assert recent.record(since=99, as_of=120) is first
    assert recent.record(since=100, as_of=120) == plain([(110, -3, -1)], since=100, most=9) != first
    assert recent.add((120, 7, 2))
    later = recent.record(since=100, as_of=120)
    assert later is not None and later.n == 2


STEPS = st.lists(
    st.tuples(st.sampled_from(["learn", "ask", "back", "early"]), st.integers(0, 40), st.integers(-90, 90)), max_size=25
)


@given(STEPS, st.integers(1, 6), st.integers(1, 5))
@settings(max_examples=examples(40))
def test_what_a_packet_is_told_is_what_the_tables_say(steps: list[tuple[str, int, int]], most: int, days: int) -> None:
    chosen = ExperienceSettings(max_memory_size=most, context_window=days)
    with memory_desk() as desk:
        now, number = T0, 0
        for what, hours, bps in steps:
            if what == "learn":
                number += 1
                # Not always the last to end, and sometimes with another at the same moment.
                trade = closed(number, net_bps=bps, exited_at=now + (hours - 20) * DAY // 10)
                desk.learn((trade, run_of(trade)))
                continue
            now += hours * DAY // 12
            as_of = now - 3 * DAY if what == "back" else now - 9 * DAY if what == "early" else now
            standing = desk.experience.records_as_of("d", seq=desk.seq)
            ask = ExperienceQuery(as_of, "BTC", "chop_lowvol", ("trend",))
            fresh, terms = desk.reopened(), dict[str, Any](seq=desk.seq, settings=chosen)
            for each in (ask, msgspec.structs.replace(ask, symbol="ETH"), ask):
                newest = desk.experience.rows_for_packet(standing, each, **terms)
                assert newest == fresh.rows_for_packet(fresh.records_as_of("d", seq=desk.seq), each, **terms)
            shown = standing.recent.get((days, most))
            if shown is not None and shown.made is not None and shown.since <= as_of - days * DAY < shown.until:
                assert shown.made == desk.experience.recent_record("d", chosen, seq=desk.seq, as_of=as_of)
            told = desk.experience.old_rows_for_packet(standing, ask, None, settings=chosen)
            assert told == desk.reopened().rows_as_of("d", ask, None, seq=desk.seq, settings=chosen)
            if standing.seq:
                found = desk.experience._cached_recent_record(standing, chosen, as_of)
                assert found == desk.experience.recent_record("d", chosen, seq=desk.seq, as_of=as_of)
