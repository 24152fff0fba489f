"""Commands that run the desk, serve it and stop it: `up`, `mcp`, `halt`, `resume`, `flatten`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from tapebook.domain.text import escape_hidden_characters, plural
from tapebook.domain.units import iso_text
from tapebook.surfaces.cli.options import Home, Json, home_folder, open_home
from tapebook.surfaces.cli.output import Show, complain, one_line, print_json, print_lines, progress

if TYPE_CHECKING:
    from tapebook.api.app import FlattenReport, HomeEvent, HomeTotals, RoleProgress, SupervisorProgress


Role = Literal["scheduler", "worker", "executor", "librarian", "backup"]


def _check_roles(given: list[str] | None) -> list[str]:
    # A list of literals is more than the library can read.
    for name in given or ():
        if name not in get_args(Role):
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, get_args(Role)))}")
    return given or []


Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        callback=_check_roles,
        metavar="ROLE",
        help="Only scheduler, worker, executor, librarian or backup; repeatable.",
    ),
]
WithIngest = Annotated[bool, typer.Option("--with-ingest", help="Listen to the market as well.")]
WithApi = Annotated[bool, typer.Option("--with-api", help="Serve the HTTP API as well.")]
ApiPort = Annotated[int, typer.Option("--api-port", metavar="N", min=1, max=65535, help="The port of the HTTP API.")]
WithWeb = Annotated[bool, typer.Option("--with-web", help="Serve the page as well, to this machine.")]
WebPort = Annotated[int, typer.Option("--web-port", metavar="N", min=1, max=65535, help="The port of the page.")]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Whose clock to follow; else the url of the settings.")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="N", min=0.1, help="Stop after N seconds; else run until stopped.")
]
Parent = Annotated[
    int | None, typer.Option("--parent", metavar="PID", help="The process that started it, with which it ends.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not print what happens, only problems.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, a summary last.")]


def up(
    *,
    only: Only = None,
    with_ingest: WithIngest = False,
    with_api: WithApi = False,
    api_port: ApiPort = 8017,
    with_web: WithWeb = False,
    web_port: WebPort = 8710,
    url: Url = None,
    seconds: Seconds = None,
    quiet: Quiet = False,
    home: Home = None,
    json: JsonLines = False,
) -> None:
    """Let the agents trade: decide when due, send orders."""
    from tapebook.api import app

    # One role runs in this process, several below a supervisor.
    roles = cast("list[Role]", only or [])
    alone = roles[0] if len(roles) == 1 else None
    if alone and with_ingest:
        raise typer.BadParameter("run `tapebook ingest` beside it", param_hint="--with-ingest")
    if only and with_api:
        raise typer.BadParameter("run `tapebook api` beside it", param_hint="--with-api")
    if only and with_web:
        raise typer.BadParameter("run `tapebook web` beside it", param_hint="--with-web")
    place, printer = home_folder(home), _EventPrinter(app.HomeTotals(), as_json=json)
    lookout = None if quiet else app.HomeObserver(printer.print_event, printer.totals)
    # A supervisor reads how its roles come along from their plain lines.
    with progress(alone or "desk", on_terminal_only=not (alone and quiet)) as show:
        try:
            if alone:
                role = _RoleProgress(show, printer)
                app.serve_role(place, alone, url=url, seconds=seconds, report=role, lookout=lookout)
                print_lines([] if json else [role.words])
            else:
                desk = _DeskProgress(show, printer)
                app.run_desk(
                    place,
                    only=roles,
                    with_ingest=with_ingest,
                    api_port=api_port if with_api else None,
                    web_port=web_port if with_web else None,
                    url=url,
                    seconds=seconds,
                    print_line=printer.print_notice,
                    report=desk,
                    lookout=lookout,
                )
        finally:
            if lookout is not None and printer.is_begun:
                printer.print_summary()
    if printer.failure and not printer.totals.decisions:
        complain(f"nothing was decided, {plural(printer.totals.failures, 'failure')}: {printer.failure}")
        raise typer.Exit(1)


def web(
    place: Annotated[str | None, typer.Argument(metavar="HOME", help="The home; else --home.")] = None,
    *,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on, of this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65_535, help="The port to listen on.")] = 8710,
    seconds: Seconds = None,
    parent: Parent = None,
    home: Home = None,
) -> None:
    """Serve the page: look at a home in a browser, live."""
    with open_home(place or home) as book:
        # It loads a web server, which takes longer than most commands run.
        from tapebook.surfaces.web.server import serve_pages

        print_lines([f"http://{host}:{port}   (Ctrl-C ends it)"])
        sys.stdout.flush()
        serve_pages(book, host=host, port=port, seconds=seconds, parent=parent)


class _EventPrinter:
    """Prints what happens: aligned lines for people, or JSON objects; there, what roles say is one too."""

    def __init__(self, totals: "HomeTotals", *, as_json: bool) -> None:
        self.totals = totals
        self.restarts = 0
        self.failure = ""
        self.is_begun = False
        self._as_json = as_json
        # As wide as the widest so far: who trades is not known before.
        self._agent, self._symbol = 14, 6

    def print_event(self, event: "HomeEvent") -> None:
        """Prints an event."""
        self.failure = event.text if event.kind == "failure" else self.failure
        if self._as_json:
            _write_json(event.to_dict())
            return
        agent, symbol = one_line(event.agent) or "-", one_line(event.symbol) or "-"
        self._agent, self._symbol = max(self._agent, len(agent)), max(self._symbol, len(symbol))
        when = iso_text(event.at)[5:19].replace("T", " ")
        _write_line(
            f"{when}  {agent:<{self._agent}}  {symbol:<{self._symbol}}  {event.kind:<8}  {one_line(event.text)}"
        )

    def print_notice(self, line: str) -> None:
        """Prints what a role says of itself."""
        if self._as_json:
            _write_json({"event": "notice", "text": one_line(line)})
        else:
            print(one_line(line), file=sys.stderr, flush=True)

    def print_summary(self) -> None:
        """Prints how much happened."""
        if self._as_json:
            _write_json(self.totals.to_dict() | {"restarts": self.restarts})
        else:
            again = f", {plural(self.restarts, 'role')} started again" if self.restarts else ""
            _write_line(f"{self.totals.sentence()}{again}")


class _RoleProgress:
    """Shows how one role goes, and says a problem once, when it begins."""

    def __init__(self, show: Show, printer: _EventPrinter) -> None:
        self._show = show
        self._printer = printer
        self._problem: str | None = None
        self.words = "nothing was done"

    def __call__(self, now: "RoleProgress") -> None:
        self._printer.is_begun = True
        if now.problem and now.problem != self._problem:
            self._printer.print_notice(f"warning: {now.problem}")
        if now.notice:
            self._printer.print_notice(now.notice)
        self._problem, self.words = now.problem, now.words
        self._show(None, now.words)


class _DeskProgress:
    """Shows how all roles go."""

    def __init__(self, show: Show, printer: _EventPrinter) -> None:
        self._show = show
        self._printer = printer

    def __call__(self, now: "SupervisorProgress") -> None:
        self._printer.is_begun, self._printer.restarts = True, now.restarts
        again = f"  ({now.restarts} started again)" if now.restarts else ""
        self._show(None, "; ".join(f"{role}: {words}" for role, words in now.said.items()) + again)


def _write_line(line: str) -> None:
    # In one piece: two threads print.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _write_json(value: dict[str, Any]) -> None:
    import msgspec

    _write_line(escape_hidden_characters(msgspec.json.encode(value).decode()))


AgentOrAll = Annotated[str | None, typer.Argument(metavar="AGENT", help="One agent; else every one.")]
OneAgent = Annotated[str | None, typer.Argument(metavar="AGENT", help="One agent.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the event.")]


def halt(agent: AgentOrAll = None, *, reason: Reason = "by hand", home: Home = None, json: Json = False) -> None:
    """Stop an agent, or all of them, from sending orders."""
    with open_home(home) as book:
        switched = book.halt(agent, reason=reason)
    if json:
        print_json(switched)
    else:
        who, command = (agent, f"tapebook resume {agent}") if agent else ("the desk", "tapebook resume")
        stands = "is halted" if switched.changed else "was halted already"
        print_lines([f"{who} {stands}: nothing is sent until `{command}`"])


def resume(agent: AgentOrAll = None, *, reason: Reason = "by hand", home: Home = None, json: Json = False) -> None:
    """End the halt of an agent, or that of the whole desk."""
    with open_home(home) as book:
        switched = book.resume(agent, reason=reason)
    if json:
        print_json(switched)
    else:
        done = "may send orders again" if switched.changed else "was not halted"
        still = ", ".join(name or "the whole desk" for name in switched.halts)
        print_lines([f"{agent or 'the desk'} {done}" + (f"; still halted: {still}" if still else "")])


def flatten(
    agent: OneAgent = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every agent.")] = False,
    symbol: Annotated[str | None, typer.Option(metavar="SYMBOL", help="Only this symbol, such as BTC.")] = None,
    reason: Reason = "by hand",
    home: Home = None,
    json: Json = False,
) -> None:
    """Cancel orders and close positions of an agent, or of all."""
    if (agent is None) != every:
        raise typer.BadParameter("name one agent, or --all for every one", param_hint="AGENT")
    with open_home(home) as book:
        found = book.flatten(agent, symbol=symbol, reason=reason)
    if json:
        print_json(found)
    else:
        print_lines(map(_flattened_sentence, found) if found else ["nothing was ever traded here"])


def _flattened_sentence(done: "FlattenReport") -> str:
    if done.left_to_desk:
        return f"{done.deployment}: the desk that is running closes it at its next turn"
    ended = [f"closed {', '.join(done.closed)}"] if done.closed else []
    under_way = [f"closing {', '.join(done.closing) or 'no position'}"] if done.closing or not ended else []
    what = ", ".join([*ended, *under_way])
    return f"{done.deployment}: {what}, {plural(done.cancelled, 'order')} cancelled; `tapebook halt` keeps it flat"


def mcp(
    *,
    allow: Annotated[
        Literal["read", "record"],
        typer.Option("--allow", metavar="SCOPE", help="What callers may do: read, or also record (append and tell)."),
    ] = "read",
    home: Home = None,
) -> None:
    """Serve the memory to a chat agent over MCP."""
    # The SDK takes seconds to import.
    from tapebook.surfaces.mcp.server import ProcessAccess, make_server

    with open_home(home) as book:
        make_server(ProcessAccess(book, frozenset({"read", allow}))).run("stdio")
