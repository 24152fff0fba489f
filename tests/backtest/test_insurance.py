"""Money that an insurance paid was lost all the same: the drawdown counts it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import tapebook
from tapebook.decision import engines
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E6, E8, HOUR, MINUTE
from tapebook.report.backtest import chunk_view, summary_lines
from tests.backtest.bars import START, fill_tape, make_home

# Opens five times what it puts in whenever it holds nothing.
GAMBLER = """
from tapebook.decision import EngineAnswer
from tests.desk.desks import reply

class Gambler:
    identity = ""
    def decide(self, packet):
        return EngineAnswer(reply("open", "long", 1_000, leverage=5))

def create(terms):
    return Gambler()
"""
STEP = 15 * MINUTE


@pytest.fixture
def gambler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose market falls by two fifths from one bar to the next, every day."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "gambler.py").write_text(GAMBLER)
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(folder)])
    home = make_home(tmp_path, days=0, engine="gambler", members="", every_minutes="15", margin="isolated")
    bars, price = [], 1_000.0
    for at in range(START, START + 3 * DAY, STEP):
        price *= 0.6 if at % DAY == 12 * HOUR else 1.0
        e8 = round(price * E8)
        bars.append(Candle("BTC", 900, at, e8, e8, e8, e8, 10.0, 200_000.0, 5))
    fill_tape(home, bars)
    yield home
    sys.modules.pop("tapebook.decision.engines.gambler", None)


def test_an_account_that_was_made_whole_did_lose_the_money(gambler: Path) -> None:
    with tapebook.open(gambler) as book:
        total = book.backtest("tester", chunks="none", memory="off").total
        result = book.backtest("tester", chunks="none", memory="off")
    # Three falls of 800 on 2,000, of which the margin is 400: half of what was lost the account never had to pay.
    assert total.trades == 3 and total.insurance_usd_e6 > 1_200 * E6
    kept = total.equity_start_usd_e6 - total.equity_end_usd_e6
    assert 1_200 * E6 < kept < 1_250 * E6 and kept + total.insurance_usd_e6 == total.drawdown_usd_e6
    assert chunk_view(total)["insurance_usd"] == total.insurance_usd_e6 / E6
    (line,) = [line for line in summary_lines(result) if "insured" in line]
    assert "USD of losses beyond the margin, which the drawdown counts" in line
    assert "insured" not in "".join(summary_lines(replace(result, total=replace(total, insurance_usd_e6=0))))
