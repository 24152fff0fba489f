"""MCP beside the HTTP API: the same tokens, what they allow, and no rows of another owner."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tapebook.api import app
from tapebook.api.access import AccessStore
from tapebook.home import make_home
from tapebook.settings.config import FILE
from tapebook.surfaces.http.server import create_app, mount_mcp


class Served:
    """Two owners' homes behind one server, and a token for each way to use them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.books, self.tokens = {}, dict[str, str]()
        for owner in ("ann", "bob"):
            make_home(folder / owner)
            (folder / owner / FILE).write_text(f'owner = "{owner}"\n', "utf-8")
            book = self.books[owner] = stack.enter_context(app.open(folder / owner))
            book.add_agent(f"{owner}s-bot", {"watch": "BTC", "broker": "external"})
            book.observe("BTC", prices=65_000.0)
            with AccessStore(folder / owner) as access:
                self.tokens[owner] = access.add("chat", scopes=["read"]).text
                self.tokens[f"{owner} records"] = access.add("bot", scopes=["read", "record"]).text
        made = create_app(*self.books.values())
        stack.callback(made.state.access.close)
        mount_mcp(made)
        self._server = uvicorn.Server(uvicorn.Config(made, port=0, log_level="error"))
        thread = threading.Thread(target=self._server.run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(setattr, self._server, "should_exit", True)
        while not self._server.started:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"

    def use(self, token: str, name: str, mode: str = "2026-07-28", **arguments: Any) -> tuple[list[str], Any]:
        """The tools a bearer sees, and what one of them answers."""

        async def run() -> tuple[list[str], Any]:
            headers = {"authorization": f"Bearer {self.tokens[token]}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=30) as http,
                Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
            ):
                listed = [tool.name for tool in (await client.list_tools()).tools]
                return listed, await client.call_tool(name, arguments)

        return asyncio.run(run())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(tmp_path_factory.mktemp("served"), stack)


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_a_token_is_of_an_owner_and_of_scopes(served: Served, mode: str) -> None:
    listed, answer = served.use("ann", "record", mode, what="price", symbol="BTC", price=1.0)
    assert len(listed) == 10 and answer.is_error and "needs the scope 'record'" in answer.content[0].text
    listed, answer = served.use("ann records", "append_journal", mode, text=f"a thought, {mode}")
    assert len(listed) == 12 and answer.structured_content["status"] == "appended"
    for owner, other in (("ann", "bob"), ("bob", "ann")):
        _, own = served.use(owner, "lessons", mode)
        assert own.structured_content["note"].startswith(f"{owner}s-bot")
        _, refused = served.use(owner, "lessons", mode, agent=f"{other}s-bot")
        assert refused.is_error and f"agents: {owner}s-bot" in refused.content[0].text
    assert not served.use("bob", "search", mode, query="thought")[1].structured_content["total"]


def test_without_a_token_nobody_gets_in(served: Served) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"accept": "application/json, text/event-stream"}
    for token in (None, "tbk_000000000000_" + "x" * 43, served.tokens["ann"][:-1]):
        headers = accepts | ({} if token is None else {"authorization": f"Bearer {token}"})
        answer = httpx2.post(served.url, json=message, headers=headers)
        assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
    bearer = accepts | {"authorization": f"Bearer {served.tokens['ann']}"}
    assert httpx2.post(served.url, json=message, headers=bearer | {"host": "evil.example"}).status_code == 421
    assert httpx2.post(served.url, json=message, headers=bearer | {"origin": "http://evil.example"}).status_code == 403
