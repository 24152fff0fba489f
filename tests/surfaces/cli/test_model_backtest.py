"""The command `backtest` of an agent that asks a model: an estimate, a question or a limit, and a clean stop."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backtest.bars import model_home
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, Seen, trading_chat

__all__ = ["offline", "one_server", "server"]

HOURS = 12
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def words(tmp_path: Path, server: ModelServer) -> list[str]:
    """The command over twelve hours of a model."""
    server.says(trading_chat)
    home = model_home(tmp_path, server.url, hours=HOURS)
    return ["backtest", "tester", "--chunks", "none", "--memory", "off", "--home", str(home)]


def on_a_terminal(words: list[str], typed: str) -> tuple[int, str]:
    """The exit code of a command on a terminal, and what stood there in the end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tapebook", *words], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    # A terminal whose last process has gone cannot be read any more.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65_536):
            shown += piece
    os.close(ours)
    return process.wait(), shown.decode()


def test_it_estimates_stops_goes_on_and_asks_nothing_twice(run: Run, words: list[str], server: ModelServer) -> None:
    code, out, err = run(*words)
    assert (code, out, len(server.seen)) == (2, "", 0)
    (line,) = err.splitlines()
    assert line.startswith("error: some-model may be asked 12 times: at most ")
    assert line.endswith(" USD: say with --max-usd what it may cost")

    code, out, err = run(*words, "--max-usd", "0.05")
    told, stopped = err.splitlines()
    assert (code, out) == (4, "") and 0 < len(server.seen) < HOURS
    assert told.startswith("some-model may be asked 12 times: at most ") and told.endswith("; it stops at 0.05 USD")
    assert stopped.startswith("error: backtest ") and stopped.endswith("with a higher --max-usd to go on")
    paid = len(server.seen)
    code, out, err = run("backtests", "--home", words[-1])
    assert code == 0 and " stopped" in out

    code, out, err = run(*words, "--max-usd", "1", "--json")
    assert code == 0 and len(server.seen) == HOURS
    left = HOURS - paid
    assert f"may be asked {left} times" in err and f"beside {paid * 0.0075:.2f} USD spent on it before; about" in err
    shown = json.loads(out)
    assert (shown["spent"]["calls"], shown["spent"]["usd"], shown["stopped"]) == (HOURS, 0.09, None)
    assert shown["total"]["trades"] >= 4
    questions = [seen.body["messages"][-1]["content"] for seen in server.seen]
    assert len(set(questions)) == HOURS

    code, out, err = run(*words)
    assert (code, err) == (0, "") and "models    0.09 USD for 12 calls, 12,000 tokens in, 1,200 out" in out
    assert run(*words, "--again")[:2] == (0, "all: the re-run is byte-identical\n")
    assert len(server.seen) == HOURS


def test_on_a_terminal_it_asks(words: list[str], server: ModelServer) -> None:
    code, shown = on_a_terminal(words, "n\n")
    assert (code, len(server.seen)) == (1, 0)
    assert "may be asked 12 times" in shown and "go on? [y/N]" in shown
    assert shown.rstrip().endswith("nothing was asked; --max-usd sets another limit")
    code, shown = on_a_terminal(words, "y\n")
    assert (code, len(server.seen)) == (0, HOURS) and "models    0.09 USD for 12 calls" in shown


@pytest.mark.soak
def test_killed_it_asks_again_only_what_was_under_way(words: list[str], server: ModelServer) -> None:
    command = [sys.executable, "-m", "tapebook", *words, "--max-usd", "1"]
    started: list[subprocess.Popen[bytes]] = []

    def kill(seen: Seen) -> Said:
        started[0].kill()
        return trading_chat(seen)

    # The server kills who asks it, while its fifth question is under way.
    server.says(*[trading_chat] * 4, kill, trading_chat)
    started.append(process := subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    assert process.wait() == -signal.SIGKILL
    asked = [seen.body["messages"][-1]["content"] for seen in server.seen]
    assert len(asked) == 5
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    asked = [seen.body["messages"][-1]["content"] for seen in server.seen]
    assert len(asked) == HOURS + 1 and asked[4] == asked[5] and len(set(asked)) == HOURS


def test_the_limit_is_a_number_of_dollars(run: Run, words: list[str], server: ModelServer) -> None:
    for wrong in ("-1", "nan"):
        code, out, err = run(*words, "--max-usd", wrong)
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert "give the dollars that models may cost, 0 or more" in err
    code, _, err = run(*words, "--max-usd", "0")
    assert code == 4 and "has spent 0.0000 of 0.0000 USD" in err and not server.seen
