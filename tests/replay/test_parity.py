"""Live is a backtest: the demo through its sockets and a backtest over the tape it left make the same packets, trades
and hashes, all of them.
"""

import shutil
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.desk.demo import MARKET_MS_PER_SECOND
from tapebook.home import DEMO_START
from tapebook.settings.config import FILE
from tests.replay.parity import assert_parity

SEED = 50
MINUTES_45 = 2.25
MINUTES_90 = 4.5
MINUTES_757 = 81.0
AGENTS = ("btc-5m", "alts-15m")


def end_of(seconds: float) -> int:
    """When a demo ends."""
    return DEMO_START + int(seconds * MARKET_MS_PER_SECOND)


def test_demo_through_sockets_is_a_backtest_over_its_tape(place: Path, shown: tuple[Path, app.DemoReport]) -> None:
    home = shutil.copytree(shown[0], place / "home")
    five, quarter = (assert_parity(home, agent, start=DEMO_START, end=end_of(MINUTES_90)) for agent in AGENTS)
    assert (five.decisions, quarter.decisions) == (2 * 18, 4 * 6)
    assert five.trades and quarter.trades and quarter.waited
    assert not five.unfinished and not quarter.unfinished


def test_decisions_that_wait_in_vain_are_the_same_too(place: Path) -> None:
    """A limit between two steps: whoever has waited so long decides there, and the packet names the minute."""
    home = place / "home"
    app.demo(home, seconds=0.0, seed=SEED)
    settings = (home / FILE).read_text("utf-8")
    (home / FILE).write_text(settings.replace("bar_wait_seconds = 6", "bar_wait_seconds = 3"), "utf-8")
    app.demo(home, seconds=MINUTES_45, seed=SEED)
    found = assert_parity(home, "alts-15m", start=DEMO_START, end=end_of(MINUTES_45))
    assert found.unfinished and found.unfinished <= found.waited


@pytest.mark.soak
@pytest.mark.parametrize("seed", [7, 42])
def test_more_than_a_day_of_the_demo(place: Path, seed: int) -> None:
    """Over midnight, with everything that is learned on the way."""
    home = place / "home"
    app.demo(home, seconds=MINUTES_757, seed=seed)
    for agent in AGENTS:
        found = assert_parity(home, agent, start=DEMO_START, end=end_of(MINUTES_757))
        assert found.trades > 5
