"""The flags that several commands share, and the home they name."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tapebook.domain.units import parse_instant
from tapebook.gc_pause import gc_paused

if TYPE_CHECKING:
    from tapebook.api.app import Tapebook

# The last millisecond of the year 9999: later instants have no text.
_LAST = 253_402_300_799_999


def _check_instant(text: str | None) -> str | None:
    if text is not None:
        parse_time(text)
    return text


def parse_time(text: str) -> int:
    """A time given on the command line; one that cannot be read is a usage error."""
    try:
        moment = parse_instant(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(str(error)) from error
    if not 0 <= moment <= _LAST:
        raise typer.BadParameter(f"{text!r} is not between the years 1970 and 9999")
    return moment


Home = Annotated[
    str | None,
    typer.Option("--home", metavar="DIR", help="The home folder; else TAPEBOOK_HOME, else ./home."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Most = Annotated[int, typer.Option("--most", metavar="N", min=1, max=1_000_000, help="Show the newest N.")]
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The name of an agent; `tapebook agents` lists them.")]
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="A symbol of its watchlist, such as BTC.")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", callback=_check_instant, help="ISO-8601 (UTC) or epoch ms; else now."),
]
Before = Annotated[
    str | None,
    typer.Option("--before", metavar="CURSOR", help="Go on behind this: `next` of the page before, or its last id."),
]


def group_options(context: typer.Context, home: str | None, json: bool) -> tuple[str | None, bool]:
    """The home and the form of a command in a group: `tapebook runs --home DIR show RUN` gives them to the group."""
    before = context.parent.params if context.parent else {}
    return before.get("home") if home is None else home, json or bool(before.get("json"))


def home_folder(given: str | None) -> Path:
    """The home a command works on."""
    from tapebook.settings import config

    return config.find_home(given)


@contextmanager
def open_home(given: str | None) -> "Iterator[Tapebook]":
    """The façade on a home, closed at the end."""
    # Loading makes many objects that stay: looking through them for garbage would take a third of the time.
    with gc_paused():
        from tapebook.api import app

        book = app.open(home_folder(given))
    with closing(book):
        yield book
    if problem := getattr(book, "anchor_problem", None):
        print(f"warning: {problem}", file=sys.stderr)
