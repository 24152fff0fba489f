"""A backtest's id: another candle, another line of code, another model is another backtest, and the old one says so."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tapebook
from tapebook.api.backtests import BacktestView
from tapebook.backtest import identity
from tapebook.backtest.home import BacktestHome
from tapebook.backtest.identity import PlanFingerprints
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.planning import plan_for
from tapebook.backtest.result import BacktestResult
from tapebook.backtest.run import BacktestCallbacks, BacktestRun, open_backtest_rooms
from tapebook.clock import SystemClock, VirtualClock
from tapebook.decision import engines
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.errors import BadInput
from tapebook.history.importer import assumed_known_at
from tapebook.settings.config import FILE
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms
from tests.backtest.bars import START, bars, fill_tape, make_home

DAYS = 3
FIRST_BUILD = Path(__file__).with_name("first_build_plan.json")
FIRST_ID = "840e050ae48df1da2222"

PLUGIN = """
from tapebook.decision import EngineTerms
from tapebook.decision.engines import trend

class Mine:
    identity = ""
    def decide(self, packet):
        return trend.create(EngineTerms()).decide(packet)

def create(terms):
    return Mine()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three days of quarter hours."""
    home = make_home(tmp_path, days=0, every_minutes="15", reflection_trades="5")
    fill_tape(home, list(bars("BTC", seed=1, days=DAYS, minutes=15)))
    return home


def asked(home: Path, **wish: Any) -> BacktestResult:
    with tapebook.open(home) as book:
        return book.backtest("tester", **({"chunks": "none", "memory": "off"} | wish))


def listed(home: Path) -> dict[str, BacktestView]:
    with tapebook.open(home) as book:
        return {row["id"]: row for row in book.backtests.all()}


def imports(home: Path, *rows: Candle) -> None:
    with closing(Rooms(home, clock=SystemClock())) as rooms:
        rooms.tape.commit(rows, assumed=assumed_known_at)


def set_to(home: Path, line: str, other: str) -> None:
    """Changes a line of the settings."""
    path = home / FILE
    text = path.read_text("utf-8")
    assert line in text
    path.write_text(text.replace(line, other), "utf-8")


def planned(home: Path, **wish: Any) -> BacktestPlan:
    with closing(Rooms(home, clock=SystemClock())) as rooms:
        return plan_for(rooms, deploy_agent(rooms.book, rooms.clock, "tester"), {"chunks": "none", **wish})


def a_bar(at: int, price: int) -> Candle:
    e8 = price * 10**8
    return Candle("BTC", 900, at, e8, e8, e8, e8, 1.0, 1.0, 1)


def test_one_other_candle_is_another_backtest(home: Path) -> None:
    first = asked(home)
    assert listed(home)[first.id]["stale"] == [] and asked(home).id == first.id
    # One bar of the second day, corrected afterwards.
    imports(home, a_bar(START + DAY + HOUR, 20_100))
    assert listed(home)[first.id]["stale"] == ["data"]
    with tapebook.open(home) as book:
        lines, view = book.backtests.lines(first.id), book.backtests.show(first.id)
        compared = book.backtests.compare(first.id, first.id)
    again = "run `tapebook backtest tester` again for a current result"
    assert lines[0] == f"STALE: made with other data than now; {again}"
    assert view["stale"] == ["data"] and view["status"] == "done"
    assert compared.lines()[0].startswith(f"STALE: {first.id} was made with other data")
    second = asked(home)
    assert second.id != first.id and second.inputs and first.inputs
    assert second.inputs.data_sha256 != first.inputs.data_sha256
    assert second.inputs.code_sha256 == first.inputs.code_sha256
    now = listed(home)
    assert now[first.id]["stale"] == ["data"] and now[second.id]["stale"] == []


def test_the_page_of_a_stale_backtest_says_so(home: Path, tmp_path: Path) -> None:
    made = asked(home)
    pages = []
    for name in ("current.html", "stale.html"):
        with tapebook.open(home) as book:
            book.backtests.export(made.id, html=tmp_path / name)
        pages.append((tmp_path / name).read_text("utf-8"))
        imports(home, a_bar(START + DAY + HOUR, 20_100))
    assert ["Stale:" in page for page in pages] == [False, True]
    assert all("Fill next_open: on bars alone, orders filled at the open" in page for page in pages)


def test_what_a_plan_cannot_read_changes_nothing(home: Path) -> None:
    """Another symbol, what comes after the end, and what was long before the beginning."""
    end = START + 2 * DAY
    first = asked(home, start=START, end=end)
    other = [replace(bar, symbol="ETH") for bar in bars("BTC", seed=2, days=1, minutes=15)]
    imports(home, *other, a_bar(end + HOUR, 1), a_bar(START - 2 * identity.LOOK_BACK, 1))
    assert listed(home)[first.id]["stale"] == []
    assert asked(home, start=START, end=end) == first and len(listed(home)) == 1
    # The bar before the first decision is seen by it.
    imports(home, a_bar(START - 15 * MINUTE, 20_000))
    assert listed(home)[first.id]["stale"] == ["data"]


def test_one_begun_before_an_import_of_something_else_is_gone_on_with(home: Path) -> None:
    """The rows are the same, so it is the same backtest, and it reads the tape as far as it did at first."""
    plan = planned(home)
    with closing(Rooms(home, clock=SystemClock())) as rooms:
        BacktestHome.prepare(home, rooms.config, plan)
    imports(home, *[replace(bar, symbol="ETH") for bar in bars("BTC", seed=2, days=1, minutes=15)])
    later = planned(home)
    assert later.id == plan.id and later.tape_seq > plan.tape_seq
    assert asked(home, memory="on").id == plan.id
    with tapebook.open(home) as book:
        assert book.backtest_again("tester", chunks="none", memory="on").differs == ()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An engine of somebody else's, outside of the package."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "mine.py").write_text(PLUGIN)
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(folder)])
    yield folder / "mine.py"
    sys.modules.pop("tapebook.decision.engines.mine", None)


@pytest.mark.parametrize("settings", [{"engine": "mine", "members": ""}, {"members": "trend, mine"}])
def test_another_line_of_an_engine_is_another_backtest(plugin: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    home = make_home(tmp_path, days=0, every_minutes="15", **settings)
    fill_tape(home, list(bars("BTC", seed=1, days=1, minutes=15)))
    first = asked(home)
    plugin.write_text(PLUGIN.replace("trend", "reversion"))
    assert listed(home)[first.id]["stale"] == ["code"]
    assert planned(home, memory="off").id != first.id
    plugin.unlink()
    assert listed(home)[first.id]["stale"] == ["code"]


def test_another_line_of_the_package_is_another_backtest(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked(home)
    copied = tmp_path / "copy"
    shutil.copytree(identity._PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(identity, "_PACKAGE", copied)
    # Its modules are outside of the copy now, so only the package's digest is looked at.
    monkeypatch.setattr(identity, "_files_outside", lambda folder, name: [])
    before = identity.package_sha256()
    for place, counts in (("surfaces/cli/backtests.py", False), ("decision/engines/trend.py", True)):
        (copied / place).write_text((copied / place).read_text() + "\n# one more line\n")
        identity.package_sha256.cache_clear()
        assert (identity.package_sha256() != before) == counts
    assert listed(home)[first.id]["stale"] == ["code"]
    assert planned(home, memory="off").id != first.id
    identity.package_sha256.cache_clear()


def test_other_costs_are_another_backtest(home: Path) -> None:
    first = asked(home)
    set_to(home, "taker_fee_bps = 4.5", "taker_fee_bps = 4.6")
    assert listed(home)[first.id]["stale"] == ["settings"]
    assert planned(home, memory="off").id != first.id


def test_what_does_not_decide_is_no_other_backtest(home: Path) -> None:
    first = asked(home)
    set_to(home, 'openai_model = "gpt-6-sol"', 'openai_model = "other"')
    set_to(home, "sync_minutes = 5", "sync_minutes = 6")
    assert listed(home)[first.id]["stale"] == [] and planned(home, memory="off").id == first.id


@pytest.mark.parametrize(
    ("line", "other"),
    [('openai_model = "gpt-6-sol"', 'openai_model = "other"'), ("max_tokens = 8000", "max_tokens = 9000")],
)
def test_another_model_is_another_backtest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, other: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    home = make_home(tmp_path, days=1, engine="openai", members="")
    plan = planned(home)
    assert plan.inputs is not None and "gpt-6-sol" in plan.inputs.model
    set_to(home, line, other)
    assert planned(home).id != plan.id
    with closing(Rooms(home, clock=SystemClock())) as rooms:
        assert PlanFingerprints(rooms.tape, rooms.config, rooms.engine).changed_inputs(plan) == ("settings",)


def test_the_fill_rule_is_part_of_a_backtest(home: Path) -> None:
    made = {fill: asked(home, fill=fill) for fill in ("next_open", "bar_close", "worst")}
    assert len({result.id for result in made.values()}) == 3
    assert asked(home).id == made["next_open"].id
    assert {fill: result.fill for fill, result in made.items()} == {fill: fill for fill in made}
    rows = listed(home)
    assert {rows[result.id]["fill"] for result in made.values()} == set(made)
    # Every backtest keeps its own rule, whatever the home's is by now.
    set_to(home, 'fill = "next_open"', 'fill = "worst"')
    assert asked(home).id == made["worst"].id and all(not row["stale"] for row in listed(home).values())
    with tapebook.open(home) as book:
        lines = book.backtests.lines(made["worst"].id)
        assert book.backtests.show(made["bar_close"].id)["fill"] == "bar_close"
    assert lines[2].startswith("  fill worst: on bars alone, orders filled at the worst price of the bar")
    assert made["worst"].total.net_usd_e6 < made["next_open"].total.net_usd_e6
    with pytest.raises(BadInput, match="there is no fill rule 'x': choose next_open, bar_close, worst"):
        asked(home, fill="x")


def first_build(home: Path) -> BacktestHome:
    """A backtest that the first build had begun: its plan and settings knew nothing of fills and inputs."""
    folder = home / "backtests" / FIRST_ID
    folder.mkdir(parents=True)
    shutil.copy(FIRST_BUILD, folder / "plan.json")
    text = (home / FILE).read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("fill =")]
    (folder / FILE).write_text("\n".join(lines).replace('"tape.db"', '"../../tape.db"'), "utf-8")
    return BacktestHome(folder)


def test_a_plan_of_the_first_build_keeps_its_id_and_its_rule(home: Path) -> None:
    old = first_build(home)
    plan = old.plan()
    assert plan.id == FIRST_ID and (plan.fill, plan.inputs) == ("bar_close", None)
    # Its id is still what the first build took it over.
    assert replace(plan, stored_id="").id == FIRST_ID
    row = listed(home)[FIRST_ID]
    assert (row["fill"], row["stale"], row["status"]) == ("bar_close", ["code"], "0 of 1 chunks done")
    with closing(open_backtest_rooms(old, plan, VirtualClock(plan.start))) as rooms:
        assert rooms.config.paper.fill == "bar_close"


def test_a_backtest_of_the_first_build_ends_as_it_would_have(home: Path) -> None:
    """Orders fill at the end of a bar, and the result has the id of its folder."""
    start = 1_675_209_600_000
    fill_tape(home, list(bars("BTC", seed=1, days=2, start=start - DAY, minutes=5)))
    old = first_build(home)
    plan = old.plan()
    chunk = replace(plan.chunks[0], end=start + DAY)
    short = replace(plan, end=chunk.end, chunks=(chunk,), tape_seq=10)
    with closing(BacktestRun(old, short, BacktestCallbacks())) as run:
        result = run.run_to_end()
    assert (result.id, result.fill) == (FIRST_ID, "bar_close")
    with tapebook.open(old.folder) as book:
        times = [trade["entry_tick_at"] for trade in book.trades("tester", most=100)]
    assert times and all(text.endswith(":00Z") or text.endswith(":00.000Z") for text in times)
