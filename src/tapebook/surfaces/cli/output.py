"""Prints what commands answer: tables and records for people, JSON for programs, errors in one line, progress.

Answers go to stdout; errors and progress go to stderr, so that stdout can be piped. Progress is a bar on a
terminal, else a plain line every two seconds.
"""

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from tapebook.clock import elapsed_seconds
from tapebook.domain.text import escape_hidden_characters, redact_passwords, sanitise
from tapebook.domain.units import E8, short_price, to_units
from tapebook.settings.logs import wants_colours

Item = TypeVar("Item")

# Blanks between columns.
GAP = 2
# Below it a cut word tells nothing.
NARROWEST = 8
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")
_NOTHING = "-"


def one_line(text: str) -> str:
    """A text without line breaks and without characters that could steer a terminal."""
    return sanitise(text).strip()


def complain(message: str) -> None:
    """Says on stderr what is wrong."""
    print(f"error: {redact_passwords(one_line(message))}", file=sys.stderr)


def warn(message: str) -> None:
    """Says on stderr what somebody should know who goes on."""
    print(f"warning: {redact_passwords(one_line(message))}", file=sys.stderr)


def prepare_output() -> None:
    """Makes stdout take any text: a character it cannot write becomes `?`, and a closed one takes everything."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def discard_output() -> None:
    """Sends what can no longer be printed nowhere."""
    # Else Python would complain about it when it ends.
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_screen() -> bool:
    """Whether stdout is a terminal; a pipe or a file gets everything in full."""
    return sys.stdout.isatty()


def shorten_on_screen(text: str, most: int) -> str:
    """A text, on a terminal not longer than so many characters."""
    return text if len(text) <= most or not is_screen() else f"{text[: most - 1]}…"


def first_on_screen(items: Sequence[Item], most: int) -> Sequence[Item]:
    """A list, on a terminal not more than so many of it."""
    return items[:most] if is_screen() else items


def cell(value: Any) -> str:
    """A value as one line: `-` for nothing, yes or no for a truth, a list with commas."""
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value)) or _NOTHING
    return one_line(str(value))


def minute(value: str | None) -> str:
    """An ISO time up to its minute."""
    return _NOTHING if value is None else value[:16]


def money(value: float | None) -> str:
    """An amount with two decimals and separated thousands."""
    return _NOTHING if value is None else f"{value:,.2f}"


def price(value: float | None) -> str:
    """A price with five significant digits, as the exchange quotes it."""
    return _NOTHING if value is None else short_price(to_units(value, E8))


def result(value: float | None) -> str:
    """An amount with its sign; nothing won and nothing lost has none."""
    return _NOTHING if value is None else f"{value:+,.2f}" if round(value, 2) else "0.00"


def share(value: float | None) -> str:
    """A share of one in percent, with its sign."""
    return _NOTHING if value is None else f"{value:+.2%}" if round(value, 4) else "0.00%"


def amount(value: float | None) -> str:
    """A size with up to eight significant digits."""
    return _NOTHING if value is None else f"{value:.8g}"


def whole(value: float | None) -> str:
    """A number without decimals."""
    return _NOTHING if value is None else f"{value:,.0f}"


def print_json(value: Any) -> None:
    """Any value of the façade as indented JSON; always UTF-8, whatever the terminal's encoding.

    What is not seen is escaped: programs read the same value, and a terminal is not steered by it.
    """
    import msgspec

    text = escape_hidden_characters(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    sys.stdout.flush()
    # Past the text layer, whose encoding may not know every character.
    sys.stdout.buffer.write(text.encode() + b"\n")


def print_lines(lines: Iterable[str]) -> None:
    """Sentences, one on each line."""
    for line in lines:
        print(one_line(line))


def print_text(text: str) -> None:
    """Prints a text of several lines, such as a packet."""
    # Without what could steer a terminal: outside text is in it.
    print(*map(sanitise, text.split("\n")), sep="\n")


class Column(NamedTuple):
    """One column of a table: its heading, the key it shows, how, and whether a narrow terminal may cut it.

    A result is coloured by its sign on a terminal.
    """

    heading: str
    key: str
    show: Callable[[Any], str] = cell
    cut: bool = False
    result: bool = False


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, empty: str) -> None:
    """Rows as aligned columns, numbers to the right; the words of `empty` when there are none."""
    if not rows:
        print(empty)
        return
    shown = [[column.show(row[column.key]) for column in columns] for row in rows]
    numeric = [_are_numbers(texts) for texts in zip(*shown, strict=True)]
    lines = [[column.heading for column in columns], *shown]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    _fit(widths, [at for at, column in enumerate(columns) if column.cut])
    for line in lines:
        padded = (_pad(text, width, right) for text, width, right in zip(line, widths, numeric, strict=True))
        cells = [colour_result(text) if column.result else text for text, column in zip(padded, columns, strict=True)]
        print((" " * GAP).join(cells).rstrip())


def colour_result(text: str) -> str:
    """A signed amount as it is, or on a terminal that takes colours in that of its sign; the sign stays."""
    sign = text.strip()[:1]
    if sign not in ("+", "-") or text.strip() == _NOTHING or not is_screen() or not wants_colours():
        return text
    return f"\x1b[3{2 if sign == '+' else 1}m{text}\x1b[0m"


def print_page(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, following: str | None, empty: str
) -> None:
    """A part of a list as a table; on a screen with the option that shows what comes behind it."""
    print_table(rows, columns, empty=empty)
    if following is not None and is_screen():
        print(f"more: --before {following}")


def print_record(record: Mapping[str, Any], *, results: Collection[str] = ()) -> None:
    """One thing as lines of `key  value`; of a list, one line for each. `results` are coloured by their sign."""
    width = max(map(len, record), default=0)
    for key, value in record.items():
        first, *others = value if isinstance(value, list) and value else [value]
        print(f"{key:<{width}}  {colour_result(cell(first)) if key in results else cell(first)}")
        for other in others:
            print(f"{'':<{width}}  {cell(other)}")


def _are_numbers(texts: Iterable[str]) -> bool:
    filled = [text for text in texts if text != _NOTHING]
    return bool(filled) and all(map(_NUMBER.fullmatch, filled))


def _fit(widths: list[int], words: list[int]) -> None:
    """Takes from the widest column of words until the line fits the terminal; nothing else is ever cut."""
    if not is_screen():
        return
    limit = shutil.get_terminal_size().columns
    while (excess := sum(widths) + GAP * (len(widths) - 1) - limit) > 0:
        widest = max(words, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= NARROWEST:
            return
        widths[widest] = max(NARROWEST, widths[widest] - excess)


def _pad(text: str, width: int, right: bool) -> str:
    if len(text) > width:
        text = f"{text[: width - 1]}…"
    return text.rjust(width) if right else text.ljust(width)


# Often enough to see that it lives, seldom enough for a log file.
EVERY_SECONDS = 2.0

# Takes how much is done, from 0 to 1 (None when nobody knows the whole), and some words about it.
Show = Callable[[float | None, str], None]


@contextmanager
def progress(label: str, *, on_terminal_only: bool = False) -> Iterator[Show]:
    """Gives the function that shows a step; what a terminal showed is gone when the work is done."""
    if not sys.stderr.isatty():
        yield (lambda done, words: None) if on_terminal_only else _progress_lines(label)
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


def _progress_lines(label: str) -> Show:
    shown_at = elapsed_seconds()

    def show(done: float | None, words: str) -> None:
        nonlocal shown_at
        now = elapsed_seconds()
        if now - shown_at >= EVERY_SECONDS:
            shown_at = now
            share = "" if done is None else f" {done:4.0%}"
            print(f"{label}{share}  {words}", file=sys.stderr, flush=True)

    return show
