"""Raw payloads from the wire to the archive and back: what was recorded gives the same tape again."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tapebook.clock import ScaledClock, VirtualClock, elapsed_seconds
from tapebook.desk.verify import verify_home
from tapebook.domain.market import AssetContext, FundingRate, Liquidity, Mid, PredictedFunding
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput
from tapebook.history.transfer import export_stream, import_file
from tapebook.home import make_home
from tapebook.ingest.live import ingest_live
from tapebook.tape.registry import MACRO_CHANNELS, PREDICTION_CHANNELS
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tapebook.world.server import Faults
from tapebook.world.server.service import advance_in_real_time
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER

# Over the full hour, so that sources which ask once an hour do so twice.
START = BORN + 2 * HOUR - 3 * MINUTE
END = START + 7 * MINUTE
KINDS: tuple[Any, ...] = (Mid, Liquidity, AssetContext, FundingRate, PredictedFunding)


CHANNELS = (*PREDICTION_CHANNELS, *MACRO_CHANNELS)
REGISTERS = ("polymarket_events", "polymarket_markets", "polymarket_market_asset_links", "defillama_asset_subjects")


def home(folder: Path, *, raw: bool) -> Path:
    """A home that follows everything the world has, and records it or not."""
    make_home(folder)
    sources = 'sources = ["hyperliquid", "polymarket", "defillama"]'
    settings = f"{sources}\n[archive]\nraw = {str(raw).lower()}\n[hyperliquid]\nhistory_hours = 1\n"
    (folder / "tapebook.toml").write_text(settings)
    return folder


def recorded(folder: Path, *, raw: bool, seconds: float) -> Rooms:
    """A home after some minutes of a world that drops connections and sends frames twice, in disorder or broken."""
    faults = Faults(seed=5, window=(START, END), drop=1 / 30, duplicate=0.05, reorder=0.05, corrupt=0.02)

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=faults, history_ms=START - BORN)
        async with weather.served(server) as url:
            rooms = Rooms(home(folder, raw=raw), clock=ScaledClock(server.now, speed=60.0))
            moving = asyncio.create_task(
                advance_in_real_time(server, speed=60.0, monotonic=elapsed_seconds, sleep=asyncio.sleep, until=END)
            )
            with closing(rooms):
                await ingest_live(rooms, url=url, seconds=seconds, report=lambda progress: None)
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)

    asyncio.run(scene())
    return Rooms(folder, clock=VirtualClock(END + HOUR))


def everything(rooms: Rooms) -> dict[str, list[object]]:
    """All facts of the source, by symbol and kind."""
    found: dict[str, list[object]] = {}
    for symbol in rooms.tape.symbols():
        found[f"{symbol} bars"] = [*rooms.tape.candles(symbol, granularity_sec=60, since=0, view=View(FOREVER))]
        for kind in KINDS:
            found[f"{symbol} {kind.__name__}"] = rooms.tape.facts(kind, symbol, since=0, view=View(FOREVER))
        for channel in CHANNELS:
            found[f"{symbol} {channel}"] = [*rooms.tape.facts(channel, symbol, since=0, view=View(FOREVER))]
    for register in REGISTERS:
        # Before the hour and after it: a version of the second crawl must not be known by the time of the first.
        for moment in (END, START + 2 * MINUTE):
            known = rooms.tape.registry.records(register, view=View(moment)).items()
            found[f"{register} at {moment}"] = [(subject, record.values) for subject, record in known]
    return found


def test_a_recording_imported_into_a_new_home_gives_the_same_tape(tmp_path: Path) -> None:
    with closing(recorded(tmp_path / "one", raw=True, seconds=9.0)) as first:
        report = export_stream(
            first.tape,
            first.archive,
            first.clock,
            tmp_path / "stream.jsonl.gz",
            since=START - HOUR,
            until=END + HOUR,
            tape_db=first.tape_db,
        )
        assert report.lines > 500 and START <= report.first_at < report.last_at
        before = everything(first)
        for kind, least in (("immediate_markets", 10), ("capital_base", 30), ("polymarket_markets at", 100)):
            assert sum(len(rows) for name, rows in before.items() if kind in name) >= least, kind
        for kind, least in (("bars", 400), ("Mid", 300), ("Liquidity", 6), ("AssetContext", 30), ("FundingRate", 6)):
            assert sum(len(rows) for name, rows in before.items() if name.endswith(f" {kind}")) >= least, kind
    with closing(Rooms(home(tmp_path / "two", raw=False), clock=VirtualClock(END + HOUR))) as second:
        imported = import_file(
            second.tape,
            second.clock,
            "stream",
            tmp_path / "stream.jsonl.gz",
            skip_bad=True,
            config=second.config,
            sources=second.sources,
        )
        assert imported.rows_written > 1_000
        after = everything(second)
        assert second.tape.kind_of("polymarket/BTC") == "prediction_market"
        again = import_file(
            second.tape,
            second.clock,
            "stream",
            tmp_path / "stream.jsonl.gz",
            skip_bad=True,
            config=second.config,
            sources=second.sources,
        )
        assert again.rows_written == 0 and "rows of polymarket" in " ".join(imported.told.notes)
        assert not [*verify_home(second, tape=True, archive=False, progress=print, notice=print)]
    assert after.keys() == before.keys()
    different = {name: (len(after[name]), len(before[name])) for name in before if after[name] != before[name]}
    assert not different


def test_nothing_is_recorded_unless_it_is_asked_for(tmp_path: Path) -> None:
    with closing(recorded(tmp_path / "one", raw=False, seconds=2.0)) as rooms:
        assert rooms.tape.rows_written() > 100
        with pytest.raises(BadInput, match=r"no payloads were recorded from .* set `raw = true` in \[archive\]"):
            export_stream(rooms.tape, rooms.archive, rooms.clock, tmp_path / "out", since=START, tape_db=rooms.tape_db)
    assert not (tmp_path / "out").exists()
