"""Facts of a file beside the tape: what is new, what is there, what contradicts, and what cannot stand together."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.history.import_file import compare_with_tape, mixed_lengths_refusal
from tapebook.history.importer import ParsedFile, assumed_known_at
from tapebook.tape.bars import roll_up
from tapebook.tape.store import MIGRATIONS, Tape
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.history.files import HEADER, MIDNIGHT, NOW, bars, lines, parsed


@pytest.fixture(params=["sqlite", "postgres"])
def tape(request: pytest.FixtureRequest) -> Iterator[Tape]:
    """An empty tape, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as db:
        migrate(db, (MIGRATIONS,))
        yield Tape(db, clock=VirtualClock(NOW))


@pytest.fixture
def five(tmp_path: Path) -> ParsedFile:
    """A file of five minutes, without trades and quote volume."""
    return parsed(tmp_path, [HEADER, *lines(5)])


def test_an_empty_tape_has_nothing(tape: Tape, five: ParsedFile) -> None:
    found = compare_with_tape(tape, five, now=NOW)
    assert (found.new, found.same, found.differing) == (bars(5), 0, [])


def test_only_what_the_file_states_is_compared(tape: Tape, five: ParsedFile) -> None:
    observed = [msgspec.structs.replace(bar, sample_count=7, volume_quote_usd=1.0) for bar in bars(5)[:3]]
    observed[1] = msgspec.structs.replace(observed[1], close_e8=observed[1].close_e8 + 1)
    tape.commit(observed)
    found = compare_with_tape(tape, five, now=NOW)
    assert (found.new, found.same, found.differing) == (bars(5)[3:], 2, [bars(5)[1]])


def test_rates_and_midpoints(tape: Tape, five: ParsedFile) -> None:
    rates = [FundingRate("BTC", MIDNIGHT + n * HOUR, 5, 9) for n in range(3)]
    mids = [Mid("BTC", MIDNIGHT + n * MINUTE, 5) for n in range(3)]
    tape.commit([rates[0], msgspec.structs.replace(rates[1], rate_e12=6), mids[0]])
    tape.commit([msgspec.structs.replace(mids[1], price_e8=6)])
    file = msgspec.structs.replace(five, rows=[*rates, *mids], stated=("bucket_ts",))
    assert (compare_with_tape(tape, file, now=NOW).same, compare_with_tape(tape, file, now=NOW).new) == (
        4,
        [rates[2], mids[2]],
    )
    strict = msgspec.structs.replace(file, stated=())
    assert compare_with_tape(tape, strict, now=NOW).differing == [rates[1], mids[1]]


def test_of_several_pictures_of_a_bar_the_last_decides(tape: Tape, five: ParsedFile) -> None:
    early = bars(1)[0]
    late = msgspec.structs.replace(early, close_e8=early.close_e8 - 1, sample_count=9)
    file = msgspec.structs.replace(five, rows=[early, late], stated=())
    tape.commit([early])
    assert compare_with_tape(tape, file, now=NOW).differing == [early, late]
    tape.commit([late])
    assert compare_with_tape(tape, file, now=NOW).same == 2


def every(seconds: int, count: int, *, first: int = MIDNIGHT) -> list[Candle]:
    """Bars of a length."""
    return [Candle("BTC", seconds, first + n * seconds * 1000, 1, 1, 1, 1, 1.0, 1.0, 1) for n in range(count)]


@pytest.mark.parametrize(
    ("stored", "new", "refused"),
    [
        ([], every(60, 5), ""),
        (every(60, 5), every(60, 10), ""),
        (every(60, 5), every(300, 5), "bars of 5m are made of these when they are read"),
        (every(60, 1, first=MIDNIGHT + 24 * MINUTE), every(300, 5), "bars of 5m are made of these"),
        (every(60, 5, first=MIDNIGHT + 25 * MINUTE), every(300, 5), ""),
        (every(60, 5, first=MIDNIGHT - 5 * MINUTE), every(300, 5), ""),
        (
            every(3600, 1),
            every(60, 5, first=MIDNIGHT + 30 * MINUTE),
            "import bars of 1h for this range, or use another home",
        ),
        (every(3600, 1, first=MIDNIGHT - HOUR), every(60, 5), ""),
        (every(86_400, 1), every(300, 1, first=MIDNIGHT + 23 * HOUR), "import bars of 1d"),
    ],
)
def test_a_range_holds_one_length(tape: Tape, stored: list[Candle], new: list[Candle], refused: str) -> None:
    tape.commit(stored, assumed=assumed_known_at)
    found = mixed_lengths_refusal(tape, new, now=NOW)
    assert refused in found and bool(refused) == bool(found)
    assert mixed_lengths_refusal(tape, [msgspec.structs.replace(bar, symbol="ETH") for bar in new], now=NOW) == ""


def test_bars_the_tape_has_made_itself_are_no_other_history(tape: Tape) -> None:
    minutes = every(60, 90)
    tape.commit(minutes)
    tape.commit(roll_up(minutes, granularity_sec=3600))
    # The hours are there, made of minutes: more minutes of the second hour may come.
    assert mixed_lengths_refusal(tape, every(60, 60, first=MIDNIGHT + HOUR), now=NOW) == ""
    assert "made of these" in mixed_lengths_refusal(tape, every(3600, 2), now=NOW)
    tape.commit(every(3600, 1, first=MIDNIGHT + 2 * HOUR))
    assert "import bars of 1h" in mixed_lengths_refusal(tape, every(60, 60, first=MIDNIGHT + 2 * HOUR), now=NOW)
