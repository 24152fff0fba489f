"""The command `compare`: two decisions line by line, or an agent's decisions beside those of its shadow."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import Home, Json, Most, opened
from tapebook.surfaces.cli.output import (
    Column,
    first_on_screen,
    minute,
    one_line,
    print_json,
    print_lines,
    print_table,
    print_text,
    whole,
)
from tapebook.surfaces.cli.progress import progress
from tapebook.surfaces.cli.runs import sentence

if TYPE_CHECKING:
    from tapebook.app import ShadowReport

TABLE = [Column("main", "main"), Column("shadow", "shadow"), Column("pairs", "pairs")]
TICKS = [
    Column("as of", "as_of", minute),
    Column("symbol", "symbol"),
    Column("main", "main"),
    Column("shadow", "shadow"),
    Column("tokens", "main_tokens", whole),
    Column("shadow tokens", "shadow_tokens", whole),
    Column("sections that differ", "sections", cut=True),
]
SHOWN_TICKS = 10


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="A run, by how its id begins; with --shadow, an agent.")],
    second: Annotated[str | None, typer.Argument(metavar="RUN", help="Another run.")] = None,
    *,
    shadow: Annotated[bool, typer.Option("--shadow", help="An agent's decisions beside its shadow's.")] = False,
    most: Most = 500,
    home: Home = None,
    json: Json = False,
) -> None:
    """Compare two decisions, or an agent with its shadow."""
    if (second is None) != shadow:
        raise typer.BadParameter("name two runs, or one agent and --shadow", param_hint="RUN")
    with opened(home) as book, progress("compare") as step:
        if second is None:
            found: Any = book.compare_shadow(first, most=most, progress=lambda done: step(None, plural(done, 'pair')))
        else:
            found = book.compare_runs(first, second)
    if json:
        print_json(found)
    elif second is None:
        _print_shadow(found)
    else:
        _print_runs(found)


def _print_shadow(report: "ShadowReport") -> None:
    lost = f"; {plural(report.unpaired, 'shadow decision')} without a pair" if report.unpaired else ""
    if not report.pairs:
        print(f"no pairs yet: give {report.agent} a shadow with `tapebook agents edit {report.agent} --shadow …`{lost}")
        return
    print_table(report.table, TABLE, empty="")
    saved, n = report.main_tokens - report.shadow_tokens, f"over {plural(report.pairs, 'pair')}"
    how = "fewer" if saved >= 0 else "more"
    print_lines(
        [
            f"{report.differing:,} of {report.pairs:,} decisions differ{lost}",
            f"tokens {n}: main {report.main_tokens:,}, shadow {report.shadow_tokens:,}, {abs(saved):,} {how}",
            f"the shadow's model calls {n} cost {report.shadow_cost_usd:.6f} USD",
        ]
    )
    rows = [{name: getattr(pair, name) for name in pair.__struct_fields__} for pair in report.ticks]
    differing = [row for row in rows if row["differs"]]
    print_table(first_on_screen(differing, SHOWN_TICKS), TICKS, empty="every pair decided the same")


def _print_runs(found: dict[str, Any]) -> None:
    for name in ("first", "second"):
        run = found[name]
        print_lines([f"{run['run_id']} {run['agent']} {run['symbol']} as of {run['as_of']}: {run['status']}"])
        print(*(f"  {one_line(sentence(action))}" for action in run["actions"]), sep="\n")
    if found["diff"] is None:
        print("the text of a packet is not kept, so there is nothing to compare")
    elif not found["diff"]:
        print("both were told the same, byte for byte")
    else:
        print_text("\n".join(found["diff"]))
