"""Files: what is written is read back to the last digit, and a broken file is refused with one line."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapebook.errors import BadInput
from tapebook.experience.events import SeenFeatures
from tapebook.experience.features import feature_vector_of
from tapebook.experience.files import export_folder, read_folder
from tapebook.experience.records import Outcome, outcome_of, records_from_scratch, snapshot_of
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
    performance = json.loads((tmp_path / "memory" / "provider_performance.json").read_text())
    assert (performance["ensemble"]["total_trades"], performance["ensemble"]["winning_trades"]) == (2, 0)


def test_round_trip_loses_nothing(tmp_path: Path) -> None:
    found = exported(tmp_path / "memory", 12)
    contents = read_folder(tmp_path / "memory")
    assert contents.problems == ()
    assert list(contents.outcomes) == sorted(found, key=lambda each: each[0].exited_at)
    assert any(seen.reading and None in seen.reading for _, seen in found)
    assert [each.chunk for each in contents.snapshots] == ["Q1", "Q2"]
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
    (changed(regime="a\nb"), "characters that are not seen"),
    (changed(regime="a\u202eb"), "characters that are not seen"),
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
