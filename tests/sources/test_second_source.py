"""A second source is a folder: found by its name in the settings, ingested, shown, and retired like the first.

Nothing in the package knows the source of `tests/sources/extra`: it is a folder on the path of `tapebook.sources`.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import tapebook.sources
from tapebook.clock import VirtualClock
from tapebook.desk.health import Check, health_checks
from tapebook.desk.verify import verify_home
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import FeatureRow, Mid
from tapebook.domain.units import DAY, HOUR, SECOND
from tapebook.errors import ConfigError, UnknownName
from tapebook.ingest.compaction import Compaction, retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.ingest.live import ingest_live
from tapebook.report.market import market_view
from tapebook.settings.config import as_toml, load_config
from tapebook.tape.source import SourceContext
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tests.db.places import sql

NOON = 1_767_571_200_000


def SILENT(words: str) -> None:
    """Says nothing."""


LINES = [
    {"subject": "aave", "kind": "protocol", "at": NOON - HOUR, "usd": "21000000000"},
    {"subject": "aave", "kind": "protocol", "at": NOON, "usd": "21500000000"},
    {"subject": "ethereum", "kind": "chain", "at": NOON, "usd": "60000000000"},
]


@pytest.fixture(autouse=True)
def extra_source(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder is on the path of the sources."""
    folder = Path(__file__).parent / "extra"
    monkeypatch.setattr(tapebook.sources, "__path__", [*tapebook.sources.__path__, str(folder)])
    yield
    sys.modules.pop("tapebook.sources.defi_totals", None)
    vars(tapebook.sources).pop("defi_totals", None)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two sources, and an agent that takes a protocol for a symbol."""
    file = tmp_path / "totals.jsonl"
    file.write_text("\n".join([*(msgspec.json.encode(line).decode() for line in LINES), "not a line"]), "utf-8")
    folder = tmp_path / "home"
    folder.mkdir()
    text = f'sources = ["hyperliquid", "defi_totals"]\n[defi_totals]\nfile = "{file}"\n[hyperliquid]\nspot = false\n'
    (folder / "tapebook.toml").write_text(text, "utf-8")
    return folder


def ingested(rooms: Rooms) -> Ingester:
    """What the second source has, committed."""
    intake = FactBuffer()
    ingester = Ingester(rooms, intake, keep=retention_by_channel(rooms.config))
    (adapter,) = [each for each in rooms.sources if each.name == "defi_totals"]
    context = SourceContext(intake, rooms.tape, rooms.clock.now, rooms.clock.seconds, rooms.clock.sleep)
    source = adapter.create(rooms.config.source_section("defi_totals"), context)
    asyncio.run(source.barrier(rooms.clock.now()))
    assert ingester.flush() is None
    return ingester


def of_name(rooms: Rooms, name: str) -> list[Check]:
    return [check for check in health_checks(rooms) if check.name == name]


def test_it_is_ingested_and_its_subjects_have_their_kind(home: Path) -> None:
    rooms = Rooms(home, clock=VirtualClock(NOON))
    ingested(rooms)
    rooms.tape.commit([Mid("BTC", NOON, 1)])
    assert rooms.tape.symbols() == ["BTC", "aave", "ethereum"]
    assert rooms.tape.symbols("protocol", "chain") == ["aave", "ethereum"] and rooms.tape.symbols("perp") == ["BTC"]
    view = View(NOON + 1)
    newest = rooms.tape.newest("value_locked", "aave", view=view)
    assert newest == FeatureRow("aave", NOON, '{"usd":"21500000000"}', "value_locked")
    assert market_view(rooms.tape, "aave", view=view) == {
        "symbol": "aave",
        "kind": "protocol",
        "asOf": "2026-01-05T00:00:00.001Z",
        "channels": {"value_locked": {"usd": "21500000000", "at": "2026-01-05T00:00:00.000Z", "ageSeconds": 0}},
        "gaps": [],
    }
    assert "channels" not in market_view(rooms.tape, "BTC", view=view)
    rooms.close()


def test_doctor_shows_its_channel_and_its_problems(home: Path) -> None:
    clock = VirtualClock(NOON)
    rooms = Rooms(home, clock=clock)
    ingested(rooms)
    rooms.book.save_agent(AgentProfile("watcher", ("aave",)), at=NOON)
    (channel,) = of_name(rooms, "channel value_locked")
    assert channel.ok and channel.detail.startswith("fresh: 3 rows")
    (problem,) = of_name(rooms, "problems")
    assert not problem.ok and problem.detail.endswith("; correct the line of the file")
    (watched,) = of_name(rooms, "watchlists")
    assert "watcher watches aave" in watched.detail, "a protocol is not what an agent can trade"
    clock.advance(NOON + 3 * HOUR + 1)
    (channel,) = of_name(rooms, "channel value_locked")
    assert not channel.ok and channel.detail.startswith("stale")
    rooms.close()


def test_its_rows_are_retired_and_read_back_and_the_tape_verifies(home: Path) -> None:
    clock = VirtualClock(NOON)
    rooms = Rooms(home, clock=clock)
    ingested(rooms)
    before = [rooms.tape.newest("value_locked", name, view=View(NOON + DAY)) for name in ("aave", "ethereum")]
    assert not list(verify_home(rooms, tape=True, archive=False, progress=SILENT, notice=SILENT))
    tidy = Compaction(rooms, keep=retention_by_channel(rooms.config))
    clock.advance(NOON + 30 * DAY)
    assert tidy.is_due()
    tidy.do_due_work(at_once=None)
    assert rooms.tape_db.all(sql("SELECT COUNT(*) FROM defi_totals_value_locked")) == [(0,)]
    after = [rooms.tape.newest("value_locked", name, view=View(NOON + DAY)) for name in ("aave", "ethereum")]
    assert after == before and None not in after
    assert not list(verify_home(rooms, tape=True, archive=False, progress=SILENT, notice=SILENT))
    rooms.close()


def test_sources_run_beside_each_other_and_one_without_a_connection_stops_none(home: Path) -> None:
    rooms = Rooms(home, clock=VirtualClock(NOON))
    problems: set[str | None] = set()
    rows: list[dict[str, int]] = []

    def report(progress: object) -> None:
        problems.add(getattr(progress, "problem", None))
        rows.append(getattr(progress, "rows", {}))

    asyncio.run(ingest_live(rooms, url="http://127.0.0.1:9", seconds=1.0, report=report))
    assert rows[-1] == {"value_locked": 3}
    assert any(problem and problem.startswith("no connection to the exchange") for problem in problems)
    rooms.close()


def test_a_source_that_is_taken_out_of_the_settings_leaves_its_rows(home: Path) -> None:
    rooms = Rooms(home, clock=VirtualClock(NOON))
    ingested(rooms)
    rooms.close()
    (home / "tapebook.toml").write_text("", "utf-8")
    rooms = Rooms(home, clock=VirtualClock(NOON + 5 * SECOND))
    (channel,) = of_name(rooms, "channel value_locked")
    assert channel.ok and channel.detail.endswith("no source of the settings delivers it any more")
    assert "value_locked" not in retention_by_channel(rooms.config)
    rooms.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('sources = ["defi_totals"]\n[defi_totals]\nfile = 3', "line 3: `file` in [defi_totals] is 3 but must be"),
        ('sources = ["defi_totals"]\n[defi_totals]\nfiel = "x"', "line 3: unknown key `fiel` in [defi_totals]"),
        ('sources = ["defi_total"]', "line 1: there is no 'defi_total' among the sources; choose one of: defi_totals"),
        ('[defi_totals]\nfile = "x"', "line 1: unknown section [defi_totals]"),
        ("sources = []", "line 1: `sources` is a list but must be"),
    ],
)
def test_its_section_is_checked_like_any_other(home: Path, text: str, said: str) -> None:
    (home / "tapebook.toml").write_text(text, "utf-8")
    with pytest.raises((ConfigError, UnknownName)) as refused:
        load_config(home)
    assert said in str(refused.value)


def test_its_settings_are_written_and_read_back(home: Path) -> None:
    config = load_config(home)
    (home / "tapebook.toml").write_text(as_toml(config), "utf-8")
    assert load_config(home) == config and config.sources == ("hyperliquid", "defi_totals")
