"""How far a long command has come, on stderr: a bar on a terminal, else a plain line every two seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tapebook.clock import elapsed_seconds

EVERY_SECONDS = 2.0

# Takes how much is done, from 0 to 1 (None when nobody knows the whole), and some words about it.
Show = Callable[[float | None, str], None]


@contextmanager
def progress(label: str, *, on_terminal_only: bool = False) -> Iterator[Show]:
    """Gives the function that shows a step; what a terminal showed is gone when the work is done."""
    if not sys.stderr.isatty():
        yield (lambda done, words: None) if on_terminal_only else _lines(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn(label), BarColumn(bar_width=12), TaskProgressColumn(), TextColumn("{task.fields[words]}"))
    # What is printed meanwhile goes above the bar, unless it goes to a file or a pipe.
    shared = sys.stdout.isatty()
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=shared)
    task = bar.add_task(label, total=None, words="")

    def show(done: float | None, words: str) -> None:
        # Not drawn before the first step: until then a command may ask something.
        bar.start()
        bar.update(task, total=done and 1.0, completed=done, words=words)

    try:
        yield show
    finally:
        bar.stop()


def _lines(label: str) -> Show:
    shown_at = elapsed_seconds()

    def show(done: float | None, words: str) -> None:
        nonlocal shown_at
        now = elapsed_seconds()
        if now - shown_at >= EVERY_SECONDS:
            shown_at = now
            share = "" if done is None else f" {done:4.0%}"
            print(f"{label}{share}  {words}", file=sys.stderr, flush=True)

    return show
