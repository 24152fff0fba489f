"""The bars of a world, drawn by another process: `bars_drawn_beside` starts it and reads, `draw_bars` is what it does.

Drawing the bars of a long past takes as long as all that is done with them, so it is worth a core of its own. They go
through a pipe, the bars of each step as one message behind its length. Whoever reads must do without them when they
end early: the process may be killed, or not begin at all. It ends when nobody reads any more.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import msgspec

from tapebook.domain.market import Candle
from tapebook.world.assets import PriceHabit
from tapebook.world.market import World, bars_by_step

_LENGTH_BYTES = 4
_COMMAND = "from tapebook.world.drawing import draw_bars; draw_bars()"


class _Drawing(msgspec.Struct, frozen=True):
    """What is to be drawn: all that makes a world, in which steps, and up to when."""

    seed: int
    start: int
    symbols: tuple[str, ...]
    ranging: dict[str, PriceHabit]
    every: int
    until: int


_BARS = msgspec.msgpack.Decoder(list[Candle])


@contextmanager
def bars_drawn_beside(world: World, *, every: int, until: int) -> Iterator[Iterator[list[Candle]]]:
    """All bars of a world from its start on, step by step, from a process that ends with this block."""
    wanted = _Drawing(world.seed, world.start, world.symbols, dict(world.ranging), every, until)
    # Not from the folder somebody stands in (-P), which may hold a file of any name.
    command = [sys.executable, "-P", "-c", _COMMAND, msgspec.json.encode(wanted).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield _read_steps(process.stdout)
        finally:
            process.kill()


def _read_steps(pipe: IO[bytes]) -> Iterator[list[Candle]]:
    """The bars of each step that came whole."""
    while length := int.from_bytes(pipe.read(_LENGTH_BYTES), "big"):
        content = pipe.read(length)
        if len(content) < length:
            return
        yield _BARS.decode(content)


def draw_bars() -> None:
    """Writes the bars of the world that the command line names to stdout."""
    wanted = msgspec.json.decode(sys.argv[1], type=_Drawing)
    world = World(wanted.seed, start=wanted.start, symbols=wanted.symbols, ranging=wanted.ranging)
    with suppress(BrokenPipeError):
        for bars in bars_by_step(world, every=wanted.every, until=wanted.until):
            content = msgspec.msgpack.encode(bars)
            sys.stdout.buffer.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
            sys.stdout.buffer.flush()
