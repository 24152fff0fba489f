"""The command `up`: scheduler, worker, executor and librarian, together or alone, and what happens, line by line."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tapebook.domain.instants import iso
from tapebook.domain.text import escape_hidden, plural
from tapebook.surfaces.cli.options import Home, home_folder
from tapebook.surfaces.cli.output import complain, one_line, print_lines
from tapebook.surfaces.cli.progress import Show, progress

if TYPE_CHECKING:
    from tapebook.app import HomeEvent, HomeTotals, RoleProgress, SupervisorProgress

Only = Annotated[
    Literal["scheduler", "worker", "executor", "librarian"] | None,
    typer.Option("--only", metavar="ROLE", help="One role here: scheduler, worker, executor or librarian."),
]
WithIngest = Annotated[bool, typer.Option("--with-ingest", help="Listen to the market as well.")]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Whose clock to follow; else the url of the settings.")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="N", min=0.1, help="Stop after N seconds; else run until stopped.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not print what happens, only problems.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, a summary last.")]


def up(
    *,
    only: Only = None,
    with_ingest: WithIngest = False,
    url: Url = None,
    seconds: Seconds = None,
    quiet: Quiet = False,
    home: Home = None,
    json: JsonLines = False,
) -> None:
    """Let the agents trade: decide when due, send orders."""
    from tapebook import app

    if only and with_ingest:
        raise typer.BadParameter("run `tapebook ingest` beside it", param_hint="--with-ingest")
    place, printer = home_folder(home), _Printer(app.HomeTotals(), as_json=json)
    lookout = None if quiet else app.Lookout(printer.show, printer.totals)
    # A supervisor reads how its roles come along from their plain lines.
    with progress(only or "desk", on_terminal_only=not (only and quiet)) as show:
        try:
            if only:
                role = _Role(show, printer)
                app.serve_role(place, only, url=url, seconds=seconds, report=role, lookout=lookout)
                print_lines([] if json else [role.words])
            else:
                desk = _Desk(show, printer)
                app.run_desk(
                    place,
                    with_ingest=with_ingest,
                    url=url,
                    seconds=seconds,
                    told=printer.say,
                    report=desk,
                    lookout=lookout,
                )
        finally:
            if lookout is not None and printer.is_begun:
                printer.summary()
    if printer.failure and not printer.totals.decisions:
        complain(f"nothing was decided, {plural(printer.totals.failures, 'failure')}: {printer.failure}")
        raise typer.Exit(1)


class _Printer:
    """Prints what happens: aligned lines for people, or JSON objects; there, what roles say is one too."""

    def __init__(self, totals: "HomeTotals", *, as_json: bool) -> None:
        self.totals = totals
        self.restarts = 0
        self.failure = ""
        self.is_begun = False
        self._as_json = as_json
        # As wide as the widest so far: who trades is not known before.
        self._agent, self._symbol = 14, 6

    def show(self, event: "HomeEvent") -> None:
        """Prints an event."""
        self.failure = event.text if event.kind == "failure" else self.failure
        if self._as_json:
            _write_json(event.to_dict())
            return
        agent, symbol = one_line(event.agent) or "-", one_line(event.symbol) or "-"
        self._agent, self._symbol = max(self._agent, len(agent)), max(self._symbol, len(symbol))
        when = iso(event.at)[5:19].replace("T", " ")
        _write(f"{when}  {agent:<{self._agent}}  {symbol:<{self._symbol}}  {event.kind:<8}  {one_line(event.text)}")

    def say(self, line: str) -> None:
        """Prints what a role says of itself."""
        if self._as_json:
            _write_json({"event": "notice", "text": one_line(line)})
        else:
            print(one_line(line), file=sys.stderr, flush=True)

    def summary(self) -> None:
        """Prints how much happened."""
        if self._as_json:
            _write_json(self.totals.to_dict() | {"restarts": self.restarts})
        else:
            again = f", {plural(self.restarts, 'role')} started again" if self.restarts else ""
            _write(f"{self.totals.sentence()}{again}")


class _Role:
    """Shows how one role goes, and says a problem once, when it begins."""

    def __init__(self, show: Show, printer: _Printer) -> None:
        self._show = show
        self._printer = printer
        self._problem: str | None = None
        self.words = "nothing was done"

    def __call__(self, now: "RoleProgress") -> None:
        self._printer.is_begun = True
        if now.problem and now.problem != self._problem:
            self._printer.say(f"warning: {now.problem}")
        if now.notice:
            self._printer.say(now.notice)
        self._problem, self.words = now.problem, now.words
        self._show(None, now.words)


class _Desk:
    """Shows how all roles go."""

    def __init__(self, show: Show, printer: _Printer) -> None:
        self._show = show
        self._printer = printer

    def __call__(self, now: "SupervisorProgress") -> None:
        self._printer.is_begun, self._printer.restarts = True, now.restarts
        again = f"  ({now.restarts} started again)" if now.restarts else ""
        self._show(None, "; ".join(f"{role}: {words}" for role, words in now.said.items()) + again)


def _write(line: str) -> None:
    # In one piece: two threads print.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _write_json(value: dict[str, Any]) -> None:
    import msgspec

    _write(escape_hidden(msgspec.json.encode(value).decode()))
