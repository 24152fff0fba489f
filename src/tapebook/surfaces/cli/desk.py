"""The command `up`: scheduler, worker, executor and librarian, together or each alone."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tapebook.surfaces.cli.options import Home, home_folder
from tapebook.surfaces.cli.output import one_line, print_lines
from tapebook.surfaces.cli.progress import Show, progress

if TYPE_CHECKING:
    from tapebook.app import RoleProgress, SupervisorProgress

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


def up(
    *, only: Only = None, with_ingest: WithIngest = False, url: Url = None, seconds: Seconds = None, home: Home = None
) -> None:
    """Let the agents trade: decide when due, send orders."""
    from tapebook import app

    if only and with_ingest:
        raise typer.BadParameter("run `tapebook ingest` beside it", param_hint="--with-ingest")
    place = home_folder(home)
    with progress(only or "desk") as show:
        if only:
            role = _Role(show)
            app.serve_role(place, only, url=url, seconds=seconds, report=role)
            lines = role.lines()
        else:
            desk = _Desk(show)
            app.run_desk(place, with_ingest=with_ingest, url=url, seconds=seconds, told=_say, report=desk)
            lines = desk.lines()
    print_lines(lines)


class _Role:
    """Shows how one role goes, and says a problem once, when it begins."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._problem: str | None = None
        self._words = "nothing was done"

    def __call__(self, now: "RoleProgress") -> None:
        if now.problem and now.problem != self._problem:
            _say(f"warning: {now.problem}")
        if now.notice:
            _say(now.notice)
        self._problem, self._words = now.problem, now.words
        self._show(None, now.words)

    def lines(self) -> list[str]:
        """What was done."""
        return [self._words]


class _Desk:
    """Shows how all roles go."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._said: dict[str, str] = {}

    def __call__(self, now: "SupervisorProgress") -> None:
        self._said = dict(now.said)
        again = f"  ({now.restarts} started again)" if now.restarts else ""
        self._show(None, "; ".join(f"{role}: {words}" for role, words in self._said.items()) + again)

    def lines(self) -> list[str]:
        """What each role said last."""
        return [f"{role:10} {words}" for role, words in self._said.items()] or ["nothing was done"]


def _say(line: str) -> None:
    print(one_line(line), file=sys.stderr, flush=True)
