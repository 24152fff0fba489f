"""How commands start: what they load, `-h`, and the completion of a shell."""

import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]

# Each takes some hundredths of a second to load, and no read of a home needs it.
NOT_LOADED = [
    *("asyncio", "aiohttp", "ssl", "numpy", "pyarrow", "psycopg", "gzip"),
    *("fastapi", "starlette", "uvicorn", "nicegui", "mcp"),
    *("tapebook.desk.demo", "tapebook.desk.supervisor", "tapebook.ingest.live", "tapebook.ingest.stepwise"),
    *("tapebook.world.market", "tapebook.history.transfer", "tapebook.sources.hyperliquid.client"),
]
PROGRAM = """
import sys
from tapebook.surfaces.cli import main
code = main(sys.argv[2:])
print(code, *(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words", [["agents"], ["runs"], ["trades", "btc-5m"], ["lessons", "btc-5m"], ["doctor"]], ids=" ".join
)
def test_small_commands_load_little(home: str, words: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(NOT_LOADED), *words, "--home", home], capture_output=True, text=True
    )
    assert ran.stdout and ran.stderr.split() == ["0"], ran.stderr


@pytest.mark.parametrize("words", [[], ["agents"], ["agents", "show"], ["runs", "show"], ["import", "fills"]])
def test_the_short_option_of_help(run: Run, words: list[str]) -> None:
    short, long = run(*words, "-h"), run(*words, "--help")
    assert short == long and short[0] == 0 and "Usage: tapebook" in short[1]


def _complete(script: str, line: str) -> list[str]:
    """What bash offers for a line whose last word is being typed."""
    words = line.split(" ")
    typed = " ".join(f"'{word}'" for word in words)
    asked = f'{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _tapebook; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_and_options(run: Run) -> None:
    code, script, _ = run("completion", "bash")
    assert code == 0
    assert _complete(script, "tapebook ag") == ["agents"]
    assert {"show", "add", "remove", "--home", "--json", "--help"} <= set(_complete(script, "tapebook agents "))
    assert _complete(script, "tapebook agents --home x show --ver") == ["--version"]
    assert _complete(script, "tapebook runs --be") == ["--before"]
    assert _complete(script, "tapebook nonsense") == []


def test_other_shells(run: Run) -> None:
    bash, zsh = run("completion", "bash")[1], run("completion", "zsh")[1]
    assert zsh.endswith(bash) and "bashcompinit" in zsh
    code, out, err = run("completion", "tcsh")
    assert (code, out) == (2, "") and "bash" in err
