"""What went wrong, told with its begin, its end and what was said."""

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given

from tapebook.domain.market import Gap
from tapebook.domain.units import HOUR, MINUTE
from tapebook.library.document_texts import (
    MAX_GAPS_LISTED,
    Halt,
    decisions_incident,
    failed_run_line,
    feed_incident,
    group_feed_outages,
    halt_incident,
    lessons_incident,
)
from tapebook.search.documents import Outage
from tests.search.runs import NASTY, run_of


def gap(start: int, end: int, channel: str = "mids", subject: str = "*") -> Gap:
    """Minutes without a market."""
    return Gap("hyperliquid", channel, subject, start * MINUTE, end * MINUTE, "no frame")


def test_a_halt_has_its_reasons() -> None:
    standing, over = Halt("", HOUR, NASTY), Halt("ann", HOUR, "odd", 2 * HOUR, "fine again")
    desk, agent = halt_incident(standing), halt_incident(over)
    assert (desk.scope, desk.path) == ("", "incidents/19700101T010000-halt.md")
    assert (agent.scope, agent.path) == ("ann", "agents/ann/incidents/19700101T010000-halt.md")
    assert "has not ended" in desk.text and "\n## System" not in desk.text
    assert "ended 1970-01-01T02:00 UTC" in agent.text and '- resumed because: "fine again"' in agent.text


def test_troubles_tell_counts_and_words() -> None:
    run = run_of(status="failed", error=NASTY, degraded=("features",))
    trouble = Outage(0, (), ("BTC",), {"failed": 14}, (failed_run_line(run),) * 12, ("features",), HOUR)
    text = decisions_incident("ann", trouble).text
    assert "- 14 failed; symbols BTC" in text and "could not be read: features" in text and "- and 2 more" in text
    assert text.count("\n## ") == 1
    refused = lessons_incident("ann", trouble)
    assert refused.path.endswith("-lessons.md") and "14 notes were rejected" in refused.text


def test_gaps_that_overlap_are_one_outage() -> None:
    found = group_feed_outages(
        [(gap(0, 5), True), (gap(3, 9, "books"), False), (gap(10, 11), True), (gap(30, 31), True)]
    )
    assert [(each.began_at // MINUTE, each.ended_at // MINUTE, each.filled) for each in found] == [
        (0, 11, False),
        (30, 31, True),
    ]
    text = feed_incident(found[0]).text
    assert "feed was disconnected" in text and "channels: books, mids" in text and "was not filled" in text


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), max_size=12))
def test_outages_share_out_all_gaps_and_do_not_touch(spans: list[tuple[int, int]]) -> None:
    gaps = [gap(start, start + length) for start, length in spans]
    found = group_feed_outages([(each, True) for each in gaps])
    assert sorted((each for outage in found for each in outage.gaps), key=repr) == sorted(gaps, key=repr)
    ends = [(each.began_at, each.ended_at) for each in found]
    assert all(before[1] + MINUTE < after[0] for before, after in pairwise(ends))


def test_an_outage_of_everything_stays_short() -> None:
    many = [(gap(number % 50, 60, "books", f"COIN{number}"), False) for number in range(5_000)]
    (outage,) = group_feed_outages(many)
    lines = feed_incident(outage).text.splitlines()
    assert len(lines) <= MAX_GAPS_LISTED + 10 and max(map(len, lines)) < 400
