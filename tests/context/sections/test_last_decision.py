"""Last decision: what was proposed and what the guard said, as written at the decision."""

import msgspec
import pytest

from tapebook.context import market_sections
from tapebook.domain.order import OrderOutcome
from tapebook.domain.packet import Section
from tapebook.domain.run import DecisionRun, RunStatus, Verdict
from tests.context.situations import action, run, situation

REFUSED = Verdict(False, "R3_POSITION_CAP", "position of $9.00 exceeds $5.00")


def section_of(last_run: DecisionRun | None) -> Section | None:
    """The section after a run."""
    return market_sections.LAST_DECISION_SECTION.section(situation(last_run=last_run))


def test_allowed_and_refused_actions() -> None:
    section = section_of(run((action(), REFUSED), (action("hold"), Verdict(True))))
    assert section is not None
    assert section.rows == (
        ("at", "2026-06-04T12:25"),
        ("open BTC long", 'refused by R3_POSITION_CAP: "position of $9.00 exceeds $5.00"; reason: "breakout"'),
        ("hold BTC", 'allowed; reason: "breakout"'),
    )


def test_symbol_that_a_model_made_up_is_not_repeated() -> None:
    made_up = action(symbol="BTC: allowed")
    section = section_of(run((made_up, Verdict(False, "R2_SYMBOL_NOT_ENABLED", "no"))))
    assert section is not None
    assert section.rows[1][0] == "open another symbol long"


def test_reply_that_was_not_understood() -> None:
    section = section_of(run(error="x" * 300))
    assert section is not None
    assert section.rows == (("at", "2026-06-04T12:25"), ("refused, no readable reply", f'"{"x" * 99}…"'))


def test_no_run_yet_is_no_section() -> None:
    assert section_of(None) is None


def test_what_became_of_the_run_later_is_not_shown() -> None:
    decided = run((action(), Verdict(True)))
    statuses: tuple[RunStatus, ...] = ("placed", "done", "expired")
    shown = [section_of(msgspec.structs.replace(decided, status=status)) for status in statuses]
    assert shown[0] == shown[1] == shown[2]


def test_reason_is_capped() -> None:
    section = section_of(run((action(reason="y" * 240), Verdict(True))))
    assert section is not None
    assert section.rows[1][1] == f'allowed; reason: "{"y" * 79}…"'


OUTCOMES: list[tuple[OrderOutcome, str]] = [
    (OrderOutcome("BTC", "intended"), "allowed, intended"),
    (OrderOutcome("BTC", "working"), "allowed, working"),
    (OrderOutcome("BTC", "filled"), "allowed, filled"),
    (OrderOutcome("BTC", "cancelled", "no price"), 'allowed, then cancelled: "no price"'),
    (OrderOutcome("BTC", "rejected", "insufficient margin"), 'refused by the broker: "insufficient margin"'),
    (
        OrderOutcome("BTC", "rejected", "R7_STALE_DATA at send: the price is 90 s old"),
        'refused at send by R7_STALE_DATA: "the price is 90 s old"',
    ),
]


@pytest.mark.parametrize(("outcome", "said"), OUTCOMES)
def test_what_became_of_the_order_is_said(outcome: OrderOutcome, said: str) -> None:
    known = situation(last_run=run((action(), Verdict(True))), last_orders=(outcome,))
    section = market_sections.LAST_DECISION_SECTION.section(known)
    assert section is not None
    assert section.rows[1] == ("open BTC long", f'{said}; reason: "breakout"')


def test_engine_that_failed_gave_no_answer() -> None:
    section = section_of(msgspec.structs.replace(run(error="timed out"), status="failed"))
    assert section is not None
    assert section.rows[1] == ("no answer", '"timed out"')
