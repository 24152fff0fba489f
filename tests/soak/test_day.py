"""A day of ingestion in virtual time: memory and file stay as large as what is kept, and nothing said changes."""

import asyncio
import json
from pathlib import Path

import msgspec
import psutil
import pytest

from tapebook.clock import elapsed_seconds
from tapebook.domain.units import HOUR, MINUTE
from tapebook.world.server import Faults
from tests.db.places import sql
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER, SYMBOLS

pytestmark = pytest.mark.soak

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "day.json"
START = BORN + 2 * HOUR
HOURS = 24
KEPT_HOURS = 6
# By then everything that leaves has begun to leave.
SETTLED_HOUR = 9
# In 15 hours. The world in this process remembers its bars (0.3 MB an hour), and the reads below load archived rows.
MOST_GROWTH_BYTES = 15_000_000
# Market rows stay within their budget, table by table; a line per archived chunk stays for ever.
MOST_FILE_GROWTH_BYTES = 1_000_000
MOST_WAL_BYTES = 60_000_000

# Rows of a symbol per bucket, the buckets that may be there beyond what is kept (an hour between two tidyings and a
# chunk of twenty), and the bucket: features come between their five minutes too, so every minute is counted.
TABLES = {
    "hyperliquid_mid_prices": (1, 0.5, 5_000),
    "hyperliquid_candles": (1, KEPT_HOURS, MINUTE),
    "hyperliquid_asset_contexts": (1, KEPT_HOURS, MINUTE),
    "hyperliquid_predicted_fundings": (3, KEPT_HOURS, MINUTE),
    "hyperliquid_liquidity_profiles": (1, KEPT_HOURS, 5 * MINUTE),
    "hyperliquid_volatility_profiles": (1, KEPT_HOURS, MINUTE),
    "hyperliquid_funding_pressure": (1, KEPT_HOURS, MINUTE),
    "hyperliquid_positioning_pressure": (1, KEPT_HOURS, MINUTE),
}


class Hour(msgspec.Struct, frozen=True):
    """How large things are at the end of an hour, and the seconds it took."""

    hour: int
    rss_bytes: int
    file_bytes: int
    wal_bytes: int
    seconds: float


class Day:
    """A home that ingests for a day."""

    def __init__(self, folder: Path) -> None:
        kept = {"candles_hours": KEPT_HOURS, "features_hours": KEPT_HOURS}
        self.home = weather.make_home(folder / "home", **kept)
        self.hours: list[Hour] = []
        self.seen: dict[int, str] = {}
        self._began = elapsed_seconds()
        asyncio.run(self._scene())

    async def _scene(self) -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url, weather.listening(self.home, server, url) as listener:

            def each_hour(at: int) -> None:
                if at > START and (at - START) % HOUR == 5 * MINUTE:
                    self._measure((at - START) // HOUR)
                    known_at = listener.rooms.tape.head()[1]
                    self.seen[known_at] = weather.digest(listener.rooms.tape, as_of=known_at)

            await listener.play(START + HOURS * HOUR + 5 * MINUTE, after_step=each_hour)
            self.problems = listener.source.health().problems

    def _measure(self, hour: int) -> None:
        file, wal = ((self.home / name).stat().st_size for name in ("tape.db", "tape.db-wal"))
        now = elapsed_seconds()
        self.hours.append(Hour(hour, psutil.Process().memory_info().rss, file, wal, round(now - self._began, 2)))
        self._began = now


def test_a_day_keeps_memory_and_file_in_bounds(tmp_path: Path) -> None:
    day = Day(tmp_path)
    settled, last = day.hours[SETTLED_HOUR], day.hours[-1]
    with weather.opened(day.home) as rooms:
        rows = {table: rooms.tape_db.all(sql(f"SELECT COUNT(*) FROM {table}"))[0][0] for table in TABLES}
        changed = [at for at, before in day.seen.items() if weather.digest(rooms.tape, as_of=at) != before]
        written = {channel.name: channel.rows for channel in rooms.tape.channels()}
        gaps = rooms.tape.gaps(as_of=FOREVER)
        commits = rooms.tape.head()[0]
    figures = {
        "hours": [msgspec.to_builtins(hour) for hour in day.hours],
        "rss_growth_bytes_after_hour_9": last.rss_bytes - settled.rss_bytes,
        "file_bytes_at_hour_9": settled.file_bytes,
        "file_bytes_at_the_end": last.file_bytes,
        "commits": commits,
        "rows_written": written,
        "rows_in_the_tape_at_the_end": rows,
        "as_of_reads_compared": len(day.seen),
        "as_of_reads_changed": len(changed),
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", "utf-8")
    assert not day.problems and not gaps and not changed
    assert last.rss_bytes - settled.rss_bytes < MOST_GROWTH_BYTES
    assert last.file_bytes - settled.file_bytes < MOST_FILE_GROWTH_BYTES
    assert max(hour.wal_bytes for hour in day.hours) < MOST_WAL_BYTES
    for table, (per_bucket, kept_hours, step) in TABLES.items():
        buckets = (kept_hours + 1) * HOUR / step + 20 + 5 * MINUTE / step
        assert rows[table] <= len(SYMBOLS) * per_bucket * buckets + 200, table
