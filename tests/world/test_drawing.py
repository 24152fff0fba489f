"""Bars that another process draws are those of the world, and who reads them can do without."""

import subprocess
import sys
from itertools import islice

from tapebook.domain.units import DAY, HOUR, parse_instant
from tapebook.world import drawing
from tapebook.world.assets import PriceHabit
from tapebook.world.drawing import bars_drawn_beside
from tapebook.world.market import World, bars_by_step, symbol_candles
from tapebook.world.server import WorldServer

START = parse_instant("2026-01-05T00:00:00Z")
WORLD = World(7, start=START, symbols=("BTC", "kPEPE"), ranging={"kPEPE": PriceHabit(range_days=1)})
UNTIL = START + 6 * HOUR


def test_another_process_draws_the_same_bars() -> None:
    with bars_drawn_beside(WORLD, every=2 * HOUR, until=UNTIL) as drawn:
        steps = list(drawn)
    assert [len(bars) for bars in steps] == [2 * 120] * 3
    assert steps == list(bars_by_step(WORLD, every=2 * HOUR, until=UNTIL))
    for symbol in WORLD.symbols:
        alone = list(symbol_candles(WORLD, symbol, until=UNTIL))
        assert [bar for bars in steps for bar in bars if bar.symbol == symbol] == alone


def test_who_stops_reading_ends_it() -> None:
    with bars_drawn_beside(WORLD, every=HOUR, until=START + 400 * DAY) as drawn:
        assert len(list(islice(drawn, 2))) == 2


def test_a_process_that_does_not_begin_gives_no_bars() -> None:
    command = [sys.executable, "-c", "raise SystemExit(1)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert list(drawing._read_steps(process.stdout)) == []


def test_a_message_that_was_cut_is_left_out() -> None:
    command = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(bytes([0, 0, 0, 9, 144]))"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert list(drawing._read_steps(process.stdout)) == []


def test_a_server_goes_on_alike_whoever_draws_its_bars() -> None:
    """With all bars given, with some, and with none."""
    moments = [START + 2 * HOUR, START + 4 * HOUR, UNTIL]
    steps = list(bars_by_step(WORLD, every=2 * HOUR, until=UNTIL))
    alone, helped, half = (WorldServer(WORLD, spots=False) for _ in range(3))
    for at, bars in zip(moments, steps, strict=True):
        rows = alone.skip_to(at)
        assert len(rows) == 2 * (120 + 2)
        assert helped.skip_to(at, bars=bars) == rows
        assert half.skip_to(at, bars=bars[::2]) == rows
        for symbol in WORLD.symbols:
            coin, other = (server._exchange.main.perps[symbol] for server in (alone, helped))
            assert coin.context() == other.context() and coin.book(at) == other.book(at)
            assert coin.bars.rows("1h", coin.forming_bar(), start=START, end=at) == other.bars.rows(
                "1h", other.forming_bar(), start=START, end=at
            )
