"""The TypeScript SDK's client, over stdio and over HTTP; skipped by name where Node or the SDK is not installed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tapebook.surfaces.mcp.answers import MOST_BYTES
from tests.surfaces.mcp.test_endpoint import Served
from tests.surfaces.mcp.test_server import CALL, SOURCE, home

__all__ = ["home"]

PROGRAM = Path(__file__).with_name("client.cjs")
SDK = "@modelcontextprotocol/sdk"


def why_not() -> str:
    """Why the client cannot run here; empty where it can. NODE_PATH says where else packages are."""
    if shutil.which("node") is None:
        return "Node is not installed"
    asked = subprocess.run(
        ["node", "-e", f'require.resolve("{SDK}/client/index.js")'], capture_output=True, env=places()
    )
    return "" if asked.returncode == 0 else f"the TypeScript SDK is not installed: npm install -g {SDK}"


def places() -> dict[str, str]:
    known = [os.environ.get("NODE_PATH", ""), "/usr/lib/node_modules", "/usr/local/lib/node_modules"]
    return os.environ | {"NODE_PATH": os.pathsep.join(filter(None, known))}


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


def test_over_stdio_it_gets_small_cited_answers(home: Path) -> None:
    stdio = {"command": sys.executable, "args": ["-c", CALL, "mcp", "--home", str(home)], "env": {"PYTHONPATH": SOURCE}}
    trades = {"name": "query_trade_history", "arguments": {"agent": "bot"}}
    wrong = {"name": "query_trade_history", "arguments": {"agent": "nobody"}}
    found = use_client(stdio=stdio, calls=[trades, wrong])
    assert found["server"]["name"] == "tapebook" and len(found["tools"]) == 10
    assert all(tool["outputSchema"] and len(tool["annotations"]) >= 4 for tool in found["tools"])
    assert found["resources"] and "review_my_week" in found["prompts"]
    answer, refused = found["answers"]
    rows = answer["structuredContent"]
    assert rows["total"] > 5 and json.loads(answer["content"][0]["text"]) == rows
    assert all(size_of(each) <= MOST_BYTES for each in (found["tools"], *found["answers"]))
    assert refused["isError"] and "there is no agent called 'nobody'" in refused["content"][0]["text"]


def test_over_http_a_token_is_of_an_owner_and_of_scopes(served: Served) -> None:
    write = {"name": "append_journal", "arguments": {"text": "a thought"}}
    lessons = {"name": "lessons", "arguments": {}}
    for owner in ("ann", "bob"):
        found = use_client(url=served.url, token=served.tokens[owner], calls=[write, lessons])
        refused, own = found["answers"]
        assert len(found["tools"]) == 10 and refused["isError"] and "needs the scope 'record'" in str(refused)
        assert own["structuredContent"]["note"].startswith(f"{owner}s-bot")
    found = use_client(url=served.url, token=served.tokens["ann records"], calls=[write])
    assert len(found["tools"]) == 12 and found["answers"][0]["structuredContent"]["status"] == "appended"
