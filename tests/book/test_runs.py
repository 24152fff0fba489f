"""The identity of a run and the status it begins with."""

import pytest

from tapebook.book.events import decision_run_id, run_status
from tapebook.domain.run import RunStatus, Trigger, Verdict

ALLOWED, REFUSED = Verdict(True), Verdict(False, "R2_SYMBOL_NOT_ENABLED", "no")


def identity(
    stream: str = "local/btc-5m.paper",
    symbol: str = "BTC",
    scheduled_for: int = 1_780_000_000_000,
    trigger: Trigger = "schedule",
    branch: str = "main",
) -> str:
    """The id of a run."""
    return decision_run_id(stream, symbol, scheduled_for=scheduled_for, trigger=trigger, branch=branch)


def test_ids_never_change() -> None:
    assert identity() == identity() == "8c9988440562ac934471"


def test_every_part_makes_another_run() -> None:
    others = [
        identity(),
        identity(stream="other/btc-5m.paper"),
        identity(stream="local/btc-15m.paper"),
        identity(symbol="ETH"),
        identity(scheduled_for=1_780_000_300_000),
        identity(trigger="manual"),
        identity(trigger="shadow"),
        identity(trigger="backtest"),
        identity(branch="arm-b"),
    ]
    assert len(set(others)) == len(others)
    assert all(len(each) == 20 and each.isalnum() for each in others)


def test_parts_do_not_run_into_one_another() -> None:
    assert identity(stream="a/b", symbol="cBTC") != identity(stream="a/bc", symbol="BTC")


@pytest.mark.parametrize(
    ("verdicts", "orders", "error", "status"),
    [
        ([], 0, None, "held"),
        ([], 0, "not JSON", "rejected"),
        ([ALLOWED], 0, None, "held"),
        ([ALLOWED], 1, None, "placed"),
        ([REFUSED], 0, None, "rejected"),
        ([REFUSED, REFUSED], 0, None, "rejected"),
        ([ALLOWED, REFUSED], 0, None, "held"),
        ([ALLOWED, REFUSED], 1, None, "placed"),
        ([ALLOWED, ALLOWED], 2, None, "placed"),
        ([REFUSED], 0, "not JSON", "rejected"),
    ],
)
def test_status(verdicts: list[Verdict], orders: int, error: str | None, status: RunStatus) -> None:
    assert run_status(verdicts, orders=orders, error=error) == status
