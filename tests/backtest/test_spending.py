"""Backtests that ask a model: what it may cost is known, limited and shown, and nothing is paid for twice."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tapebook
from tapebook.backtest import spending
from tapebook.backtest.home import backtest_homes
from tapebook.backtest.result import BacktestResult
from tapebook.backtest.spending import BacktestLedger, CostEstimate, SpendingTotals, spending_of
from tapebook.clock import VirtualClock
from tapebook.decision import EngineAnswer
from tapebook.decision.reply import make_answer
from tapebook.domain.packet import Packet
from tapebook.domain.run import Usage
from tapebook.domain.units import DAY
from tapebook.errors import BadInput, SpendLimit
from tapebook.llm import ModelResponse
from tapebook.settings.config import FILE
from tapebook.wiring import Rooms
from tests.backtest.bars import model_home
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, openai_chat, trading_chat

__all__ = ["offline", "one_server", "server"]

HOURS = 12
# 1,000 tokens at $5 and 100 at $25 a million: what the server says each answer used.
ANSWER_USD = 0.0075
ENOUGH = 10.0


@pytest.fixture
def home(tmp_path: Path, server: ModelServer) -> Path:
    """Half a day of hours, an agent that asks the server, and one that follows rules."""
    server.says(trading_chat)
    return model_home(tmp_path, server.url, hours=HOURS)


def asked(home: Path, *, max_usd: float | None = ENOUGH, **wish: Any) -> BacktestResult:
    with tapebook.open(home) as book:
        return book.backtest("tester", max_usd=max_usd, **({"chunks": "none", "memory": "off"} | wish))


def listening(heard: list[CostEstimate], *, agrees: bool) -> Callable[[CostEstimate], bool]:
    def agree(estimate: CostEstimate) -> bool:
        heard.append(estimate)
        return agrees

    return agree


def shown(home: Path, backtest: str) -> dict[str, Any]:
    with tapebook.open(home) as book:
        return dict(book.backtests.show(backtest))


def test_it_trades_and_says_what_was_spent(home: Path, server: ModelServer) -> None:
    result = asked(home)
    assert result.total.ticks == len(server.seen) == HOURS and result.total.trades >= 4
    spent = {"calls": HOURS, "input_tokens": 1000 * HOURS, "output_tokens": 100 * HOURS, "usd": ANSWER_USD * HOURS}
    assert shown(home, result.id)["spent"] == spent | {"reused_answers": 0, "saved_usd": 0.0}
    with tapebook.open(home) as book:
        assert "  models    0.09 USD for 12 calls, 12,000 tokens in, 1,200 out" in book.backtests.lines(result.id)
        page = home / "page.html"
        book.backtests.export(result.id, html=page)
    assert "<span>models</span><b>0.09</b><small>USD for 12 calls, 12,000 tokens in" in page.read_text()


def test_the_estimate_comes_first_and_nothing_is_asked_without_a_limit(home: Path, server: ModelServer) -> None:
    heard: list[CostEstimate] = []
    with tapebook.open(home) as book:
        with pytest.raises(BadInput, match=r"some-model may be asked 12 times: at most .* USD: say with `max_usd=`"):
            book.backtest("tester", chunks="none", memory="off", agree=listening(heard, agrees=False))
        assert not server.seen and not (home / "backtests").exists()
        (estimate,) = heard
        assert (estimate.models, estimate.calls, estimate.usual_usd_e6) == (("some-model",), HOURS, None)
        # 400 tokens out at $25 a million, and a prompt that is longer than what the first packet really has.
        assert estimate.output_tokens == 400 * HOURS
        assert estimate.most_usd_e6 == HOURS * (estimate.input_tokens // HOURS * 5 + 400 * 25)
        book.backtest("tester", chunks="none", memory="off", agree=lambda told: True)
    sent = max(len(str(seen.body["messages"])) for seen in server.seen)
    assert sent // 2 < estimate.input_tokens // HOURS < 3 * sent


def test_rules_cost_nothing_and_are_asked_nothing(home: Path, server: ModelServer) -> None:
    with tapebook.open(home) as book:
        book.add_agent("ruled", {"watch": "BTC", "engine": "trend", "every_minutes": "60"})
        result = book.backtest("ruled", chunks="none", agree=lambda told: pytest.fail("it costs nothing"))
        assert book.backtests.show(result.id)["spent"] is None
    assert not (home / "backtests" / "answers.db").exists() and not server.seen


def test_a_model_of_ones_own_needs_no_limit(home: Path, server: ModelServer) -> None:
    with (home / FILE).open("a") as file:
        file.write("input_usd_per_mtok = 0\noutput_usd_per_mtok = 0\n")
    result = asked(home, max_usd=None)
    assert shown(home, result.id)["spent"]["calls"] == len(server.seen) == HOURS


def test_no_question_is_estimated_above_the_cap_of_a_run(home: Path, server: ModelServer) -> None:
    """The longest prompt may be too dear to be asked where a shorter one is not."""
    with (home / FILE).open("a") as file:
        file.write("input_usd_per_mtok = 1000\n")
    with pytest.raises(BadInput, match=r"may be asked 12 times: at most .* out, 6\.00 USD: say with `max_usd=`"):
        asked(home, max_usd=None)
    result = asked(home)
    assert not server.seen and shown(home, result.id)["spent"] is None
    with tapebook.open(home / "backtests" / result.id) as book:
        assert {(run["error"] or "")[:15] for run in book.runs("tester", most=50)} == {"R11_MODEL_SPEND"}


def test_it_stops_at_the_limit_and_goes_on_when_raised(tmp_path: Path, server: ModelServer) -> None:
    server.says(trading_chat)
    whole, home = (
        model_home(tmp_path / name, server.url, hours=HOURS // 2, symbols=("BTC", "ETH")) for name in ("whole", "parts")
    )
    expected = asked(whole)
    calls = len(server.seen)
    for limit in (0.05, 0.05, 0.08):
        says = r"has spent 0\.\d+ of 0\.0[58]00 USD and its next question may cost 0\.0\d+: what was paid for is kept"
        with pytest.raises(SpendLimit, match=says) as stop:
            asked(home, max_usd=limit)
        assert stop.value.exit_code == 4
        (backtest,) = backtest_homes(home)
        spent = spending_of(home, backtest.id)
        assert 0 < spent.cost_usd_e6 <= limit * 1e6
        with tapebook.open(home) as book:
            (row,) = book.backtests.all()
            assert row["status"] == "stopped at its limit, 0 of 1 chunks done" and row["stopped"] == str(stop.value)
            assert f"  stopped: {stop.value}" in book.backtests.lines(row["id"])
    heard: list[CostEstimate] = []
    with tapebook.open(home) as book:
        left = HOURS - spent.calls
        agree = listening(heard, agrees=False)
        result = book.backtest("tester", chunks="none", memory="off", max_usd=ENOUGH, agree=agree)
        # The rest is estimated by what its answers used so far, beside what was paid.
        assert (heard[0].calls, heard[0].spent_usd_e6) == (left, spent.cost_usd_e6)
        assert heard[0].usual_usd_e6 == left * round(ANSWER_USD * 1e6)
        assert book.backtests.all()[0]["status"] == "done" and book.backtests.show(result.id)["stopped"] is None
    assert len(server.seen) - calls == HOURS
    # Stopped three times, and once within a slot of two symbols, it ends with the bytes of one that was not.
    assert result == expected


def test_made_again_it_asks_nobody_and_has_the_same_bytes(home: Path, server: ModelServer) -> None:
    server.says(trading_chat, trading_chat, Said(404, {"error": {"message": "no"}}), trading_chat)
    result = asked(home)
    calls = len(server.seen)
    with tapebook.open(home / "backtests" / result.id) as book:
        assert [run["status"] for run in book.runs("tester", most=50)].count("failed") == 1
    with tapebook.open(home) as book:
        assert book.backtest_again("tester", chunks="none", memory="off").differs == ()
        assert len(server.seen) == calls
        # Removed and asked for once more, only what had failed is asked again.
        book.backtests.remove(result.id)
    again = asked(home)
    assert len(server.seen) - calls <= HOURS - 2 and again.total.ticks == HOURS


def test_two_backtests_share_their_answers(home: Path, server: ModelServer) -> None:
    first = asked(home)
    with tapebook.open(home) as book:
        book.edit_agent("tester", {"max_model_usd_per_day": "20"})
    second = asked(home, max_usd=0)
    assert second.id != first.id and len(server.seen) == HOURS
    assert second.total.packets_sha256 == first.total.packets_sha256
    spent = shown(home, second.id)["spent"]
    assert (spent["calls"], spent["usd"], spent["reused_answers"], spent["saved_usd"]) == (0, 0.0, HOURS, 0.09)
    with tapebook.open(home / "backtests" / second.id) as book:
        assert book.verify() == [] and book.replay().different == []
        (newest, *_) = book.runs("tester", most=1)
        run = book.run(newest["run_id"])
    nothing = {"model": "some-model", "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "attempts": 0}
    assert run["usage"] == nothing | {"reused": True} and '"action":"' in (run["reply"] or "")
    with tapebook.open(home) as book:
        assert book.backtest_again("tester", chunks="none", memory="off").differs == ()
    assert len(server.seen) == HOURS


def test_another_model_is_another_question(home: Path, server: ModelServer) -> None:
    asked(home)
    settings = (home / FILE).read_text()
    (home / FILE).write_text(settings.replace('"some-model"', '"other-model"'))
    asked(home)
    (home / FILE).write_text(settings.replace("max_tokens = 400", "max_tokens = 500"))
    asked(home)
    assert len(server.seen) == 3 * HOURS


def test_notes_of_a_model_are_limited_and_kept_too(tmp_path: Path, server: ModelServer) -> None:
    slots = '{"Entry timing":[],"Exit timing":[],"Sizing":[],"Symbol selection":[],"Regime":[]}'

    def say(seen: Any) -> Said:
        is_packet = "## Market" in seen.body["messages"][-1]["content"]
        return trading_chat(seen) if is_packet else Said(body=openai_chat(slots))

    server.says(say)
    reflects: dict[str, Any] = {"reflection": "per_n_trades", "reflection_trades": "2", "reflector": "openai"}
    home = model_home(tmp_path, server.url, hours=HOURS, **reflects)
    limit = 0.02
    for _ in range(40):
        try:
            result = asked(home, max_usd=limit, memory="on")
            break
        except SpendLimit:
            limit += 0.01
    notes = [seen for seen in server.seen if "## Market" not in seen.body["messages"][-1]["content"]]
    questions = [str(seen.body["messages"]) for seen in server.seen]
    assert len(notes) >= 2 and len(set(questions)) == len(questions) == HOURS + len(notes)
    with tapebook.open(home) as book:
        assert book.backtest_again("tester", chunks="none").differs == ()
    assert len(server.seen) == len(questions) and shown(home, result.id)["spent"]["calls"] == len(questions)


def test_a_day_of_the_profile_is_a_day_of_the_machine(home: Path, server: ModelServer) -> None:
    with tapebook.open(home) as book:
        book.edit_agent("tester", {"max_model_usd_per_day": "0.08"})
    says = r"the backtests of tester have spent 0\.0\d+ USD today, its profile allows 0\.0800 a day"
    with pytest.raises(SpendLimit, match=says):
        asked(home)
    calls, (backtest,) = len(server.seen), backtest_homes(home)
    assert 0 < calls < HOURS
    plan = backtest.plan()
    clock = VirtualClock(plan.end)
    with closing(BacktestLedger(home, plan, run_usd_e6=10**9, clock=clock)) as other:
        clock.advance(10**13 // DAY * DAY + 5)
        other.reserve_usd(70_000)
        other.record_response("q", ModelResponse("", Usage("m", 1, 1, 30_000, 1), "failed"))
        with pytest.raises(SpendLimit, match="run the same command tomorrow"):
            other.reserve_usd(70_000)
        clock.advance(clock.now() + DAY)
        other.reserve_usd(70_000)
        with pytest.raises(SpendLimit, match=r"may cost 0\.0900, and its profile allows 0\.0800 a day: raise"):
            other.reserve_usd(90_000)
        # One that failed is paid for, and asked again.
        assert other.find_response("q") is None and other.totals.cost_usd_e6 >= 30_000


def test_stopped_by_the_day_it_goes_on_the_next(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More may be spent in all than in a day, and no decision is made without its model."""
    server.says(trading_chat)
    home = model_home(tmp_path, server.url, hours=24, max_model_usd_per_day="0.08")
    clock = VirtualClock(2_000_000_000_000)
    monkeypatch.setattr(spending, "SystemClock", lambda: clock)
    for _ in range(24):
        try:
            result = asked(home)
            break
        except SpendLimit:
            clock.advance(clock.now() + DAY)
    with tapebook.open(home / "backtests" / result.id) as book:
        assert not [run for run in book.runs("tester", most=50) if run["error"]]
    assert len(server.seen) == 24 and spending_of(home, result.id).cost_usd_e6 == 2 * 90_000


def test_an_ensemble_asks_each_of_its_models_once(tmp_path: Path, server: ModelServer) -> None:
    server.says(trading_chat)
    members = "trend, openai:one, openai:two"
    home = model_home(tmp_path, server.url, hours=HOURS, engine="ensemble", members=members)
    heard: list[CostEstimate] = []
    with tapebook.open(home) as book:
        with pytest.raises(SpendLimit):
            book.backtest("tester", chunks="none", memory="off", max_usd=0.2, agree=listening(heard, agrees=False))
        assert (heard[0].models, heard[0].calls) == (("one", "two"), 2 * HOURS)
        result = book.backtest("tester", chunks="none", memory="off", max_usd=ENOUGH)
        assert len(server.seen) == book.backtests.spending(result.id).calls == 2 * HOURS
        assert book.backtest_again("tester", chunks="none", memory="off").differs == ()
    with tapebook.open(home / "backtests" / result.id) as book:
        runs = [book.run(run["run_id"]) for run in book.runs("tester", most=50)]
    assert sum(run["usage"]["cost_usd"] for run in runs if run["usage"]) == pytest.approx(2 * HOURS * ANSWER_USD)


def test_a_year_may_cost_its_limit_and_not_a_cap_for_each_day(tmp_path: Path, server: ModelServer) -> None:
    """What the market calls a day is no day of anybody's money."""
    server.says(trading_chat)
    home = model_home(tmp_path, server.url, hours=96, max_model_usd_per_day="0.06", every_minutes="360")
    with pytest.raises(SpendLimit, match="today"):
        asked(home)
    assert sum(ANSWER_USD for _ in server.seen) <= 0.06


def test_an_engine_that_spends_by_itself_has_one_day_for_all(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows before what an engine of one's own costs, or stops it; it fails where its day is spent."""
    home = model_home(tmp_path, server.url, hours=48, engine="trend", max_model_usd_per_day="1")

    class Own:
        identity = "own"

        def decide(self, packet: Packet) -> EngineAnswer:
            return msgspec.structs.replace(
                make_answer(packet, "hold", reason="wait"), usage=Usage("own", 1, 1, 300_000, 1)
            )

    monkeypatch.setattr(Rooms, "engine", lambda rooms, agent: Own())
    result = asked(home, max_usd=None)
    with tapebook.open(home / "backtests" / result.id) as book:
        errors = [run["error"] for run in book.runs("tester", most=100)][::-1]
    assert errors[:4] == [None] * 4
    assert all((each or "").startswith("R11_MODEL_SPEND: $1.20 spent") for each in errors[4:])


def test_what_a_limit_may_be(home: Path) -> None:
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match=r"`max_usd=` is .*: give the dollars that models may cost"):
            asked(home, max_usd=wrong)


def test_a_killed_process_loses_no_answer(home: Path, server: ModelServer) -> None:
    """An answer is on the disk before a decision is made of it: here the decisions are gone, and nothing else."""
    first = asked(home)
    shutil.rmtree(home / "backtests" / first.id)
    second = asked(home, max_usd=0)
    assert (second, len(server.seen)) == (first, HOURS)
    assert spending_of(home, first.id) == SpendingTotals(
        HOURS, 1000 * HOURS, 100 * HOURS, round(ANSWER_USD * HOURS * 1e6)
    )
