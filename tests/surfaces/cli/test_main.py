"""The command as a whole: every error is one line with an exit code, and help is cheap and short."""

import os
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from tapebook import errors
from tapebook.api import app
from tapebook.surfaces import cli

Run = Callable[..., tuple[int, str, str]]

SOURCE = str(Path(__file__).parents[3] / "src")
CALL = "import sys; from tapebook.surfaces.cli import main; sys.exit(main())"
HEAVY = [
    *("apsw", "psycopg", "numpy", "aiohttp", "pyarrow", "msgspec", "asyncio", "rich", "mcp"),
    *("tapebook.api.app", "tapebook.tick", "tapebook.settings.config", "tapebook.db", "tapebook.domain.views"),
]


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises, whatever it is given."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def command(*words: str, **options: Any) -> "subprocess.Popen[bytes]":
    """`tapebook` in a process of its own."""
    environ = {**os.environ, "PYTHONPATH": SOURCE}
    words = (sys.executable, "-c", CALL, *words)
    return subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, preexec_fn=_hear_interrupts, **options)


def _hear_interrupts() -> None:
    """A shell starts what runs in its background deaf to Ctrl-C, and so would be all that these tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def commands() -> Iterator[tuple[list[str], Any]]:
    """Every command with the words that reach it."""
    group = typer.main.get_command(cli.root)
    assert isinstance(group, TyperGroup)
    for name, found in group.commands.items():
        yield [name], found
        if isinstance(found, TyperGroup):
            yield from (([name, inner], each) for inner, each in found.commands.items())


COMMANDS = {" ".join(words): found for words, found in commands()}
NO_READS = {
    "init",
    "up",
    "api",
    "mcp",
    "completion",
    "world",
    "ingest",
    "import",
    "export",
    "recall",
    "horizons",
    "lessons",
    "experience",
}
NO_READS |= {"backtests remove", "backtests export", "restore", "web", "download", "world history"}
READS = sorted({*COMMANDS} - NO_READS)


@pytest.mark.parametrize("words", [[], *(name.split() for name in COMMANDS)], ids=" ".join)
def test_help_is_one_sentence_and_fits_80_columns(run: Run, words: list[str]) -> None:
    code, out, err = run(*words, "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    # Of what may be given more than once, the usage says so with dots.
    assert "..." not in out.replace("[ARGS]...", "").replace("{SYMBOLS}...", "")
    sentence = out.split("\n\n")[1].strip()
    assert sentence.endswith(".") and sentence.count(". ") == 0 and "\n" not in sentence


@pytest.mark.parametrize("name", READS)
def test_every_read_takes_json_and_home(name: str) -> None:
    flags = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    assert {"--json", "--home"} <= flags


@pytest.mark.parametrize("name", ["runs", "trades", "orders", "compare"])
def test_every_list_takes_most(name: str) -> None:
    assert "--most" in {flag for parameter in COMMANDS[name].params for flag in parameter.opts}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["demo", "--help"], ["runs", "show", "--help"], ["tik"]])
def test_help_and_usage_errors_load_nothing_heavy(words: list[str]) -> None:
    assert _loaded(HEAVY, words) == []


def test_commands_that_ask_nobody_load_no_http(tmp_path: Path) -> None:
    assert _loaded(["aiohttp", "psycopg", "tokenizers"], ["agents", "--home", str(tmp_path)]) == []


def _loaded(names: Iterable[str], words: list[str]) -> list[str]:
    """Which of the modules a command has loaded when it ends."""
    script = textwrap.dedent("""
        import sys
        from tapebook.surfaces.cli import main
        main(sys.argv[2:])
        print("loaded:", *(name for name in sys.argv[1].split(",") if name in sys.modules))
    """)
    ran = subprocess.run(
        [sys.executable, "-c", script, ",".join(names), *words],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()[-1].split()[1:]


def test_version_is_one_line(run: Run) -> None:
    code, out, err = run("--version")
    assert (code, out.count("\n"), err) == (0, 1, "")
    assert out.startswith("tapebook")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "missing command (see: tapebook --help)"),
        ("tik", "no such command 'tik'. Did you mean 'tick'? (see: tapebook --help)"),
        ("runs foo", "no such command 'foo' (see: tapebook runs --help)"),
        ("--home x agents", "no such option: --home (Possible options: --help) (see: tapebook --help)"),
        ("agents --foo", "no such option: --foo (see: tapebook agents --help)"),
        ("trades a --mots 5", "no such option: --mots (Possible options: --most) (see: tapebook trades --help)"),
        ("trades", "missing argument 'AGENT' (see: tapebook trades --help)"),
        ("context a", "missing argument 'SYMBOL' (see: tapebook context --help)"),
        ("trades a b", "got unexpected extra argument(s) (b) (see: tapebook trades --help)"),
        ("trades a --most", "option '--most' requires an argument (see: tapebook trades --help)"),
        ("trades a --most 0", "invalid value for '--most': "),
        ("trades a --most x", "invalid value for '--most': "),
        ("trades a --status x", "invalid value for '--status': 'x' is not one of 'open', 'closed' (see: "),
        ("runs show", "missing argument 'RUN' (see: tapebook runs show --help)"),
        ("replay", "invalid value for RUN: name one run, or --all for every one (see: tapebook replay --help)"),
        ("replay x --all", "invalid value for RUN: name one run, or --all for every one (see: "),
        ("demo --seconds 0", "invalid value for '--seconds': "),
        ("demo --seconds nan", "invalid value for '--seconds': "),
        ("demo --seconds inf", "invalid value for '--seconds': "),
        ("demo --seed 1.5", "invalid value for '--seed': "),
        ("context a b --as-of soon", "invalid value for '--as-of': 'soon' is not a time: write it like 2026-01-31T1"),
        ("context a b --as-of 99999999999999999999", "invalid value for '--as-of': '99999999999999999999' is not a ti"),
        ("context a b --as-of -62135596800000", "invalid value for '--as-of': '-62135596800000' is not between the"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(run: Run, words: str, says: str) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {says}") and err.count("\n") == 1
    assert "(see: tapebook" in err


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TapebookError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_raised_on_purpose_are_one_line(
    run: Run, facade: SimpleNamespace, kind: type[errors.TapebookError]
) -> None:
    facade.agents = raising(kind("it broke\nhere: do \x1b[31mthat"))
    assert run("agents") == (kind.exit_code, "", "error: it broke here: do  [31mthat\n")


def test_parameters_of_the_library_are_options_here(run: Run, facade: SimpleNamespace) -> None:
    facade.run = raising(errors.BadInput("choose another `home=` or `run_id`, or `tapebook runs --json`"))
    _, _, err = run("runs", "show", "x")
    assert err == "error: choose another --home or `run_id`, or `tapebook runs --json`\n"


def test_home_that_is_not_there_says_what_to_run(run: Run, tmp_path: Path) -> None:
    for words in (["agents"], ["runs", "--json"], ["verify"], ["tick", "a", "BTC"]):
        code, out, err = run(*words, "--home", str(tmp_path / "none"))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"error: no tapebook home at {tmp_path}/none: run `tapebook init --home {tmp_path}/none`")


def test_wrong_settings_are_named_with_their_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tapebook.toml").write_text("[paper]\nlateny_ms = 5\n")
    said = "error: tapebook.toml line 2: unknown key `lateny_ms` in [paper]; did you mean `latency_ms`?\n"
    assert run("agents", "--home", str(tmp_path)) == (2, "", said)


def test_home_comes_from_the_flag_else_the_environment(
    run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    facade.agents = list
    monkeypatch.setenv("TAPEBOOK_HOME", "from-environment")
    for words, expected in ((["--home", "from-flag"], "from-flag"), ([], "from-environment")):
        assert run("agents", *words)[0] == 0
        assert facade.asked == Path(expected)


def test_home_is_closed_whatever_happens(run: Run, facade: SimpleNamespace) -> None:
    closed = []
    facade.close = lambda: closed.append(True)
    facade.agents = raising(errors.Busy("busy"))
    assert run("agents")[0] == errors.Busy.exit_code
    assert closed == [True]


def test_argument_that_is_no_text_is_refused(run: Run) -> None:
    assert run("trades", "\udcff") == (2, "", "error: an argument is not UTF-8 text: write it in UTF-8\n")


def test_closed_stdout_is_no_error(home: str) -> None:
    ran = subprocess.run(
        f"exec {shlex.join([sys.executable, '-c', CALL, 'agents', '--home', home])} >&-",
        shell=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stderr=subprocess.PIPE,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_terminal_without_unicode_gets_question_marks(run: Run, own: str) -> None:
    assert run("agents", "edit", "btc-5m", "--strategy", "caf\u00e9", "--home", own)[0] == 0
    words = ["agents", "show", "btc-5m", "--home", own]
    ran = subprocess.run(
        [sys.executable, "-c", CALL, *words],
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b" caf?\n" in ran.stdout


def _newest_run(home: str) -> str:
    with app.open(home) as book:
        return str(book.runs(most=1)[0]["run_id"])


def test_system_errors_are_one_line(run: Run, facade: SimpleNamespace) -> None:
    facade.agents = raising(PermissionError(13, "Permission denied", "/x"))
    said = "error: Permission denied (/x); check the disk, the path and who may write there\n"
    assert run("agents") == (1, "", said)


def test_interruption_says_how_to_go_on(run: Run, facade: SimpleNamespace) -> None:
    facade.agents = raising(KeyboardInterrupt())
    assert run("agents") == (130, "", "stopped; run the same command again to go on\n")


def test_unexpected_errors_keep_their_traceback(run: Run, facade: SimpleNamespace) -> None:
    facade.agents = raising(ZeroDivisionError())
    facade.module.find_damage = lambda home: []
    with pytest.raises(ZeroDivisionError):
        run("agents")


def test_unexpected_errors_on_a_damaged_home_say_what_is_damaged(run: Run, facade: SimpleNamespace) -> None:
    facade.agents = raising(ZeroDivisionError())
    facade.module.find_damage = lambda home: [app.Finding(f"{home}/book.db", "page 7 is gone")]
    code, out, err = run("agents", "--home=elsewhere")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("error: elsewhere/book.db: page 7 is gone; `tapebook verify --all` lists")


def test_demo_can_be_interrupted_and_goes_on(tmp_path: Path) -> None:
    words = ("demo", "--weeks", "0", "--home", str(tmp_path / "home"))
    # Paced, so that however slow this machine is, the demo cannot end before it is interrupted.
    demo = command(*words, "--seconds", "600", stdout=subprocess.PIPE)
    assert demo.stderr
    # The first line of progress shows that the demo is at work.
    assert demo.stderr.readline().startswith(b"demo ")
    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=60)
    assert (demo.returncode, out) == (130, b"")
    assert err.splitlines()[-1] == b"stopped; run the same command again to go on"
    again = command(*words, "--seconds", "0.7", "--fast", stdout=subprocess.PIPE)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert b"packets equal byte for byte" in out


def test_closed_pipe_is_quiet(home: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = command("context", "btc-5m", "BTC", "--as-of", "2026-01-05T00:30", "--json", "--home", home, stdout=writer)
    os.close(writer)
    assert ran.communicate(timeout=60)[1] == b""
    assert ran.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_full_disk_is_one_line(home: str) -> None:
    with open("/dev/full", "w") as full:
        ran = command("agents", "--home", home, stdout=full)
        err = ran.communicate(timeout=60)[1].decode()
    assert ran.returncode == 1
    assert err == "error: No space left on device; check the disk, the path and who may write there\n"


@pytest.mark.parametrize(
    "words",
    [
        *("agents", "runs --most 200", "orders", "trades btc-5m --most 200", "lessons btc-5m", "backtests"),
        *("horizons show btc-5m", "experience show btc-5m", "recall writes", "recall proposals"),
        *("doctor", "market BTC", "verify"),
    ],
)
def test_nothing_is_cut_in_a_pipe(run: Run, home: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = run(*words.split(), "--home", home)[1]
    assert out and "\u2026" not in out
