"""Commands on the layers: `horizons show`, `horizons rollup`, `horizons cleanup`, `horizons set`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from json import JSONDecodeError, dumps, loads
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapebook.surfaces.cli.options import AsOf, Home, Json, open_home
from tapebook.surfaces.cli.output import Column, is_screen, one_line, print_json, print_lines, print_table

if TYPE_CHECKING:
    from rich.tree import Tree

NOTHING = "nothing yet: a day is rolled up when it is over, or by `tapebook horizons rollup`"
# Wider than any line of a tree.
_WHOLE = 1_000_000
EVERYBODY = "all agents"
COUNTS = [Column("layer", "layer"), Column("dropped", "dropped")]

OneAgent = Annotated[str | None, typer.Argument(metavar="AGENT", help="Of one agent; else of all together.")]
Layer = Annotated[str, typer.Argument(metavar="LAYER", help="L1 (all time) to L7 (now).")]
Timeframe = Annotated[str, typer.Argument(metavar="TIMEFRAME", help="Such as LEGACY, 2026, 2026-Q1, 2026-W06.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Such as core_principles.")]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or plain words; null takes it back.")]

group = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="What the day, the week, the year and all time came to."
)


@group.command()
def show(
    agent: OneAgent = None,
    *,
    layer: Annotated[str | None, typer.Option(metavar="LAYER", help="All that is kept of one layer, L1 to L7.")] = None,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show the layers, from all time to now."""
    with open_home(home) as book:
        found = book.horizons.show(agent, layer=layer, as_of=as_of)
    if json:
        print_json(found)
    elif found:
        print_tree(found, agent or EVERYBODY)
    else:
        print(NOTHING)


@group.command()
def rollup(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only one agent's layers.")] = None,
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Bring the layers up to this moment, today included."""
    with open_home(home) as book:
        done = book.horizons.rollup(agent)
    if json:
        print_json(done)
    else:
        print_lines(f"{scope or EVERYBODY}: {'rolled up' if new else 'nothing new'}" for scope, new in done.items())


@group.command()
def cleanup(home: Home = None, json: Json = False) -> None:
    """Drop what is past its time, counted from the end of its period."""
    with open_home(home) as book:
        counts = book.horizons.cleanup()
    if json:
        print_json(counts)
    else:
        print_table([{"layer": layer, "dropped": count} for layer, count in counts.items()], COUNTS, empty="")


@group.command("set")
def set_value(
    layer: Layer,
    timeframe: Timeframe,
    key: Key,
    value: Value,
    *,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="For one agent; else for all.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write a value by hand; it stands beside what is computed."""
    with open_home(home) as book:
        book.horizons.set(layer, timeframe, key, _value(value), agent=agent)
    if json:
        print_json({"layer": layer, "timeframe": timeframe, "key": key, "value": _value(value), "agent": agent})
    else:
        print_lines([f"{key} of {timeframe} is set for {agent or EVERYBODY}"])


def print_tree(entries: Sequence[Mapping[str, Any]], whose: str) -> None:
    """The layers as a tree: a branch for each timeframe, a line for each key; only a terminal cuts lines."""
    from rich.console import Console
    from rich.tree import Tree

    tree = Tree(_plain(whose))
    for (layer, timeframe), rows in groupby(entries, key=lambda row: (row["layer"], row["timeframe"])):
        branch = tree.add(_plain(f"{layer[:2]} {timeframe}"))
        _add_rows(branch, list(rows))
    width = None if is_screen() else _WHOLE
    Console(highlight=False, width=width).print(tree, no_wrap=True, overflow="ellipsis", crop=True)


def _add_rows(branch: "Tree", rows: Sequence[Mapping[str, Any]]) -> None:
    values = {row["key"]: row["value"] for row in rows if row["origin"] == "rollup"}
    shown = [row for row in rows if not _is_part(row["key"], values)]
    names = [one_line(row["key"]) + ("" if _is_computed(row) else f" ({row['origin']})") for row in shown]
    width = max(map(len, names))
    for name, row in zip(names, shown, strict=True):
        text = _words(row["value"]) + (_interval(row["key"], values) if _is_computed(row) else "")
        branch.add(_plain(f"{name:<{width}}  {text}"))


def _is_computed(row: Mapping[str, Any]) -> bool:
    return row["origin"] in ("rollup", "live")


def _is_part(key: str, values: Iterable[str]) -> bool:
    """Whether a key is the n or the interval of another."""
    return any(key.endswith(end) and key.removesuffix(end) in values for end in ("_n", "_interval"))


def _interval(key: str, values: dict[str, Any]) -> str:
    n, interval = values.get(f"{key}_n"), values.get(f"{key}_interval")
    if n is None:
        return ""
    return f"  (n={n})" if interval is None else f"  (n={n}, 95% {interval[0]} to {interval[1]})"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(_words, value)) or "-"
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(one_line(text))


def _value(text: str) -> Any:
    """JSON where it is JSON, else the words themselves."""
    try:
        return loads(text)
    except (JSONDecodeError, RecursionError):
        return text
