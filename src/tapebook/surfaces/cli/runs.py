"""Commands on decisions: `tick`, `runs`, `replay`, `compare`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.errors import BadInput, Damaged, Stop
from tapebook.surfaces.cli.options import Agent, AsOf, Before, Home, Json, Most, Symbol, group_options, open_home
from tapebook.surfaces.cli.output import (
    Column,
    amount,
    cell,
    complain,
    first_on_screen,
    minute,
    money,
    one_line,
    price,
    print_json,
    print_lines,
    print_page,
    print_record,
    print_table,
    print_text,
    progress,
    shorten_on_screen,
    whole,
)

if TYPE_CHECKING:
    from tapebook.api.app import ShadowReport


RUNS = [
    Column("run", "run_id"),
    Column("as of", "as_of", minute),
    Column("agent", "agent", cut=True),
    Column("symbol", "symbol"),
    Column("status", "status"),
    Column("decided", "actions", lambda actions: cell([_short_action(action) for action in actions]), cut=True),
]
# Packets that differ mostly differ in many lines for one cause.
SHOWN_DIFFERENCES = 10
_ENDED_WORDS = {"failed": "failed", "rejected": "was refused", "expired": "expired"}
# What the lines of a citation may take of the screen; --json has all of them.
SHOWN_LINES = 240
Run = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or how it begins.")]

group = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@group.callback()
def runs(
    context: typer.Context,
    *,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only runs of this agent.")] = None,
    most: Most = 20,
    before: Before = None,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """List decisions, newest first, or show one."""
    if context.invoked_subcommand is not None:
        return
    with open_home(home) as book:
        found = book.runs(agent, most=most, before=before, as_of=as_of)
    if json:
        print_json({"rows": found, "next": found.next})
    else:
        print_page([_mark_dry(run) for run in found], RUNS, following=found.next, empty="no runs yet")


@group.command()
def show(
    context: typer.Context,
    run: Run,
    *,
    packet: Annotated[bool, typer.Option("--packet", help="Only the text the engine was sent.")] = False,
    reply: Annotated[bool, typer.Option("--reply", help="Only the text the engine answered.")] = False,
    reasoning: Annotated[bool, typer.Option("--reasoning", help="Only what a model thought beside its reply.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Explain one decision: what was told, said, allowed, and done."""
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        found = book.run(run)
    if packet or reply or reasoning:
        _print_texts(found, ["packet"] * packet + ["reply"] * reply + ["reasoning"] * reasoning)
    elif json:
        print_json(found)
    else:
        print_run(found)


def tick(agent: Agent, symbol: Symbol, *, home: Home = None, json: Json = False) -> None:
    """Let an agent decide on a symbol once, now."""
    with open_home(home) as book:
        earlier = book.made_earlier(agent, symbol)
        run = book.run(earlier.run.run_id if earlier else book.tick(agent, symbol).run_id)
    if json:
        print_json({**run, "made_earlier": earlier is not None})
    elif earlier:
        name = run["run_id"]
        go_on = f"tapebook demo --seconds {earlier.demo_seconds}" + (f" --home {home}" if home else "")
        print_lines(
            [
                f"made earlier: run {name} as of {run['as_of']} ({run['status']}); the market has not moved since",
                f"`{go_on}` moves it on, `tapebook runs show {name}` shows the run",
            ]
        )
    else:
        print_run(run)
    if run["status"] in ("failed", "rejected", "expired"):
        complain(f"run {run['run_id']} {_ENDED_WORDS[run['status']]}: {_why_not_done(run)}")
        raise typer.Exit(1)


def _why_not_done(run: Mapping[str, Any]) -> str:
    """What kept a decision from being carried out: the engine, the guard, the gate or the broker."""
    refused = [f"{action['rule']}: {action['detail']}" for action in run["actions"] if action["rule"]]
    ended = [order["detail"] for order in run["orders"] if order["status"] == "rejected"]
    return run["error"] or "; ".join([*refused, *ended]) or "no reason was recorded"


def replay(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="The id of a run, or how it begins.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run of the home.")] = False,
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Build what a decision was given again, and compare the bytes."""
    if (run is None) != every:
        raise typer.BadParameter("name one run, or --all for every one", param_hint="RUN")
    with open_home(home) as book, progress("replay") as step:
        report = book.replay(run, progress=lambda done: step(None, plural(done, "run")))
    if json:
        print_json(report)
    else:
        partly = len(report.inputs_equal)
        more = f"; of {partly:,} the inputs are equal and the text cannot be made again" if partly else ""
        print(f"{report.equal:,} of {report.checked:,} packets are equal byte for byte{more}")
        print_lines(first_on_screen(report.different, SHOWN_DIFFERENCES))
        print_lines(first_on_screen(report.inputs_equal, SHOWN_DIFFERENCES))
    if report.different:
        complain(
            f"{len(report.different):,} of {report.checked:,} runs differ (--json lists all): the book or the code "
            "that builds packets has changed; `tapebook verify` tells which"
        )
        raise typer.Exit(Stop.exit_code)


def _print_texts(run: Mapping[str, Any], names: list[str]) -> None:
    """A text as it was sent or answered, without anything around it."""
    for name in names:
        if run[name] is None and run["problems"]:
            raise Damaged(f"the {name} of {run['run_id']} cannot be shown: {run['problems'][0]}")
        if run[name] is None:
            if name == "reasoning" and run["reply_key"]:
                raise BadInput(f"{run['run_id']} has no reasoning: no model was asked, or its provider showed none")
            unwritten = any(cause.startswith("archive: ") for cause in run["degraded_causes"])
            why = "neither the archive nor the spool could be" if unwritten else "the setting archive.packets was off"
            raise BadInput(f"the {name} of {run['run_id']} is not kept: {why}{' written' * unwritten}")
        print_text(run[name])


def print_run(run: Mapping[str, Any]) -> None:
    """One decision for people: what was known, what was decided, what the guard said, what came of it."""
    actions = run["actions"]
    parts = [f"{part['name']} {part['tokens']:,}{_dropped_text(part)}" for part in run["sections"] or []]
    record = {
        "run": run["run_id"],
        "agent": f"{run['agent']}, version {run['agent_version']}",
        "symbol": run["symbol"],
        "as of": f"{run['as_of']}, {run['late_ms'] / 1000:.1f} s after its time",
        "trigger": run["trigger"],
        "mode": "dry run: nothing is sent, and nothing counts in an account" if run["dry"] else None,
        "engine": run["engine"],
        "prompt": [f"{run['tokens']:,} tokens, sha256 {shorten_on_screen(run['packet_sha256'], 17)}", *parts],
        "status": f"{run['status']} since {run['completed_at']}" if run["completed_at"] else run["status"],
        "decided": [action_sentence(action) for action in actions],
        "because": [action["reason"] for action in actions],
        "citations": [_citation(each) for each in run.get("citations") or []],
        "flagged": [f"nothing in the packet explains {flag}" for action in actions for flag in action["flags"]],
        "votes": [_vote(vote) for vote in run["votes"]],
        "model": _usage(run["usage"]),
        "thought": f"{run['reason_key']} of the archive; --reasoning prints it" if run["reason_key"] else None,
        "degraded": run["degraded"],
        "causes": run["degraded_causes"],
        "problems": run["problems"],
        "note": run["note"],
        "error": run["error"],
        "orders": [_order(order) for order in run["orders"]],
        "fills": [_fill(fill) for fill in run["fills"]],
        "trades": [_trade(trade) for trade in run["trades"]],
    }
    # A line that says nothing is left out, except of what went wrong: that nothing did is worth reading.
    print_record({key: value for key, value in record.items() if value or key in ("degraded", "error")})


def _mark_dry(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """A run for the list; one that was never to be traded says so, and one that lacked something."""
    marks = ["shadow"] * (run["trigger"] == "shadow") + ["dry"] * run["dry"] + ["degraded"] * bool(run["degraded"])
    return {**run, "status": f"{run['status']} ({', '.join(marks)})"} if marks else run


def _dropped_text(part: Mapping[str, Any]) -> str:
    return f" ({part['shown']} of {part['shown'] + part['dropped']} rows)" if part["dropped"] else ""


def _vote(vote: Mapping[str, Any]) -> str:
    what = " ".join(filter(None, [vote["action"], vote["side"]]))
    return (
        f"{vote['engine']}: {what}, confidence {vote['confidence']:.2f}, weight {vote['weight']:.2f}: {vote['reason']}"
    )


def _usage(usage: Mapping[str, Any] | None) -> str | None:
    if usage is None:
        return None
    if usage.get("reused"):
        return f"{usage['model']}: the answer that the same question got before; it cost nothing"
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    return f"{usage['model']}: {tokens}, {usage['cost_usd']:.6f} USD, attempts: {usage['attempts']}"


def _citation(citation: Mapping[str, Any]) -> str:
    used = ", cited" if citation["cited"] else ""
    place = f"{citation['path']}:{citation['startLine']}-{citation['endLine']}"
    text = one_line(citation["text"] or citation["snippet"])
    return f"[{citation['id']}{used}] {place} {citation['score']:.2f}: {shorten_on_screen(text, SHOWN_LINES)}"


def _order(order: Mapping[str, Any]) -> str:
    limit = f" at {price(order['limit_price'])}" if order["limit_price"] is not None else ""
    only = ", reduce only" if order["reduce_only"] else ""
    detail = f" ({order['detail']})" if order["detail"] else ""
    what = f"{order['side']} {amount(order['size'])} {order['symbol']}, {order['order_type']}{limit}{only}"
    return f"{what}: {order['status']}{detail}"


def _fill(fill: Mapping[str, Any]) -> str:
    what = f"{fill['side']} {amount(fill['size'])} {fill['symbol']} at {price(fill['price'])}"
    return f"{fill['happened_at']} {what}, fee {money(fill['fee_usd'])} USD, {'maker' if fill['maker'] else 'taker'}"


def _trade(trade: Mapping[str, Any]) -> str:
    ended = f"closed after {whole(trade['holding_minutes'])} min, " if trade["status"] == "closed" else "open, "
    return f"{trade['role']} of {trade['side']} {trade['symbol']}: {ended}net {money(trade['net_pnl_usd'])} USD"


def _short_action(action: Mapping[str, Any]) -> str:
    """`long 250` for opening one, beside a column that has the symbol."""
    if action["action"] in ("hold", "close"):
        return str(action["action"])
    verb = "" if action["action"] == "open" else f"{action['action']} "
    return f"{verb}{action['side']} {whole(action['notional_usd'])}"


def action_sentence(action: Mapping[str, Any]) -> str:
    """An action with its verdict."""
    words = [action["action"], action["side"], action["symbol"]]
    if action["action"] in ("open", "adjust"):
        words += [f"{money(action['notional_usd'])} USD at {action['leverage']}x,", action["order_type"]]
    verdict = f"refused by {action['rule']}, {action['detail']}" if action["rule"] else "allowed"
    return f"{' '.join(word for word in words if word)}: {verdict}"


SHADOW_TABLE = [Column("main", "main"), Column("shadow", "shadow"), Column("pairs", "pairs")]
SHADOW_TICKS = [
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
    with open_home(home) as book, progress("compare") as step:
        if second is None:
            found: Any = book.compare_shadow(first, most=most, progress=lambda done: step(None, plural(done, "pair")))
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
    print_table(report.table, SHADOW_TABLE, empty="")
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
    print_table(first_on_screen(differing, SHOWN_TICKS), SHADOW_TICKS, empty="every pair decided the same")


def _print_runs(found: Mapping[str, Any]) -> None:
    for name in ("first", "second"):
        run = found[name]
        print_lines([f"{run['run_id']} {run['agent']} {run['symbol']} as of {run['as_of']}: {run['status']}"])
        print(*(f"  {one_line(action_sentence(action))}" for action in run["actions"]), sep="\n")
    if found["diff"] is None:
        print("the text of a packet is not kept, so there is nothing to compare")
    elif not found["diff"]:
        print("both were told the same, byte for byte")
    else:
        print_text("\n".join(found["diff"]))
