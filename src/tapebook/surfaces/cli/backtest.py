"""The command `backtest`: an agent over the history of the tape, chunk by chunk."""

import sys
from typing import Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.errors import BadInput, Stop
from tapebook.surfaces.cli.options import Agent, Home, Json, instant, opened
from tapebook.surfaces.cli.output import print_json, print_lines
from tapebook.surfaces.cli.progress import progress

CHUNKS = ("quarter", "month", "week", "none")
MEMORY = ("on", "off", "frozen")
FILLS = ("next_open", "bar_close", "worst")


def _one_of(value: str, known: tuple[str, ...]) -> Any:
    if value not in known:
        raise typer.BadParameter(f"{value!r} is none of: {', '.join(known)}")
    return value


def backtest(
    agent: Agent,
    *,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="ISO-8601 or ms; else its start.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="ISO-8601 or ms; else its end.")] = None,
    chunks: Annotated[str, typer.Option(metavar="KIND", help="quarter, month, week or none.")] = "quarter",
    memory: Annotated[str, typer.Option(metavar="MODE", help="on, off or frozen.")] = "on",
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
    home: Home = None,
    json: Json = False,
) -> None:
    """Run an agent over past bars, or go on with it, or show it."""
    from tapebook import app

    if chunk and not again:
        raise BadInput("--chunk names what to make again: use it with --again")
    wish = {
        "start": instant(start) if start else None,
        "end": instant(end) if end else None,
        "chunks": _one_of(chunks, CHUNKS),
        "memory": _one_of(memory, MEMORY),
        "freeze_at": instant(freeze_at) if freeze_at else None,
        "gaps": gaps,
        "fill": _one_of(fill, FILLS) if fill else None,
    }
    with opened(home) as book, progress("backtest") as show:

        def tell(step: app.BacktestProgress) -> None:
            show(step.done, f"{step.chunk}  {step.ticks:,} ticks  {step.ticks_per_second:,.0f}/s{_paid(step.spent)}")

        def agree(estimate: app.CostEstimate) -> bool:
            return _agree(app.cost_sentence(estimate), limit=max_usd, costs=bool(estimate.most_usd_e6))

        if again:
            _print_comparison(book.backtest_again(agent, chunk=chunk, progress=tell, **wish), json=json)
            return
        told = (lambda result: None) if json else (lambda result: print("", *app.chunk_lines(result), sep="\n"))
        result = book.backtest(agent, progress=tell, chunk=told, max_usd=max_usd, agree=agree, **wish)
        if html:
            book.backtests.export(result.id, html=html)
        found = book.backtests.show(result.id)
        spent = book.backtests.spent(result.id)
    print_json(found) if json else print("", *app.summary_lines(result, spent=spent), sep="\n")


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


def _paid(spent: Any) -> str:
    return f"  {plural(spent.calls, 'call')}  {spent.cost_usd_e6 / 1e6:,.2f} USD" if spent else ""


def _print_comparison(found: Any, *, json: bool) -> None:
    if json:
        print_json(found)
    elif not found.differs:
        print_lines([f"{found.what}: made again, the same bytes"])
    if found.differs:
        raise Stop(f"{found.what}: made again, these differ: {', '.join(found.differs)}; report it as a bug")
