"""A trouble begins with the first failure, ends when nothing is troubled any more, and tells what it saw."""

import msgspec

from tapebook.search.documents import (
    MAX_MESSAGES_KEPT,
    Outage,
    add_failure,
    end_outage,
    failure_state,
    outage_after_run,
)
from tests.search.runs import run_of


def told(*runs: tuple[str, str, tuple[str, ...]]) -> list[Outage | None]:
    """The trouble after each run of (symbol, status, what it lacked), a minute apart."""
    found, trouble = [], None
    for minute, (symbol, status, lacked) in enumerate(runs):
        run = run_of(symbol=symbol, status=status, degraded=lacked, as_of=60_000 * minute)
        trouble = outage_after_run(trouble, run, f"{symbol} {minute}")
        found.append(trouble)
        trouble = None if trouble is not None and trouble.ended_at else trouble
    return found


def test_what_is_wrong_with_a_run() -> None:
    assert [failure_state(run_of(status=status)) for status in ("held", "placed", "rejected")] == ["", "", ""]
    assert failure_state(run_of(status="failed")) == "failed" and failure_state(run_of(status="expired")) == "expired"
    assert failure_state(run_of(degraded=("lessons",))) == "degraded"


def test_it_lasts_until_every_symbol_works_again() -> None:
    steps = told(
        ("BTC", "held", ()),
        ("BTC", "failed", ()),
        ("ETH", "held", ("features",)),
        ("BTC", "held", ()),
        ("ETH", "held", ()),
        ("BTC", "failed", ()),
    )
    none, first, second, third, fourth, fifth = steps
    assert none is None and first is not None and (first.began_at, first.troubled) == (60_000, ("BTC",))
    assert second is not None and second.counts == {"failed": 1, "degraded": 1} and second.missing == ("features",)
    assert third is not None and (third.troubled, third.ended_at) == (("ETH",), 0)
    assert fourth is not None and (fourth.ended_at, fourth.touched) == (240_000, ("BTC", "ETH"))
    assert fifth is not None and fifth.began_at == 300_000


def test_a_long_one_tells_its_first_failures_and_counts_them_all() -> None:
    trouble = None
    for number in range(100):
        trouble = add_failure(trouble, "lessons", at=number, state="rejected", words=f"w{number}")
    assert trouble is not None and trouble.counts == {"rejected": 100} and len(trouble.said) == MAX_MESSAGES_KEPT
    assert trouble.said[0] == "w0" and end_outage(trouble, at=7).ended_at == 7
    assert len(msgspec.json.encode(trouble)) < 500
