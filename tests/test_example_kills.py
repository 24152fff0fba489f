"""Every example of `examples/`, killed at random moments and started again: nothing is recorded twice, all replays."""

import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tapebook
from tapebook.api import app
from tapebook.settings.config import FILE
from tests.test_examples import EXAMPLES
from tests.test_examples import model_url as model_url

KILLS = 6
# Loads an example and lets it run, with an end before the act that is named; 0 lets it come to its own.
PROGRAM = """
import os, sys
sys.path[:0] = [{examples!r}, {root!r}]
from tests.replay.faults import Fuse, die, lit
fuse = Fuse(int(sys.argv[1]), die)
with lit(fuse):
    {call}
os.write(1, f"\\nacts {{len(fuse.acts)}}\\n".encode())
"""
CALLS = {
    "loop": "import loop; loop.run(sys.argv[2], count=200)",
    "graph": "import langgraph_node; langgraph_node.run(sys.argv[2], count=120)",
    "tools": "import tool_agent; tool_agent.run(sys.argv[2], sys.argv[3], 'local', count=124)",
    "freqtrade": "import freqtrade_strategy, market; from pathlib import Path; "
    "from tests.test_examples import trade_with_freqtrade as trade; "
    "trade(freqtrade_strategy, market, Path(sys.argv[2]), count=200)",
}


def make(home: Path) -> Path:
    """A home in which the lease of a killed process is not waited for long."""
    tapebook.init(home)
    settings = (home / FILE).read_text("utf-8")
    (home / FILE).write_text(re.sub("^lease_seconds = .*", "lease_seconds = 1", settings, flags=re.MULTILINE), "utf-8")
    return home


def history(home: Path, agent: str) -> list[Any]:
    """What is left: decisions, trades and what was learned of them, none of it twice."""
    with app.open(home, clock=tapebook.VirtualClock(2**42) if agent != "chat" else None) as tb:
        report = tb.replay()
        assert report.checked == report.equal > 0 and tb.verify() == []
        runs = [
            (run["scheduled_for"], run["status"], run["actions"][0]["action"]) for run in tb.runs(agent, most=1_000)
        ]
        kept = ("side", "entry_price", "exit_price", "net_pnl_usd", "entry_reason", "exit_reason")
        trades = [[trade[key] for key in kept] for trade in map(dict, tb.trades(agent, most=1_000))]
        return [runs if agent != "chat" else [run[1:] for run in runs], trades, tb.experience.show(agent)["outcomes"]]


def live(agent: str, home: Path, url: str, *, until: int = 0) -> int:
    """Runs an example; how many acts that took."""
    program = PROGRAM.format(examples=str(EXAMPLES), root=str(EXAMPLES.parent), call=CALLS[agent])
    words = [sys.executable, "-c", program, str(until), str(home), url]
    done = subprocess.run(words, capture_output=True, text=True, cwd=home.parent)
    assert done.returncode == (-9 if until else 0), done.stderr
    return int(done.stdout.rpartition("acts ")[2]) if not until else 0


@pytest.mark.proof
@pytest.mark.parametrize("agent", CALLS)
def test_an_example_that_is_killed_anywhere_records_nothing_twice(tmp_path: Path, agent: str, model_url: str) -> None:
    if agent == "graph":
        pytest.importorskip("langgraph", reason="langgraph is not installed")
    dice, whole, killed = random.Random(19), make(tmp_path / "whole"), make(tmp_path / "killed")
    acts = live(agent, whole, model_url)
    for part in range(KILLS):
        # Each life gets a little further than the one before: some acts are spent on opening the home again.
        live(agent, killed, model_url, until=dice.randint(200, acts // (KILLS - part + 1)))
    live(agent, killed, model_url)
    assert history(killed, agent) == history(whole, agent)


@pytest.mark.proof
def test_a_chat_agent_that_is_killed_records_nothing_twice(tmp_path: Path) -> None:
    """It and its server are killed at moments of their own: whatever was told is told again."""
    dice, whole, killed = random.Random(7), make(tmp_path / "whole"), make(tmp_path / "killed")
    program = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import mcp_chat; "
    program += "mcp_chat.run(sys.argv[1], [65_000.0, 65_150.0, 65_050.0, 65_200.0])"
    words = [sys.executable, "-c", program]
    subprocess.run([*words, str(whole)], check=True, capture_output=True)
    for _ in range(5):
        with subprocess.Popen([*words, str(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as chat:
            time.sleep(dice.uniform(2.0, 7.0))
            chat.kill()
    subprocess.run([*words, str(killed)], check=True, capture_output=True)
    assert history(killed, "chat") == history(whole, "chat")
