"""Commands on backtests: `backtest` runs one, `backtests` lists, shows, compares, exports and removes them."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.errors import BadInput, Stop
from tapebook.surfaces.cli.options import Home, Json, group_options, open_home, parse_time
from tapebook.surfaces.cli.output import Column, minute, money, print_json, print_lines, print_table, progress

CHUNKS = ("quarter", "month", "week", "none")
FILLS = ("next_open", "bar_close", "worst")


MEMORY_HELP = "on, off, none, frozen, or rooms: lessons,experience,horizons,documents."


def _one_of(value: str, known: tuple[str, ...]) -> Any:
    if value not in known:
        raise typer.BadParameter(f"{value!r} is none of: {', '.join(known)}")
    return value


def backtest(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="An agent; with --sweep the file names them.")
    ] = None,
    *,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="ISO-8601 or ms; else its start.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="ISO-8601 or ms; else its end.")] = None,
    chunks: Annotated[str, typer.Option(metavar="KIND", help="quarter, month, week or none.")] = "quarter",
    memory: Annotated[str, typer.Option(metavar="ROOMS", help=MEMORY_HELP)] = "on",
    memory_from: Annotated[
        str | None, typer.Option("--memory-from", metavar="ID|live", help="Begin with what was learned there.")
    ] = None,
    freeze_at: Annotated[
        str | None, typer.Option("--freeze-at", metavar="TIME", help="With frozen: when learning ends; else chunk 1.")
    ] = None,
    fill: Annotated[
        str | None, typer.Option(metavar="RULE", help="On bars alone: next_open, bar_close or worst.")
    ] = None,
    gaps: Annotated[bool, typer.Option("--gaps", help="Sit out stretches without bars.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Make it a second time and compare every byte.")] = False,
    chunk: Annotated[str | None, typer.Option(metavar="NAME", help="With --again: only this chunk.")] = None,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as a page.")] = None,
    max_usd: Annotated[
        float | None, typer.Option("--max-usd", metavar="USD", help="What its models may cost in all.")
    ] = None,
    sweep: Annotated[Path | None, typer.Option(metavar="FILE", help="Run every combination a TOML file names.")] = None,
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=512, help="With --sweep: so many at once.")] = 2,
    cluster: Annotated[str | None, typer.Option(metavar="URL", help="With --sweep: a Dask scheduler, tcp://…")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Run an agent over past bars, or go on with it, or show it."""
    from tapebook.api import app

    if sweep is not None:
        if agent is not None:
            raise typer.BadParameter("a sweep's file names its agents", param_hint="AGENT")
        _sweep(sweep, workers=workers, cluster=cluster, max_usd=max_usd, home=home, json=json)
        return
    if agent is None:
        raise typer.BadParameter("name an agent, or a file with --sweep", param_hint="AGENT")
    if chunk and not again:
        raise BadInput("--chunk names what to make again: use it with --again")
    wish = {
        "start": parse_time(start) if start else None,
        "end": parse_time(end) if end else None,
        "chunks": _one_of(chunks, CHUNKS),
        "memory": memory,
        "freeze_at": parse_time(freeze_at) if freeze_at else None,
        "gaps": gaps,
        "fill": _one_of(fill, FILLS) if fill else None,
        "memory_from": memory_from,
    }
    with open_home(home) as book, progress("backtest") as show:

        def show_progress(step: app.BacktestProgress) -> None:
            show(
                step.done,
                f"{step.chunk}  {step.ticks:,} ticks  {step.ticks_per_second:,.0f}/s{_spending_suffix(step.spent)}",
            )

        def agree(estimate: app.CostEstimate) -> bool:
            return _agree(app.cost_sentence(estimate), limit=max_usd, costs=bool(estimate.most_usd_e6))

        if again:
            _print_comparison(book.backtest_again(agent, chunk=chunk, progress=show_progress, **wish), json=json)
            return
        print_chunk = (lambda result: None) if json else (lambda result: print("", *app.chunk_lines(result), sep="\n"))
        result = book.backtest(
            agent, progress=show_progress, chunk_done=print_chunk, max_usd=max_usd, agree=agree, **wish
        )
        if html:
            book.backtests.export(result.id, html=html)
        found = book.backtests.show(result.id)
        spent = book.backtests.spending(result.id)
    print_json(found) if json else print("", *app.summary_lines(result, spent=spent), sep="\n")


def _sweep(
    file: Path, *, workers: int, cluster: str | None, max_usd: float | None, home: str | None, json: bool
) -> None:
    from tapebook.api import app

    cases = app.read_sweep(file)
    with open_home(home) as book, progress("sweep") as show:
        found = book.sweep(
            cases,
            workers=workers,
            cluster=cluster,
            max_usd=max_usd,
            done=lambda count: show(count / len(cases), f"{count} of {len(cases)} backtests"),
        )
    if json:
        print_json(found)
        return
    rows = [
        {
            "id": each.result.id,
            "agent": each.case.agent,
            "words": each.case.words,
            "trades": each.result.total.trades,
            "change_usd": each.result.total.change_usd_e6 / 1e6,
        }
        for each in found
    ]
    columns = [Column("backtest", "id"), Column("agent", "agent", cut=True), Column("with", "words", cut=True)]
    print_table(rows, [*columns, Column("trades", "trades"), Column("change usd", "change_usd", money)], empty="")


def _agree(sentence: str, *, limit: float | None, costs: bool) -> bool:
    """Says what models may cost, and asks where nobody set a limit and somebody can answer."""
    if limit is not None or not costs:
        print(f"{sentence}{'' if limit is None else f'; it stops at {limit:g} USD'}", file=sys.stderr, flush=True)
        return True
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return False
    print(sentence, file=sys.stderr, flush=True)
    if not typer.confirm("go on?", err=True):
        print("nothing was asked; --max-usd sets another limit", file=sys.stderr)
        raise typer.Exit(1)
    return True


def _spending_suffix(spent: Any) -> str:
    return f"  {plural(spent.calls, 'call')}  {spent.cost_usd_e6 / 1e6:,.2f} USD" if spent else ""


def _print_comparison(found: Any, *, json: bool) -> None:
    if json:
        print_json(found)
    elif not found.differs:
        print_lines([f"{found.what}: the re-run is byte-identical"])
    if found.differs:
        raise Stop(f"{found.what}: made again, these differ: {', '.join(found.differs)}; report it as a bug")


BACKTESTS = [
    Column("backtest", "id"),
    Column("agent", "agent", cut=True),
    Column("from", "start", lambda text: minute(text)[:10]),
    Column("to", "end", lambda text: minute(text)[:10]),
    Column("memory", "memory"),
    Column("trades", "trades"),
    Column("change usd", "change_usd", money),
    Column("fill", "fill"),
    Column("current", "stale", lambda stale: f"no: other {', '.join(stale)}" if stale else "yes"),
    Column("status", "status", cut=True),
]
_SHARE = "{:.0%}".format
SIMILAR = [
    Column("backtest", "id"),
    Column("agent", "agent", cut=True),
    Column("alike", "likeness", _SHARE),
    Column("market", "market", _SHARE),
    Column("period", "period", _SHARE),
    Column("settings", "settings", _SHARE),
    Column("result", "result", _SHARE),
    Column("from", "start", lambda text: minute(text)[:10]),
    Column("to", "end", lambda text: minute(text)[:10]),
    Column("trades", "trades"),
    Column("change usd", "change_usd", money),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="A backtest, or the beginning of its id.")]
Place = Path | None

group = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@group.callback()
def backtests(context: typer.Context, *, home: Home = None, json: Json = False) -> None:
    """List backtests, or show, compare, export and remove them."""
    if context.invoked_subcommand is None:
        _list(home, json)


@group.command("list")
def list_backtests(context: typer.Context, *, home: Home = None, json: Json = False) -> None:
    """List the backtests of a home."""
    _list(*group_options(context, home, json))


@group.command()
def show(
    context: typer.Context,
    name: Id,
    *,
    chunks: Annotated[bool, typer.Option("--chunks", help="What each chunk taught, too.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show what a backtest came to, beside its baselines."""
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        if json:
            print_json(book.backtests.show(name))
        else:
            _print(book.backtests.lines(name, chunks=chunks))


@group.command()
def compare(context: typer.Context, first: Id, second: Id, *, home: Home = None, json: Json = False) -> None:
    """Compare two backtests day by day, and say if one did better."""
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        found = book.backtests.compare(first, second)
    if json:
        print_json(found.to_dict())
    else:
        _print(found.lines())


@group.command()
def similar(
    context: typer.Context,
    name: Id,
    *,
    most: Annotated[int, typer.Option(metavar="N", help="So many at most.")] = 10,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show which backtests are most like one, and in what they differ."""
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        found = book.backtests.similar(name, most=most)
    if json:
        print_json(found)
        return
    print_table([{**row["parts"], **row} for row in found], SIMILAR, empty="no other backtest is finished")
    for row in found:
        print_lines([f"{row['id']} differs: {each}" for each in row["differs"]])


@group.command()
def export(
    context: typer.Context,
    name: Id,
    *,
    csv: Annotated[Place, typer.Option(metavar="PATH", help="A folder, or a .zip, for three tables.")] = None,
    html: Annotated[Place, typer.Option(metavar="FILE", help="The report as one page.")] = None,
    json: Annotated[Place, typer.Option(metavar="FILE", help="Everything, for programs.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    home: Home = None,
) -> None:
    """Write a backtest to files: tables, a report, JSON."""
    home, _ = group_options(context, home, False)
    with open_home(home) as book:
        places = book.backtests.export(name, csv=csv, html=html, json=json, overwrite=overwrite)
    print_lines([f"written: {place}" for place in places])


@group.command()
def remove(context: typer.Context, name: Id, *, home: Home = None) -> None:
    """Delete a backtest; the same plan can be run again."""
    home, _ = group_options(context, home, False)
    with open_home(home) as book:
        print_lines([f"removed {book.backtests.remove(name)}"])


def _list(home: str | None, json: bool) -> None:
    with open_home(home) as book:
        found = book.backtests.all()
    if json:
        print_json(found)
    else:
        print_table(found, BACKTESTS, empty="no backtests yet; `tapebook backtest AGENT` makes one")


def _print(lines: list[str]) -> None:
    # They are clean already, and their indents are part of them.
    print(*lines, sep="\n")
