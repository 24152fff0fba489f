"""Backtests: the same bytes however they are run, nothing of the future, and one line for what cannot be."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tapebook
from tapebook.backtest.home import BacktestHome, backtest_homes
from tapebook.backtest.plan import BacktestChunk, BacktestPlan, split_range
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.run import BacktestCallbacks, BacktestRun
from tapebook.clock import SystemClock, VirtualClock
from tapebook.decision import Engine
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.domain.views import TradeView
from tapebook.errors import BadInput, Damaged
from tapebook.lessons import hash_lessons_text
from tapebook.log import Event, Stream
from tapebook.wiring import Rooms
from tests.backtest.bars import START, bars, fill_tape, make_home

DAYS = 10
SEED = 15
QUICK: dict[str, Any] = {"every_minutes": "15", "reflection_trades": "5"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days of quarter hours, in three weeks of the calendar."""
    return quarter_hours(tmp_path_factory.mktemp("backtest"))


@pytest.fixture(scope="module")
def result(home: Path) -> BacktestResult:
    return asked(home)


def quarter_hours(folder: Path, **settings: Any) -> Path:
    home = make_home(folder, days=0, **(QUICK | settings))
    fill_tape(home, list(bars("BTC", seed=SEED, days=DAYS, minutes=15)))
    return home


def asked(home: Path, **wish: Any) -> BacktestResult:
    with tapebook.open(home) as book:
        return book.backtest("tester", **({"chunks": "week"} | wish))


def kept(home: Path, result: BacktestResult) -> dict[str, bytes]:
    """Every file that must not depend on how it was made; a killed process may leave the other name of one behind."""
    folder = home / "backtests" / result.id
    found = [folder / "result.json", *sorted((folder / "chunks").glob("[!.]*"))]
    return {path.name: path.read_bytes() for path in found}


def events(home: Path, result: BacktestResult) -> list[Event]:
    rooms = Rooms(home / "backtests" / result.id, clock=SystemClock())
    found = list(rooms.log.events(Stream("local", "tester.paper")))
    rooms.close()
    return found


def test_it_trades_and_learns(home: Path, result: BacktestResult) -> None:
    assert [chunk.name for chunk in result.chunks] == ["2022-W52", "2023-W01", "2023-W02"]
    assert result.total.ticks == DAYS * 96 == sum(chunk.ticks for chunk in result.chunks)
    assert result.total.trades > DAYS and result.total.fees_usd_e6 > 0 and result.total.funding_usd_e6 != 0
    assert result.chunks[-1].situations > 0 and result.chunks[-1].lessons_hash
    assert [chunk.snapshots for chunk in result.chunks[-1:]] != [()]
    with tapebook.open(home / "backtests" / result.id) as book:
        assert book.verify() == []
        # Every eighth: all of them, of other backtests, are replayed where packets are what is tested.
        replayed = [book.replay(run["run_id"]) for run in book.runs("tester", most=10_000)[::-8]]
        assert len(replayed) == DAYS * 12 and not [each for each in replayed if each.different]
        trades = book.trades("tester", status="closed", most=1000)
        assert len(trades) == result.total.trades
        # Every trade joins a note, or was made before the first one.
        notes = {each["content_hash"] for each in book.lessons("tester", most=1000)}
        hashes = [each["entry_lessons_hash"] for each in trades]
        assert set(hashes) <= notes | {hash_lessons_text("")} and hashes[-1] == hash_lessons_text("")
        assert set(hashes) & notes
        (run, *_) = book.runs("tester", most=1)
        assert book.run(run["run_id"])["lessons_hash"] in notes


def test_made_again_it_is_the_same(home: Path, result: BacktestResult) -> None:
    before = kept(home, result)
    with tapebook.open(home) as book:
        assert book.backtest_again("tester", chunks="week").differs == ()
        # The first begins with nothing, the last with what the others left.
        for chunk in (result.chunks[0], result.chunks[-1]):
            assert book.backtest_again("tester", chunks="week", chunk=chunk.name).differs == ()
        with pytest.raises(BadInput, match=r"no chunk 'x'; chunks: 2022-W52"):
            book.backtest_again("tester", chunks="week", chunk="x")
    assert kept(home, result) == before and not list((home / ".again").iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"chunks": "quater"}, "there is no kind of chunks 'quater': choose quarter, month, week, none"),
        ({"memory": "of"}, "there is no memory 'of': it may be frozen, on, off (without what was learned), none"),
        ({"fill": "best"}, "there is no fill rule 'best': choose next_open, bar_close, worst"),
        ({"start": "soon"}, "'soon' is not a time: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"),
        ({"chunk": "week"}, "a backtest has no option 'chunk': choose from start, end, chunks, memory, freeze_at, "),
    ],
)
def test_an_option_that_is_none_is_one_line(home: Path, options: dict[str, Any], says: str) -> None:
    with tapebook.open(home) as book, pytest.raises(BadInput) as refused:
        book.backtest("tester", **options)
    assert str(refused.value).startswith(says) and "\n" not in str(refused.value)


def test_the_fast_path_is_the_plain_one(home: Path) -> None:
    """Rooms that remember nothing and read the tape row by row write the same log, to the last hash."""
    short = asked(home, chunks="none", end=START + 3 * DAY)
    plan = BacktestHome(home / "backtests" / short.id).plan()
    split = START + 3 * DAY // 2
    chunks = BacktestChunk("one", plan.start, split), BacktestChunk("two", split, plan.end)

    def plain(place: BacktestHome, plan: BacktestPlan, clock: VirtualClock, **_terms: Any) -> Rooms:
        return Rooms(place.folder, clock=clock)

    def made(name: str, **how: Any) -> list[ChunkResult]:
        config = Rooms(home, clock=SystemClock()).config
        place = BacktestHome.prepare(home, config, plan, folder=home / name / plan.id)
        run = BacktestRun(place, msgspec.structs.replace(plan, chunks=chunks), BacktestCallbacks(), **how)
        found = [run.run_chunk(chunk) for chunk in chunks]
        run.close()
        shutil.rmtree(home / name)
        return found

    fast = made(".fast")
    assert fast == made(".plain", open_rooms=plain)
    assert sum(chunk.trades for chunk in fast) == short.total.trades > 2


def test_killed_and_resumed_it_ends_the_same(home: Path, result: BacktestResult, tmp_path: Path) -> None:
    other = quarter_hours(tmp_path)
    command = [sys.executable, "-m", "tapebook", "backtest", "tester", "--chunks", "week", "--home", str(other)]
    kills = 0
    for moment in moments(other):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not moment():
            time.sleep(0.02)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert kills >= 2 and "2023-W02" in done.stdout
    assert kept(other, backtest_result(other)) == kept(home, result)


def moments(home: Path) -> Iterator[Any]:
    """When to kill: once some decisions are written, and again when the first and the second chunk are kept."""
    folder = home / "backtests"
    yield lambda: any(folder.glob("*/speed.json"))
    for count in (1, 2):
        yield lambda count=count: len(list(folder.glob("*/chunks/*.json"))) >= count


def backtest_result(home: Path) -> BacktestResult:
    found = backtest_homes(home)[0].result()
    assert found is not None
    return found


class Paid:
    """An engine whose answers cannot be had again for nothing."""

    identity = "paid"

    def __init__(self, engine: Engine) -> None:
        self.decide = engine.decide


def test_answers_that_cost_money_are_kept_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, engine, work, sizes = quarter_hours(tmp_path), Rooms.engine, BacktestRun.decide_slots, list[int]()

    def counted(run: BacktestRun, slots: range) -> None:
        sizes.append(len(slots))
        work(run, slots)

    monkeypatch.setattr(Rooms, "engine", lambda rooms, agent: Paid(engine(rooms, agent)))
    monkeypatch.setattr(BacktestRun, "decide_slots", counted)
    asked(home, chunks="none", start=START, end=START + DAY)
    assert sizes == [1] * 96


def test_what_comes_after_changes_nothing_before(home: Path, result: BacktestResult, tmp_path: Path) -> None:
    """Bars after a moment altered: weights, neighbours, lessons, packets and orders before it stay, byte for byte."""
    middle = START + DAYS * DAY // 2
    before = [bar for bar in bars("BTC", seed=SEED, days=DAYS, minutes=15) if bar.end <= middle]
    after = [
        msgspec.structs.replace(bar, **{name: getattr(bar, name) * 13 // 11 for name in PRICES}, volume_base=1.5)
        for bar in bars("BTC", seed=99, days=DAYS, minutes=15)
        if bar.end > middle
    ]
    other = make_home(tmp_path, days=0, **QUICK)
    fill_tape(other, before + after)
    ours, theirs = events(home, result), events(other, asked(other))
    same = [event for event in ours if event.known_at < middle + 2_000]
    assert len(same) > 400 and [event.kind for event in same].count("trade.closed") >= 5
    assert same == [event for event in theirs if event.known_at < middle + 2_000]
    assert ours != theirs


PRICES = ("open_e8", "high_e8", "low_e8", "close_e8")


def test_a_frozen_memory_reads_and_never_learns(home: Path) -> None:
    frozen = asked(home, memory="frozen", freeze_at=START + 8 * DAY)
    kinds = {event.kind for event in events(home, frozen) if event.known_at >= START + 8 * DAY}
    learned = {event.kind for event in events(home, frozen)} - kinds
    assert not {kind for kind in kinds if kind.split(".")[0] in ("note", "experience", "outcome", "layer", "snapshot")}
    assert learned, "before the freeze it did learn"
    assert frozen.chunks[1].situations == frozen.chunks[2].situations > 0
    assert frozen.chunks[1].lessons_hash == frozen.chunks[2].lessons_hash != ""


def test_without_memory_it_trades_as_one_that_has_none(home: Path, tmp_path: Path) -> None:
    """The same trades as an agent whose profile has memory switched off, and not a row of what is learned."""
    off = asked(home, memory="off")
    forgetful = quarter_hours(tmp_path, memory="false", reflection="off")
    assert trades(home, off) == trades(forgetful, asked(forgetful, memory="off"))
    assert off.total.situations == 0 and not off.total.lessons_hash
    kinds = {event.kind.split(".")[0] for event in events(home, off)}
    assert not kinds & {"note", "experience", "outcome", "layer"}


def test_rooms_decide_what_is_told_and_whether_anything_is_learned(home: Path) -> None:
    """Of an account, `off` leaves what it did and `none` nothing; a list leaves what was learned in its rooms."""
    found = {mode: asked(home, memory=mode) for mode in ("off", "none", "experience")}
    ids = {result.id for result in found.values()}
    assert len(ids | {asked(home).id}) == 4
    shown = {mode: sections_at_the_end(home, result) for mode, result in found.items()}
    assert shown["none"] == {"bars", "market", "portfolio"}
    assert shown["off"] - shown["none"] == {"last_decision", "recent_activity", "recent_trades"}
    assert shown["experience"] - shown["off"] == {"experience"}
    learned = {mode: result.total.situations for mode, result in found.items()}
    assert learned["experience"] > learned["off"] == learned["none"] == 0
    assert not found["experience"].total.lessons_hash, "whoever is told no lessons writes none"
    assert asked(home, memory=" Experience ").id == found["experience"].id


def sections_at_the_end(home: Path, result: BacktestResult) -> set[str]:
    """What the packets of the last day show of which sections."""
    found: set[str] = set()
    with tapebook.open(home / "backtests" / result.id) as book:
        for at in range(result.end - DAY, result.end, 2 * HOUR):
            found |= {section.name for section in book.context("tester", "BTC", as_of=at).sections}
    return found - {"open_positions"}


def trades(home: Path, result: BacktestResult) -> list[TradeView]:
    with tapebook.open(home / "backtests" / result.id) as book:
        return book.trades("tester", most=1000)


def test_opened_ten_times_it_is_unchanged(home: Path, result: BacktestResult) -> None:
    folder = home / "backtests" / result.id
    heads = set()
    for _ in range(10):
        with tapebook.open(folder) as book:
            heads.add(msgspec.json.encode([book.agent("tester"), book.lessons("tester")]))
    with tapebook.open(folder) as book:
        assert book.verify() == []
    assert len(heads) == 1 and events(home, result)[-1].hash == result.total.head_hash


def test_two_at_once_do_not_touch_each_other(home: Path, tmp_path: Path, result: BacktestResult) -> None:
    """And a second home gives the same bytes as the first."""
    other = quarter_hours(tmp_path)
    command = [sys.executable, "-m", "tapebook", "backtest", "tester", "--chunks", "week", "--home", str(other)]
    both = [subprocess.Popen([*command, "--memory", mode], stdout=subprocess.DEVNULL) for mode in ("on", "off")]
    assert [process.wait() for process in both] == [0, 0]
    made = [done for found in backtest_homes(other) if (done := found.result())]
    on, off = sorted(made, key=lambda done: done.memory == "off")
    assert kept(other, on) == kept(home, result) and kept(other, off) == kept(home, asked(home, memory="off"))


def test_the_same_command_twice_at_once_is_refused(home: Path, result: BacktestResult) -> None:
    from tapebook.home import exclusive_lock

    command = [sys.executable, "-m", "tapebook", "backtest", "tester", "--chunks", "week", "--home", str(home)]
    with exclusive_lock(home / "backtests" / result.id):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "is in use by process" in refused.stderr


def test_what_cannot_be(home: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"^the tape has no bars of BTC from 2024.*; it has BTC from 2023-01-01.*within$"
    ):
        asked(home, start="2024-01-01T00:00:00Z")
    with pytest.raises(
        BadInput, match=r"^a quarter is longer than the range .*\(10.0 days\): use `chunks=` month, week"
    ):
        asked(home, chunks="quarter")
    with pytest.raises(BadInput, match="swap `start=` and `end=`"):
        asked(home, start="2023-01-05T00:00:00Z", end="2023-01-02T00:00:00Z")
    with pytest.raises(BadInput, match=r"^there is no memory 'recall': it may be frozen, on, off .*, experience"):
        asked(home, memory="recall")
    with pytest.raises(BadInput, match="use it with `memory=` frozen"):
        asked(home, freeze_at=START)
    with tapebook.open(home) as book:
        book.edit_agent("btc-5m", {"horizon": "scalp"})
        with pytest.raises(BadInput, match=r"looks at bars of 1 minutes, but the tape has BTC only every 15m"):
            book.backtest("btc-5m", chunks="week")
    empty = make_home(tmp_path, days=0)
    with pytest.raises(BadInput, match="the tape has no bars of BTC: bring some with `tapebook import candles`"):
        asked(empty)


def test_a_gap_is_named_and_can_be_sat_out(tmp_path: Path) -> None:
    home = make_home(tmp_path, days=0, **QUICK)
    whole = list(bars("BTC", seed=1, days=4, minutes=15))
    hole = range(START + DAY, START + DAY + 5 * HOUR)
    fill_tape(home, [bar for bar in whole if bar.bucket_ts not in hole])
    said = r"^BTC has no bars from 2023-01-02T00:00:00.000Z to 2023-01-02T05:00:00.000Z \(gaps in all: 1\)"
    with pytest.raises(BadInput, match=said):
        asked(home, chunks="none")
    assert not (home / "backtests").exists()
    result = asked(home, chunks="none", gaps=True)
    assert result.total.ticks == 4 * 96 and any("gaps in the bars: 1" in note for note in result.notes)
    placed = [event.happened_at for event in events(home, result) if event.kind == "order.intended"]
    stale = range(hole.start + 30 * MINUTE, hole.stop)
    assert placed and not [at for at in placed if at in stale], "no order leaves on a price that old"


def test_a_damaged_checkpoint_is_named_and_made_again(home: Path, result: BacktestResult, tmp_path: Path) -> None:
    home = shutil.copytree(home, tmp_path / "home")
    before, folder = kept(home, result), home / "backtests" / result.id
    for damage in (b"", b'{"sha256": "0"}', before["2023-W01.json"].replace(b"ticks", b"sticks")):
        (folder / "result.json").unlink(missing_ok=True)
        (folder / "chunks" / "2023-W01.json").write_bytes(damage)
        with pytest.raises(
            Damaged, match=r"2023-W01.json is damaged .*: delete the file and run the same backtest again"
        ):
            asked(home)
    (folder / "chunks" / "2023-W01.json").unlink()
    assert kept(home, asked(home)) == before


def test_chunks_cover_the_range() -> None:
    found = split_range("month", START + 3 * DAY, START + 90 * DAY)
    assert [chunk.name for chunk in found] == ["2023-01", "2023-02", "2023-03"]
    assert found[0].start == START + 3 * DAY and found[-1].end == START + 90 * DAY
    assert all(one.end == two.start for one, two in itertools.pairwise(found))
    assert split_range("none", 5, 9)[0].name == "all"
