"""The command `demo`: the whole system offline on an invented market, ended by a report."""

from typing import TYPE_CHECKING, Annotated

import typer

from tapebook.domain.instants import minute_text
from tapebook.surfaces.cli.options import Home, Json, home_folder
from tapebook.surfaces.cli.output import print_json, print_lines
from tapebook.surfaces.cli.progress import progress

if TYPE_CHECKING:
    from tapebook.app import DemoProgress

# A second is twenty minutes of market: this is three years of it, and infinity would never end.
LONGEST = 86_400.0


def demo(
    *,
    seconds: Annotated[
        float, typer.Option(metavar="N", min=0.1, max=LONGEST, help="Seconds to run; each is 20 minutes of market.")
    ] = 30.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Which market to invent.")] = 7,
    home: Home = None,
    fast: Annotated[bool, typer.Option("--fast", help="As fast as the machine can, not at an even pace.")] = False,
    no_web: Annotated[
        bool, typer.Option("--no-web", help="Terminal only; there is no dashboard yet, so this changes nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Run agents on an invented market, offline, and print a report."""
    from tapebook import app

    with progress("demo") as show:
        report = app.demo(
            home_folder(home),
            seconds=seconds,
            seed=seed,
            paced=not fast,
            progress=lambda step: show(step.done, _words(step)),
        )
    if json:
        print_json(report.to_dict())
    else:
        print_lines(report.lines())


def _words(step: "DemoProgress") -> str:
    return f"{minute_text(step.market_time)}  rows {step.rows:,}  ticks {step.ticks:,}  trades {step.trades:,}"
