"""Commands on experience: `show`, `snapshots`, `similar`, `export`, `import`, `forget`, `remember`, `rebuild`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import Agent, AsOf, Home, Json, Symbol, open_home
from tapebook.surfaces.cli.output import Column, minute, money, print_json, print_lines, print_table

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder of JSON files, one per outcome.")]

group = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="What outcomes taught: whom to trust, and where.")


def _bps(mean: dict[str, float] | None) -> str:
    return "-" if mean is None else f"{mean['value']:+.1f} ({mean['low']:+.1f} to {mean['high']:+.1f})"


def _rate(share: dict[str, float] | None) -> str:
    return "-" if share is None else f"{share['value']:.0%} ({share['low']:.0%} to {share['high']:.0%})"


def _trend(trend: dict[str, Any] | None) -> str:
    return "-" if trend is None else f"{trend['direction']} {_bps(trend['change_bps'])}"


def _weight(weight: float | None) -> str:
    return "-" if weight is None else f"{weight:.2f}"


def _gain(bps: float) -> str:
    return f"{bps:+,.1f}"


RESULT = [Column("n", "n"), Column("bps a trade (95%)", "mean_bps", _bps), Column("won (95%)", "win_rate", _rate)]
TREND = Column("trend", "trend", _trend, cut=True)
WEIGHT = Column("weight", "weight", _weight)
MEMBERS = [
    Column("member", "name", cut=True),
    WEIGHT,
    Column("twin gained, bps", "gain_bps", _gain),
    Column("changes of mind", "changes"),
]
PROVIDERS = [Column("provider", "name", cut=True), WEIGHT, *RESULT, TREND]
HERE = [Column("provider", "provider", cut=True), Column("regime", "regime", cut=True), WEIGHT, *RESULT]
REGIMES = [Column("regime", "name"), *RESULT, TREND]
ASSETS = [Column("asset", "name"), *RESULT, TREND]
CALIBRATION = [Column("confidence", "confidence"), Column("n", "n"), Column("won (95%)", "win_rate", _rate)]
SNAPSHOTS = [
    Column("chunk", "chunk", cut=True),
    *RESULT,
    Column("net usd", "net_usd", money),
    Column("sharpe", "sharpe", _weight),
]
FORGOTTEN = [
    Column("forgotten", "id"),
    Column("outcomes", "outcomes"),
    Column("source", "source"),
    Column("provider", "provider", cut=True),
    Column("since", "since", minute),
    Column("until", "until", minute),
    Column("undone at", "undone_at", minute),
]


ALIKE = [Column("moment", "at", minute), Column("symbol", "symbol"), Column("distance", "distance", _weight)]


@group.command()
def show(agent: Agent, *, as_of: AsOf = None, home: Home = None, json: Json = False) -> None:
    """Show whom an agent trusts, where it does well, and since when."""
    with open_home(home) as book:
        found = book.experience.show(agent, as_of=as_of)
    if json:
        print_json(found)
    elif not any(found[part] for part in ("outcomes", "snapshots", "members", "forgotten")):
        print("no outcomes yet: they are learned from when a trade has ended")
    else:
        print_experience(cast(dict[str, Any], found))


@group.command()
def snapshots(agent: Agent, *, as_of: AsOf = None, home: Home = None, json: Json = False) -> None:
    """Show what each month, or chunk of a backtest, achieved."""
    with open_home(home) as book:
        found = book.experience.snapshots(agent, as_of=as_of)
    if json:
        print_json(found)
        return
    print_table(
        found, SNAPSHOTS, empty="no snapshots yet: one is taken at the end of each month, or chunk of a backtest"
    )
    for title, kind in (("provider", "providers"), ("regime", "regimes"), ("asset", "assets")):
        rows = [part | {"chunk": each["chunk"]} for each in found for part in each[kind]]
        if rows:
            print()
            named = [Column("chunk", "chunk", cut=True), Column(title, "name", cut=True)]
            print_table(rows, [*named, *RESULT, Column("net usd", "net_usd", money)], empty="")


@group.command()
def similar(agent: Agent, symbol: Symbol, *, as_of: AsOf = None, home: Home = None, json: Json = False) -> None:
    """Show the past moments most like one, and what came after."""
    with open_home(home) as book:
        found = book.experience.similar(agent, symbol, as_of=as_of)
    if json:
        print_json(found)
        return
    if found["searched"]:
        seen = "nothing like it was seen before" if found["novel"] else "it was seen before"
        print_lines([f"{symbol} as of {found['as_of']}, of {plural(found['searched'], 'moment')}: {seen}"])
    rows = [
        {**each, **{f"bps after {span}": move for span, move in each["moves_bps"].items()}}
        for each in found["neighbours"]
    ]
    moves = [Column(name, name, _move) for name in (rows[0] if rows else {}) if name.startswith("bps ")]
    print_table(rows, [*ALIKE, *moves], empty="nothing to compare with yet: moments are noted every hour")
    print_lines(f"{each['span']} later: {_bps(_estimate(each))} bps, n={each['n']}" for each in found["moves"])


def _move(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


def _estimate(move: Mapping[str, Any]) -> dict[str, float]:
    return {"value": move["mean_bps"], "low": move["low_bps"], "high": move["high_bps"]}


@group.command("export")
def export_files(agent: Agent, folder: Folder, *, home: Home = None, json: Json = False) -> None:
    """Write outcomes, snapshots and records to a new folder."""
    with open_home(home) as book:
        done = book.experience.export(agent, folder)
    if json:
        print_json(done)
    else:
        written = f"{plural(done.outcomes, 'outcome')} and {plural(done.snapshots, 'snapshot')}"
        print_lines([f"{written} written to {done.folder}"])


@group.command("import")
def import_files(
    agent: Agent,
    folder: Folder,
    *,
    source: Annotated[str | None, typer.Option(help="Name of the import; the folder's by default.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Learn from the files of a folder, all of them or none."""
    with open_home(home) as book:
        done = book.experience.import_files(agent, folder, source=source)
    if json:
        print_json(done)
    else:
        new = f"{done.new_outcomes:,} of {done.outcomes:,} outcomes"
        print_lines([f"{new} and {done.new_snapshots} of {done.snapshots} snapshots were new, and are learned"])
        print_lines(f"skipped: {each}" for each in done.skipped)


@group.command()
def forget(
    agent: Agent,
    *,
    source: Annotated[str, typer.Option(help="own, imported, or the name of an import.")] = "",
    provider: Annotated[str, typer.Option(help="Engine that decided, or member that voted for a side.")] = "",
    since: Annotated[str | None, typer.Option(help="Exits from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Exits before this time.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the event.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Let outcomes count no longer, until `remember`."""
    terms: dict[str, Any] = {"source": source, "provider": provider, "since": since, "until": until, "reason": reason}
    with open_home(home) as book:
        done = book.experience.forget(agent, **terms, dry_run=dry_run)
    if json:
        print_json(done)
    elif done.id is None:
        print_lines([f"{plural(done.outcomes, 'outcome')} would be forgotten" if dry_run else "no outcome meets that"])
    else:
        back = f"tapebook experience remember {agent} {done.id}"
        print_lines([f"{plural(done.outcomes, 'outcome')} forgotten from now on; `{back}` takes it back"])


@group.command()
def remember(
    agent: Agent,
    forget_id: Annotated[str, typer.Argument(metavar="ID", help="What `forget` said, and `show` lists.")],
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Take back what was forgotten: it counts again, from now on."""
    with open_home(home) as book:
        done = book.experience.remember(agent, forget_id)
    if json:
        print_json(done)
    else:
        print_lines([f"{plural(done.outcomes, 'outcome')} count again"])


@group.command()
def rebuild(agent: Agent, *, home: Home = None, json: Json = False) -> None:
    """Compute records and vectors again from outcomes, and compare."""
    with open_home(home) as book:
        done = book.experience.rebuild(agent)
    if json:
        print_json(done)
        return
    made = f"{plural(done.records, 'record')}, {plural(done.situations, 'situation')} and {plural(done.fits, 'fit')}"
    print_lines([f"{made} computed again from {plural(done.outcomes, 'outcome')}", *done.differences])
    print_lines([f"{len(done.differences)} differed and are put right" if done.differences else "nothing differed"])


def print_experience(found: dict[str, Any]) -> None:
    """The tables of `experience show`, those with something in them."""
    fit = found["fit"]
    window = f"fitted on {fit['first_situation']} to {fit['last_situation']}" if fit else "none is compared before 100"
    print_lines([f"{plural(found['outcomes'], 'outcome')}, {plural(found['situations'], 'situation')} ({window})"])
    here = [row | {"provider": each["name"]} for each in found["providers"] for row in each["regimes"]]
    tables = [
        (found["members"], MEMBERS),
        (found["providers"], PROVIDERS),
        (here, HERE),
        (found["regimes"], REGIMES),
        (found["assets"], ASSETS),
        (found["calibration"], CALIBRATION),
        (found["snapshots"], SNAPSHOTS),
        (found["forgotten"], FORGOTTEN),
    ]
    for rows, columns in tables:
        if rows:
            print()
            print_table(rows, columns, empty="")
