"""The largest moves of real markets are believed at once: bar to bar, within a bar, and from one midpoint to the next.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest
from pyarrow import parquet

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import E8, SECOND, parse_instant
from tapebook.tape.quarantine import PriceRules, Quarantine
from tapebook.tape.store import MIGRATIONS, Tape

pytestmark = pytest.mark.outside


FILES = {
    "hyperliquid_1m_20_markets_2025-07-24.parquet": 60,
    "hyperliquid_5m_20_markets_2025-07-24.parquet": 300,
    "BTC_5m_2023.parquet": 300,
    "BTC_USD_H1_2020_2022.parquet": 3600,
    "ETH_USD_H1_2020_2022.parquet": 3600,
}


@pytest.fixture
def quarantine() -> Iterator[Quarantine]:
    """A quarantine beside an empty tape."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        yield Quarantine(PriceRules(), Tape(db, clock=VirtualClock(0)).stored_prices())


def _bars(file: str, length: int) -> dict[str, list[Candle]]:
    """The bars of each market in order."""
    rows = parquet.read_table(Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "candles" / file).to_pylist()
    found = []
    for row in rows:
        at = row.get("date", row.get("time"))
        moment = int(at.timestamp() * 1000) if hasattr(at, "timestamp") else parse_instant(str(at))
        opened, high, low, close = (round(float(row[name]) * E8) for name in ("open", "high", "low", "close"))
        name = f"{row.get('symbol', 'X')} {row.get('market', '')}"
        found.append(Candle(name, length, moment, opened, high, low, close, 1.0, 1.0, 1))
    found.sort(key=attrgetter("symbol", "bucket_ts"))
    return {symbol: list(bars) for symbol, bars in groupby(found, key=attrgetter("symbol"))}


@pytest.mark.parametrize("file", FILES)
def test_every_real_bar_is_believed(file: str, quarantine: Quarantine) -> None:
    for bars in _bars(file, FILES[file]).values():
        assert len(bars) > 10
        assert quarantine.split_believed(bars) == (bars, [])


@pytest.mark.parametrize("file", FILES)
def test_every_real_move_is_believed_if_it_took_five_seconds(file: str, quarantine: Quarantine) -> None:
    for symbol, bars in _bars(file, FILES[file]).items():
        prices = [price for bar in bars for price in (bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8)]
        mids = [Mid(symbol, bars[0].bucket_ts + place * 5 * SECOND, price) for place, price in enumerate(prices)]
        assert quarantine.split_believed(mids) == (mids, [])
