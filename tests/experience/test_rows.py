"""Rows of a packet: the shape an ensemble reads, the most important first, and no rate without n and interval."""

import random
import re

from tapebook.domain.agent import ExperienceRow
from tapebook.domain.cache import LastCall
from tapebook.experience.records import Record, RecordKey, outcome_of, records_from_scratch
from tapebook.experience.rows import (
    ExperienceQuery,
    bps_text,
    experience_rows,
    joined_rows,
    old_similar_rows,
    rate_text,
    stable_rows,
)
from tapebook.experience.situations import Neighbours
from tests.experience.makers import T0, closed, run_of, vote

QUESTION = ExperienceQuery(T0, "BTC", "chop_lowvol", ("trend", "carry"))
NOTHING = Record("recent", "last 20 days")
RATE = re.compile(r"won \d+% \(n=\d+, 95% \d+% to \d+%\)")
MEAN = re.compile(r"[+-]\d+\.\d bps a trade \(n=\d+, 95% [+-]\d+\.\d to [+-]\d+\.\d\)")


def records(n: int) -> dict[RecordKey, Record]:
    rng = random.Random(1)
    found = []
    for number in range(n):
        trade = closed(number, net_bps=rng.gauss(5, 30))
        run = run_of(trade, engine="ensemble", votes=[vote("trend", "long"), vote("carry", None, "hold")])
        found.append(outcome_of(trade, run))
    return records_from_scratch(found)


def nearest(n: int, *, distance: int = 10) -> Neighbours:
    numbers = range(1, n + 1)
    sides = tuple(1 if number % 3 else -1 for number in numbers)
    return Neighbours(sides, tuple(100 * number for number in numbers), distance, 400, 100)


def rows_of(
    known: dict[RecordKey, Record], *, like: Neighbours | None = None, recent: Record = NOTHING
) -> tuple[ExperienceRow, ...]:
    return experience_rows(
        stable_rows(QUESTION, known, prior=10), similar=old_similar_rows(like) if like else (), recent=recent
    )


def test_texts() -> None:
    record = Record("record", "x", 34, 21, 34 * 1_210, 34 * 1_210**2 + 33 * 2_600**2)
    assert bps_text(record.mean_bps) == "+12.1 bps a trade (n=34, 95% +3.0 to +21.2)"
    assert rate_text(record.win_rate) == "won 62% (n=34, 95% 45% to 76%)"
    assert bps_text(Record("record", "x", 2, 0, -4, 8).mean_bps).startswith("+0.0 bps")
    assert bps_text(Record("record", "x", 1, 1, 100, 10_000).mean_bps) == "too few trades (n=1)"


def test_weights_come_first_in_the_shape_an_ensemble_reads() -> None:
    rows = rows_of(records(60), like=nearest(25))
    assert [(row.kind, row.name) for row in rows[:2]] == [("provider", "trend"), ("provider", "carry")]
    assert float(rows[0].value) > 1
    assert rows[1] == ExperienceRow("provider", "carry", "1.00")
    assert [row.kind for row in rows[2:5]] == ["similar"] * 3
    assert {row.kind for row in rows[5:]} == {"record"}
    assert rows[5].name == "trend in chop_lowvol"


def test_no_bare_percentage_and_no_bare_mean() -> None:
    rows = rows_of(records(300), like=nearest(25))
    assert len(rows) > 8
    for row in rows:
        if row.kind != "provider":
            rest = RATE.sub("", MEAN.sub("", row.value))
            assert "%" not in rest, row
            assert "bps" not in rest, row
            assert rest != row.value, row
        assert len(row.value) <= 120
        assert len(row.name) <= 60


def test_few_trades_are_withheld() -> None:
    rows = rows_of(records(4))
    assert {row.kind for row in rows} == {"provider"}


def test_calibration_is_told_when_there_is_enough_of_it() -> None:
    rows = rows_of(records(19))
    assert not [row for row in rows if row.name.startswith("confidence")]
    (row,) = [row for row in rows_of(records(20)) if row.name.startswith("confidence")]
    assert row.name == "confidence 0.6-0.7"
    assert RATE.fullmatch(row.value)


def test_unlike_anything_seen_is_said_instead_of_averages() -> None:
    rows = rows_of({}, like=nearest(25, distance=401))
    (row,) = [row for row in rows if row.kind == "similar"]
    assert row.value == "unlike anything seen: the nearest of 400 situations is 2.0 times as far as is usual"


def test_recent_record_has_its_own_row() -> None:
    recent = Record("recent", "last 20 days", 6, 3, 600, 6 * 200**2)
    rows = rows_of({}, recent=recent)
    assert [row.name for row in rows if row.kind == "record"] == ["last 20 days"]


def test_neighbours_in_another_order_say_the_same() -> None:
    known, like = records(20), nearest(25)
    standing, places = stable_rows(QUESTION, known, prior=10), list(range(25))
    random.Random(3).shuffle(places)
    sides, results = (tuple(column[place] for place in places) for column in (like.sides, like.results_ppm))
    turned = Neighbours(sides, results, like.least, like.searched, like.usual)
    join = LastCall(joined_rows)
    first = experience_rows(standing, similar=old_similar_rows(like), recent=NOTHING, join=join)
    assert experience_rows(standing, similar=old_similar_rows(turned), recent=NOTHING, join=join) is first, (
        "nothing new to be shown"
    )
    other = Neighbours(sides, (*results[1:], 7), like.least, like.searched, like.usual)
    assert experience_rows(standing, similar=old_similar_rows(other), recent=NOTHING, join=join) != first


def test_a_side_is_told_when_there_is_enough_of_it_and_not_alone() -> None:
    def said(sides: tuple[int, ...]) -> list[str]:
        like = Neighbours(sides, (100,) * len(sides), 1, 400, 100)
        return [row.name for row in rows_of({}, like=like) if row.kind == "similar"]

    assert said((1,) * 5 + (-1,) * 6) == ["11 nearest", "those long", "those short"]
    assert said((1,) * 4 + (-1,) * 6) == ["10 nearest", "those short"]
    assert said((1,) * 8) == ["8 nearest"]
    assert said((1,) * 2 + (-1,) * 2) == []
