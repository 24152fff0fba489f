"""Files: what is written is read back to the last digit, and a broken file is refused with one line."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.errors import BadInput
from tapebook.experience.events import SeenFeatures
from tapebook.experience.features import feature_vector_of
from tapebook.experience.files import ExperienceFolder, export_folder, read_folder
from tapebook.experience.records import ALL, Outcome, outcome_of, records_from_scratch, snapshot_of
from tests.experience.makers import T0, closed, memory_desk, run_of, sight, vote


def outcomes(n: int) -> list[Outcome]:
    found = []
    for number in range(1, n + 1):
        trade = closed(number, net_bps=1.2345 * number - 3, gross_bps=number, side="short" if number % 2 else "long")
        run = run_of(trade, engine="ensemble", votes=[vote("trend", "long"), vote("carry", None, "hold")])
        conditions = (("spread_bps", "0.5"), ("volatility_1h", "0.005"))
        found.append(outcome_of(trade, run if number % 3 else None, conditions=conditions))
    return found


def exported(folder: Path, n: int = 5) -> list[tuple[Outcome, SeenFeatures]]:
    """What was written: of every third nobody saw anything, one has a situation, one a moment."""
    rng, found = random.Random(1), outcomes(n)
    records = records_from_scratch(found)
    snapshots = [snapshot_of(name, {}, records, started_at=T0, ended_at=T0 + 1) for name in ("Q1", "Q2")]
    moment = (*range(17), None)
    seen = [SeenFeatures(), SeenFeatures(feature_vector_of(sight(rng))), SeenFeatures(None, moment)]
    pairs = [(each, seen[place % 3]) for place, each in enumerate(found)]
    export_folder(folder, pairs, snapshots, records=records)
    return pairs


def test_layout_is_one_file_per_outcome_and_the_summaries(tmp_path: Path) -> None:
    exported(tmp_path / "memory", 2)
    assert sorted(path.name for path in (tmp_path / "memory").iterdir()) == [
        "outcome_t1.json",
        "outcome_t2.json",
        "provider_performance.json",
        "regime_performance.json",
        "snapshot_20260105_000000.json",
        "snapshot_20260105_000000_2.json",
    ]
    one = json.loads((tmp_path / "memory" / "outcome_t1.json").read_text())
    assert (one["asset"], one["provider"], one["outcome"]) == ("BTC", "ensemble", "loss")
    assert (one["realized_pnl"], one["entry_price"]) == ("-0.176550", "100.00000000")
    snapshot = json.loads((tmp_path / "memory" / "snapshot_20260105_000000.json").read_text())
    assert (snapshot["chunk"], snapshot["started_at"]) == ("Q1", "2026-01-05T00:00:00.000Z")
    assert snapshot["providers"]["ensemble"]["trades"] == snapshot["result"]["trades"] == 2
    performance = json.loads((tmp_path / "memory" / "provider_performance.json").read_text())
    assert (performance["ensemble"]["total_trades"], performance["ensemble"]["winning_trades"]) == (2, 0)


def test_round_trip_loses_nothing(tmp_path: Path) -> None:
    found = exported(tmp_path / "memory", 12)
    contents = read_folder(tmp_path / "memory")
    assert contents.problems == ()
    assert list(contents.outcomes) == sorted(found, key=lambda each: each[0].exited_at)
    assert any(seen.reading and None in seen.reading for _, seen in found)
    assert [each.chunk for each in contents.snapshots] == ["Q1", "Q2"]
    (tmp_path / "before").mkdir()
    for number, each in enumerate(contents.snapshots):
        # Sums as lists, as files of before have them.
        (tmp_path / "before" / f"snapshot_{number}.json").write_bytes(msgspec.json.encode(each))
    assert read_folder(tmp_path / "before").snapshots == contents.snapshots
    assert contents.snapshots[0].result == records_from_scratch([each for each, _ in found])[ALL, ""]
    assert records_from_scratch([each for each, _ in contents.outcomes]) == records_from_scratch(
        [each for each, _ in found]
    )


def test_what_was_imported_is_learned_once(tmp_path: Path) -> None:
    found = exported(tmp_path / "memory", 9)
    with memory_desk() as desk:
        for _ in range(3):
            contents = read_folder(tmp_path / "memory")
            desk.append(desk.experience.learn_outcomes("d", contents.outcomes, seq=desk.seq))
            assert desk.experience.records("d", seq=desk.seq) == records_from_scratch([each for each, _ in found])
        assert desk.seq == 9
        assert desk.experience.records_as_of("d", seq=9).situations == 3
        assert [each.moment is not None for each in desk.experience.history("d", seq=9)] == [False, False, True] * 3


def changed(**new: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(new)


BREAKS: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (changed(outcome="win"), "says 'win' and a realized_pnl of"),
    (changed(trade_id="t9"), "which its name does not say"),
    (changed(trade_id="../t1"), "which its name does not say"),
    (changed(entry_price="abc"), "'abc' is not a number"),
    (changed(notional_usd="1e25"), "longer than 64 bits"),
    (changed(entry_price=100.5), "Expected `str`"),
    (changed(side="up"), "Invalid enum value"),
    (changed(extra=1), "unknown field"),
    (changed(exit_time="2020-01-01T00:00:00Z"), "ends before it begins"),
    (changed(exit_time="yesterday"), "is not a time"),
    (changed(decision_confidence="1.5"), "not between 0 and 1"),
    (changed(regime="a\nb"), "invisible characters"),
    (changed(regime="a\u202eb"), "invisible characters"),
    (changed(situation={"return_1h": 0.5}), "Expected `int"),
    (changed(situation={"return_1h": 40_000}), "beyond"),
    (changed(situation={"mood": 1}), "'mood' in situation is no field"),
    (changed(moment={"held": 1}), "'held' in moment is no field"),
    (lambda content: content.pop("asset"), "missing required field"),
]


@pytest.mark.parametrize(("break_it", "says"), BREAKS)
def test_broken_file_is_refused_with_one_line(tmp_path: Path, break_it: Any, says: str) -> None:
    found = exported(tmp_path / "memory", 3)
    path = tmp_path / "memory" / "outcome_t1.json"
    content = json.loads(path.read_text())
    break_it(content)
    path.write_text(json.dumps(content))
    contents = read_folder(tmp_path / "memory")
    assert [each.trade_id for each, _ in contents.outcomes] == ["t2", "t3"] and len(found) == 3
    (problem,) = contents.problems
    assert problem.startswith("outcome_t1.json: ")
    assert says in problem
    assert "\n" not in problem


@pytest.mark.parametrize("content", [b"", b"{", b"\x80\x04pickle", b"[]", b" " * 200_000])
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    exported(tmp_path / "memory", 1)
    for name in ("outcome_t1.json", "snapshot_20260105_000000.json"):
        (tmp_path / "memory" / name).write_bytes(content)
    contents = read_folder(tmp_path / "memory")
    assert (contents.outcomes, len(contents.snapshots), len(contents.problems)) == ((), 1, 2)


def test_folders_that_will_not_do_are_named(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(BadInput, match="not empty"):
        export_folder(tmp_path / "full", [], [], records={})
    with pytest.raises(BadInput, match="not a folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="no file name"):
        export_folder(
            tmp_path / "new", [(outcome_of(closed(1, net_bps=1, trade_id="a/b"), None), SeenFeatures())], [], records={}
        )


PAIR: dict[str, Any] = {
    **{
        "decision_id": "trade-001",
        "asset_pair": "BTCUSD",
        "action": "BUY",
        "entry_price": 50_000,
        "exit_price": 52_000,
    },
    **{"entry_timestamp": "2025-11-12T19:23:54.197462", "exit_timestamp": "2025-11-13T19:23:54.197462"},
    **{"position_size": 0.1, "realized_pnl": 190.0, "pnl_percentage": 3.8, "holding_period_hours": 24.0},
    **{"ai_provider": "ensemble", "ensemble_providers": ["local", "cli"], "decision_confidence": 75},
    **{"market_sentiment": "Bullish", "volatility": 5.0, "price_trend": "bullish", "was_profitable": True},
    **{"hit_stop_loss": False, "hit_take_profit": True, "veto_applied": False, "total_transaction_cost": 10.0},
}
PRODUCT: dict[str, Any] = {
    **{"trade_id": "98bc28df", "decision_id": None, "product": "GBP_USD", "side": "SHORT", "entry_price": "1.35507"},
    **{"entry_time": "2026-02-18T22:38:54.918181+00:00", "exit_time": "2026-04-01T23:55:20.040384+00:00"},
    **{"entry_size": "1000", "exit_price": "1.349805", "realized_pnl": "5.265", "fees": "0.25", "roi_percent": "0.38"},
}


def other_layouts(folder: Path, *lines: dict[str, Any], **changes: Any) -> ExperienceFolder:
    """What is read of a folder with an outcome of one layout, lines of another, and a summary."""
    folder.mkdir()
    told = PAIR | changes
    (folder / f"outcome_{told['decision_id']}.json").write_text(json.dumps(told))
    (folder / "2026-04-01.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "snapshot_20251122_192354.json").write_text(json.dumps({"total_trades": 5, "win_rate": 80.0}))
    return read_folder(folder)


def test_outcomes_of_other_layouts_are_read(tmp_path: Path) -> None:
    found = other_layouts(tmp_path / "memory", PRODUCT)
    assert found.problems == () and found.snapshots == ()
    assert found.skipped == ("snapshot_20251122_192354.json: it sums up outcomes, and is computed again from them",)
    (pair, seen), (product, _) = found.outcomes
    assert (pair.trade_id, pair.symbol, pair.side, pair.provider, pair.regime) == (
        *("trade-001", "BTC", "long"),
        *("ensemble", "bullish"),
    )
    assert (pair.net_usd_e6, pair.gross_usd_e6, pair.notional_usd_e6) == (190_000_000, 200_000_000, 5_000_000_000)
    assert (pair.confidence_e4, pair.exit_reason, pair.holding_ms) == (7_500, "take_profit", 86_400_000)
    assert dict(pair.conditions)["providers"] == "local, cli" and pair.votes == () and seen == SeenFeatures()
    assert (product.symbol, product.side, product.net_usd_e6, product.notional_usd_e6) == (
        *("GBP", "short"),
        *(5_015_000, 1_355_070_000),
    )


@pytest.mark.parametrize(
    ("pair", "symbol"),
    [("BTCUSD", "BTC"), ("eth-usd", "ETH"), ("SOL/USDT", "SOL"), ("EUR_USD", "EUR"), ("USD", "USD"), ("GOLD", "GOLD")],
)
def test_pairs_are_named_by_what_is_traded(tmp_path: Path, pair: str, symbol: str) -> None:
    ((outcome, _),) = other_layouts(tmp_path / "memory", asset_pair=pair).outcomes
    assert outcome.symbol == symbol


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"action": "HOLD"}, "outcome_trade-001.json: 'HOLD' is no trade"),
        ({"exit_price": None}, "outcome_trade-001.json: the trade has not ended"),
        ({"realized_pnl": None}, "outcome_trade-001.json: the trade has not ended"),
    ],
)
def test_what_is_no_closed_trade_is_skipped_and_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    found = other_layouts(tmp_path / "memory", **changes)
    assert (found.outcomes, found.problems, found.skipped[0]) == ((), (), says)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"was_profitable": False}, "it says was_profitable=False and a realized_pnl of 190.0"),
        ({"exit_timestamp": "2025-01-01T00:00:01"}, "it ends before it begins"),
        ({"decision_confidence": 175}, "a confidence of 1.75 is not between 0 and 1"),
        ({"ai_provider": "a\nb"}, "invisible characters"),
        ({"entry_price": "dear"}, "Expected `float`"),
        ({"entry_price": 1e30}, "an amount is longer than 64 bits"),
    ],
)
def test_a_contradiction_in_another_layout_is_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    found = other_layouts(tmp_path / "memory", PRODUCT | {"side": "LONG", "entry_size": "much"}, **changes)
    assert says in found.problems[1] and found.problems[1].startswith("outcome_trade-001.json: ")
    assert found.problems[0] == "2026-04-01.jsonl:1: 'much' is not a number"


def test_one_id_with_two_results_is_named(tmp_path: Path) -> None:
    found = other_layouts(tmp_path / "memory", PRODUCT, PRODUCT, PRODUCT | {"realized_pnl": "7"})
    assert len(found.outcomes) == 4
    (problem,) = found.problems
    assert problem.startswith(
        "trade 98bc28df: it is known as GBP short until 2026-04-01T23:55:20.040Z, net 5.015000 USD"
    )
    assert problem.endswith("net 6.750000 USD")
