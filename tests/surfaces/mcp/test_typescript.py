"""The clients of the TypeScript SDK, over stdio and HTTP, in both protocols; skipped by name where Node lacks them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tapebook.surfaces.mcp.answers import MOST_BYTES
from tests.surfaces.mcp.test_endpoint import Served
from tests.surfaces.mcp.test_server import CALL, SOURCE, home

__all__ = ["home"]

PROGRAM = Path(__file__).with_name("client.cjs")
# Both generations of the SDK, by the protocol each is asked to speak.
PACKAGES = {"2025-11-25": "@modelcontextprotocol/sdk", "2026-07-28": "@modelcontextprotocol/client"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tapebook-tests" / "node"


def why_not() -> str:
    """Why the clients cannot run here; empty where they can. What is missing is installed into a cache folder."""
    if shutil.which("node") is None:
        return "Node is not installed"
    if not is_installed():
        if shutil.which("npm") is None:
            return f"npm is not installed, and the TypeScript SDK is not there: {', '.join(PACKAGES.values())}"
        CACHE.mkdir(parents=True, exist_ok=True)
        options = ["--no-fund", "--no-audit", "--ignore-scripts", "--fetch-retries=0", "--loglevel=error"]
        words = ["npm", "install", "--prefix", str(CACHE), *options, *PACKAGES.values()]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(words, capture_output=True, timeout=120)
    return "" if is_installed() else f"no TypeScript SDK: npm install {' '.join(PACKAGES.values())}"


def is_installed() -> bool:
    wanted = " ".join(f'require.resolve("{name}{"/client" if "sdk" in name else ""}");' for name in PACKAGES.values())
    return subprocess.run(["node", "-e", wanted], capture_output=True, env=places()).returncode == 0


def places() -> dict[str, str]:
    known = [os.environ.get("NODE_PATH", ""), "/usr/lib/node_modules", "/usr/local/lib/node_modules"]
    return os.environ | {"NODE_PATH": os.pathsep.join(filter(None, [*known, str(CACHE / "node_modules")]))}


# Of the session, so that it comes before the homes are made.
@pytest.fixture(scope="session", autouse=True)
def _only_with_the_sdk() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(tmp_path_factory.mktemp("served"), stack)


def use_client(**given: Any) -> Any:
    """What the client was answered."""
    done = subprocess.run(
        ["node", str(PROGRAM), json.dumps(given)], capture_output=True, text=True, timeout=120, env=places()
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def size_of(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("protocol", PACKAGES)
def test_over_stdio_it_gets_small_cited_answers(home: Path, protocol: str) -> None:
    stdio = {"command": sys.executable, "args": ["-c", CALL, "mcp", "--home", str(home)], "env": {"PYTHONPATH": SOURCE}}
    trades = {"name": "query_trade_history", "arguments": {"agent": "bot"}}
    wrong = {"name": "query_trade_history", "arguments": {"agent": "nobody"}}
    search = {"name": "search", "arguments": {"query": "funding squeezes"}}
    found = use_client(stdio=stdio, protocol=protocol, calls=[trades, wrong, search])
    assert found["spoken"] == protocol
    assert found["server"]["name"] == "tapebook" and len(found["tools"]) == 10
    assert all(tool["outputSchema"] and len(tool["annotations"]) >= 4 for tool in found["tools"])
    assert found["resources"] and "review_my_week" in found["prompts"]
    answer, refused, cited = found["answers"]
    rows = answer["structuredContent"]
    assert rows["total"] > 5 and json.loads(answer["content"][0]["text"]) == rows
    assert all(size_of(each) <= MOST_BYTES for each in (found["tools"], *found["answers"]))
    assert "#L" in cited["structuredContent"]["results"][0]["id"]
    assert refused["isError"] and "there is no agent called 'nobody'" in refused["content"][0]["text"]


@pytest.mark.parametrize("protocol", PACKAGES)
def test_over_http_a_token_is_of_an_owner_and_of_scopes(served: Served, protocol: str) -> None:
    write = {"name": "append_journal", "arguments": {"text": f"a thought in {protocol}"}}
    lessons = {"name": "lessons", "arguments": {}}
    found = use_client(url=served.url, protocol=protocol, token=served.tokens["bob"], calls=[write, lessons])
    refused, own = found["answers"]
    assert found["spoken"] == protocol and len(found["tools"]) == 10
    assert refused["isError"] and "needs the scope 'record'" in str(refused)
    assert own["structuredContent"]["note"].startswith("bobs-bot")
    found = use_client(url=served.url, protocol=protocol, token=served.tokens["ann records"], calls=[write, lessons])
    written, own = found["answers"]
    assert len(found["tools"]) == 12 and written["structuredContent"]["status"] == "appended"
    assert own["structuredContent"]["note"].startswith("anns-bot")
