"""The command `tapebook`: one file per group of commands, and `main`, which turns every error into one line.

1. `main` parses the words and runs one command;
2. the command opens the home (`options.opened`), calls the façade, and prints (`output`);
3. whatever it raises on purpose becomes `error: …` on stderr and an exit code, and so does what a damaged home causes.

Commands import the façade in their bodies, so that `tapebook --help` loads neither it nor a database.
"""

import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command_name
from typer.models import CommandInfo

from tapebook.errors import BadInput, Damaged, TapebookError
from tapebook.gc_pause import gc_paused
from tapebook.surfaces.cli import (
    agents,
    backtests,
    context,
    desk,
    experience,
    home,
    horizons,
    lessons,
    market,
    portfolio,
    recall,
    runs,
    server,
    trades,
    transfer,
)
from tapebook.surfaces.cli.options import home_folder
from tapebook.surfaces.cli.output import complain, discard_output, one_line, prepare_output

# What a shell reports for a program that SIGINT or SIGPIPE ended.
INTERRUPTED = 130
PIPE_CLOSED = 141


def _empty_root() -> typer.Typer:
    both = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=both
    )


root = _empty_root()


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        print(f"tapebook {version('tapebook')}")
    except PackageNotFoundError:
        print("tapebook, run from source without being installed: no version")
    raise typer.Exit


@root.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log to stderr as JSON lines; TAPEBOOK_LOG has more choices.")
    ] = False,
) -> None:
    """The memory of a trading agent."""
    from tapebook.settings.logs import configure_logging

    configure_logging(as_json=log_json)


COMMANDS: list[Callable[..., None]] = [
    *(home.init, home.demo, desk.up, desk.web, server.api),
    *(portfolio.status, portfolio.portfolio, portfolio.equity),
    *(context.context, runs.tick, trades.orders, trades.trades),
    *(market.ingest, market.assets, market.market, market.candles),
    *(desk.halt, desk.resume, desk.flatten, desk.mcp),
    *(backtests.backtest, runs.replay, runs.compare, home.verify, home.rebuild, home.doctor),
    *(home.backup, home.restore, home.events, home.settings),
    home.completion,
]
for command in COMMANDS:
    root.command()(command)
root.add_typer(agents.group, name="agents")
root.add_typer(runs.group, name="runs")
root.add_typer(backtests.group, name="backtests")
for command in recall.COMMANDS:
    recall.group.command()(command)
root.add_typer(recall.group, name="recall")
root.add_typer(lessons.group, name="lessons")
root.add_typer(experience.group, name="experience")
root.add_typer(horizons.group, name="horizons")
root.add_typer(server.group, name="tokens")
root.add_typer(market.world_group, name="world")
root.add_typer(transfer.download_group, name="download")
transfer.import_group.command("fills")(transfer.import_fills)
root.add_typer(transfer.import_group, name="import")
root.add_typer(transfer.export_group, name="export")


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; an error nobody expected keeps its traceback.

    Where the home is damaged, that is said instead, in one line.
    """
    words = list(sys.argv[1:] if args is None else args)
    prepare_output()
    try:
        return _run(words)
    except TapebookError as error:
        complain(_with_flags(str(error), words))
        return error.exit_code
    except TyperException as error:
        complain(_usage(error, words))
        return 2
    except KeyboardInterrupt:
        print("stopped; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
    # Whoever reads has enough, such as `head`: that is no error worth a line.
    except BrokenPipeError:
        discard_output()
        return PIPE_CLOSED
    except OSError as error:
        discard_output()
        place = f" ({error.filename})" if error.filename else ""
        complain(f"{error.strerror or error}{place}; check the disk, the path and who may write there")
        return 1
    except Exception as error:
        # What nobody expected is a mistake of the program, unless the home is damaged: then that is what to say.
        damage = _damage(words, error)
        if damage is None:
            raise
        complain(damage)
        return Damaged.exit_code


def _run(words: list[str]) -> int:
    # Bytes that are no text come as lone surrogates, which no database takes.
    if any(ord("\ud800") <= ord(char) <= ord("\udfff") for word in words for char in word):
        raise BadInput("an argument is not UTF-8 text: write it in UTF-8")
    code = 0
    try:
        # Parsing loads a validator, which makes many objects that stay: looking through them takes time.
        with gc_paused():
            command = typer.main.get_command(_root_for(words))
            # Not command.main(): that one prints errors and ends on Ctrl-C in its own way.
            context = command.make_context("tapebook", words)
        with context:
            command.invoke(context)
    except typer.Exit as left:
        code = left.exit_code
    sys.stdout.flush()
    return code


def _root_for(words: list[str]) -> typer.Typer:
    """The command line with the one command that is asked for, or with all of them.

    Building the seventy others takes longer than most commands run.
    """
    wanted = next((word for word in words if not word.startswith("-")), "")
    commands = [each for each in root.registered_commands if get_command_name(_function_name(each)) == wanted]
    groups = [each for each in root.registered_groups if each.name == wanted]
    if not commands and not groups:
        return root
    one = _empty_root()
    one.registered_callback, one.registered_commands, one.registered_groups = root.registered_callback, commands, groups
    return one


def _function_name(command: CommandInfo) -> str:
    return command.name or (command.callback.__name__ if command.callback else "")


def _damage(words: list[str], error: Exception) -> str | None:
    """What is damaged in the home of a command that broke, in one line; None when nothing is found."""
    from tapebook.api import app

    split = [part for word in words for part in word.split("=", 1 if word.startswith("--home=") else 0)]
    given = next((after for word, after in pairwise(split) if word == "--home"), None)
    try:
        found = app.find_damage(home_folder(given))
    except Damaged as unreadable:
        return str(unreadable)
    except TapebookError:
        # There is no home, or it is in use: nothing is known of it.
        return None
    if not found:
        return None
    broke = one_line(f"{type(error).__name__}: {error}")[:80]
    return f"{found[0].where}: {found[0].problem}; `tapebook verify --all` lists what is damaged ({broke})"


def _with_flags(message: str, words: list[str]) -> str:
    """A message of the library, which names parameters as Python does (`most=`), with the command's own options."""
    if "=`" not in message:
        return message
    command: Any = typer.main.get_command(_root_for(words))
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    flags = {each.name: each.opts[0] for each in command.params if each.opts and each.opts[0].startswith("--")}
    return re.sub(r"`([a-z_]+)=`", lambda found: flags.get(found[1], found[0]), message)


def _usage(error: TyperException, words: list[str]) -> str:
    message = one_line(error.format_message()).rstrip(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    # A flag without its value comes without a context; the first word is then known to be a command.
    command = context.command_path if context else " ".join(["tapebook", *words[:1]])
    return f"{message[:1].lower()}{message[1:]} (see: {command} --help)"
