"""Two owners in one database, one server: a token of one never sees, and never moves, a row of the other.

Every route that reads, every write, and every tool, resource and prompt of MCP; on both databases.
"""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.api.access import SCOPES, AccessStore
from tapebook.clock import VirtualClock
from tapebook.domain.units import MINUTE
from tapebook.home import make_home
from tapebook.settings.config import FILE
from tapebook.surfaces.http.server import create_app, mount_mcp
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.surfaces.http.conftest import API, START, free_port

OWNERS = ("alice", "bob")


class TwoOwners:
    """Their homes, served together, and their tokens."""

    def __init__(self, parent: Path, place: str, tape: str) -> None:
        self.books: dict[str, app.Tapebook] = {}
        self.tokens: dict[str, str] = {}
        self.clock = VirtualClock(START + 200 * MINUTE + 700)
        for owner in OWNERS:
            folder = parent / owner
            make_home(folder)
            (folder / FILE).write_text(f'owner = "{owner}"\n[store]\nbook = "{place}"\ntape = "{tape}"\n', "utf-8")
            self.books[owner] = app.open(folder, clock=self.clock)
            with AccessStore(folder) as store:
                self.tokens[owner] = store.add("all", scopes=SCOPES).text
        self.client = TestClient(create_app(*self.books.values()), base_url="http://localhost")

    def call(self, owner: str, method: str, path: str, body: object = None) -> Any:
        sent = {"authorization": f"Bearer {self.tokens[owner]}"}
        return self.client.request(method, f"{API}{path}", json=body, headers=sent)

    def live(self, owner: str) -> None:
        """Decides, trades, writes and learns, with the owner's name in every text."""
        mark, agent = f"{owner}-mark", f"{owner}-bot"
        settings = {"watch": "BTC", "broker": "external", "strategy": f"{mark} strategy"}
        self.done(owner, "POST", "/agents", {"name": agent, "settings": settings, "reason": mark})
        offer = self.done(owner, "GET", f"/agents/{agent}/decision?symbol=BTC")
        decided = {"ticket": offer["ticket"], "action": "open", "side": "long", "notional_usd": 250, "reason": mark}
        self.done(owner, "POST", "/decisions", decided)
        fill = {"agent": agent, "symbol": "BTC", "id": f"{mark}-1", "side": "buy", "size": 0.0038, "price": 65_021.5}
        self.done(owner, "POST", "/fills", fill | {"last": True})
        self.done(owner, "POST", f"/agents/{agent}/entries", {"what": "journal", "text": f"{mark} feed disconnects"})
        self.done(owner, "POST", f"/agents/{agent}/proposals", {"text": f"{mark} manual\n"})
        self.done(owner, "PUT", "/horizons", {"layer": "L1", "timeframe": "LEGACY", "key": mark, "value": mark})
        self.done(owner, "POST", "/learn", {})
        self.done(owner, "POST", "/recall/sync")
        self.done(owner, "POST", "/halt", {"agent": agent, "reason": mark})

    def done(self, owner: str, method: str, path: str, body: object = None) -> Any:
        answer = self.call(owner, method, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def names(self, owner: str) -> dict[str, str]:
        """What an owner's things are called, by the words of the paths."""
        book = self.books[owner]
        run, order, [trade] = book.runs(most=1)[0], book.orders(most=1)[0], book.trades(f"{owner}-bot")
        path = book.recall.search("feed disconnects")[0].path
        proposal = book.recall.proposals()[0]["proposal_id"]
        return {
            **{"agent": f"{owner}-bot", "run_id": run["run_id"], "other": run["run_id"], "proposal_id": proposal},
            **{"name": "none", "symbol": "BTC", "path": path, "order": order["client_id"], "trade": trade["id"]},
        }


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoOwners]:
    parent = tmp_path_factory.mktemp("owners")
    url = request.getfixturevalue("module_postgres") if request.param == "postgres" else ""
    made = TwoOwners(parent, url or str(parent / "book.db"), url or str(parent / "tape.db"))
    bars = [
        {"time": START + each * MINUTE, "open": 65_000, "high": 65_050, "low": 64_990, "close": 65_020.5, "volume": 3}
        for each in range(200)
    ]
    made.done("alice", "POST", "/observe", {"symbol": "BTC", "candles": bars, "prices": 65_021.5})
    for owner in OWNERS:
        made.live(owner)
    yield made
    made.client.close()
    for book in made.books.values():
        book.close()


def reads(served: TwoOwners) -> list[str]:
    """Every GET of the document, with all its parameters that name something."""
    paths = served.client.get(f"{API}/openapi.json").json()["paths"]
    found = []
    for path, operations in paths.items():
        if "get" not in operations or path in (f"{API}/events", "/metrics"):
            continue
        asked = {each["name"] for each in operations["get"].get("parameters", []) if each["in"] == "query"}
        wanted = [f"{name}={{{name}}}" for name in ("agent", "symbol", "path") if name in asked]
        query = [*wanted, *(["query=feed+disconnects"] if "query" in asked else [])]
        plain = [each for each in query if not each.startswith("agent")]
        for more in {"&".join(query), "&".join(plain)}:
            found.append(path.removeprefix(API) + (f"?{more}" if more else ""))
    return sorted(found)


@pytest.mark.parametrize(("mine", "other"), [OWNERS, OWNERS[::-1]])
def test_no_read_gives_a_row_of_another_owner(served: TwoOwners, mine: str, other: str) -> None:
    own, theirs = served.names(mine), served.names(other)
    ids = {value for key, value in theirs.items() if key not in ("name", "symbol")} - set(own.values())
    shown = 0
    for path in reads(served):
        ours = served.call(mine, "GET", path.format(**own))
        assert ours.status_code in (200, 404), f"{path}: {ours.text}"
        shown += mine in ours.text
        foreign = served.call(mine, "GET", path.format(**theirs))
        for answer in (ours, foreign):
            assert f"{other}-mark" not in answer.text, f"{path}: {answer.text}"
        assert not [each for each in ids if each in ours.text], path
        if re.search(r"\{(agent|run_id|proposal_id)\}", path):
            # A list of what agents wrote is empty for an agent that is not there.
            assert foreign.status_code in (404, 422) or foreign.json() == [], f"{path}: {foreign.text}"
    assert shown >= 15, "rows of one's own are seen, so that what is not seen means something"


def test_pages_do_not_go_on_behind_a_row_of_another_owner(served: TwoOwners) -> None:
    theirs = served.names("bob")
    assert served.call("alice", "GET", f"/runs?before={theirs['run_id']}").status_code == 422
    assert served.call("alice", "GET", f"/orders?before={theirs['order']}").status_code == 422
    assert served.call("alice", "GET", f"/agents/alice-bot/trades?before={theirs['trade']}").status_code == 422


def test_metrics_and_changes_are_those_of_the_owner(served: TwoOwners) -> None:
    for mine, other in (OWNERS, OWNERS[::-1]):
        sent = {"authorization": f"Bearer {served.tokens[mine]}"}
        text = served.client.get("/metrics", headers=sent).text
        assert f'agent="{mine}-bot"' in text and other not in text
        assert served.done(mine, "GET", "/me")["owner"] == mine
        heads = served.done(mine, "GET", "/changes")["heads"]
        assert f"{mine}-bot.external" in heads and not [each for each in heads if other in each]


def test_no_write_moves_a_row_of_another_owner(served: TwoOwners) -> None:
    heads, theirs = served.books["bob"].heads(), served.names("bob")
    writes: list[tuple[str, str, object]] = [
        ("POST", "/fills", {"agent": "bob-bot", "symbol": "BTC", "id": "x", "side": "buy", "size": 1, "price": 1}),
        ("POST", "/positions", {"agent": "bob-bot", "symbol": "BTC", "id": "x", "size": 1, "price": 1}),
        ("POST", "/learn", {"agent": "bob-bot"}),
        ("POST", "/agents/bob-bot/entries", {"what": "note", "text": "x"}),
        ("POST", "/agents/bob-bot/proposals", {"text": "x"}),
        ("POST", "/agents/bob-bot/tick", {"symbol": "BTC"}),
        ("POST", "/halt", {"agent": "bob-bot"}),
        ("POST", "/resume", {"agent": "bob-bot"}),
        ("POST", "/flatten", {"agent": "bob-bot"}),
        ("PATCH", "/agents/bob-bot", {"settings": {"max_leverage": 2}}),
        ("DELETE", "/agents/bob-bot", None),
        ("POST", f"/recall/proposals/{theirs['proposal_id']}/approve", None),
        ("POST", f"/recall/proposals/{theirs['proposal_id']}/reject", None),
        ("POST", "/skills", {"agent": "bob-bot"}),
        ("PUT", "/horizons", {"layer": "L1", "timeframe": "LEGACY", "key": "k", "value": 1, "agent": "bob-bot"}),
        ("POST", "/horizons/rollup", {"agent": "bob-bot"}),
    ]
    for method, path, body in writes:
        answer = served.call("alice", method, path, body)
        assert answer.status_code in (404, 422), f"{path}: {answer.text}"
        assert "bob-mark" not in answer.text
    ticket = served.done("bob", "GET", "/agents/bob-bot/decision?symbol=BTC")["ticket"]
    assert served.call("alice", "POST", "/decisions", {"ticket": ticket, "action": "hold"}).status_code == 404
    served.done("alice", "POST", "/halt", {"reason": "all of mine"})
    assert served.books["bob"].heads() == heads
    assert served.books["bob"].status()["halted"] is None


def test_a_server_of_several_owners_knows_nobody_without_a_token(served: TwoOwners) -> None:
    assert served.client.get(f"{API}/agents").status_code == 401


@pytest.fixture(scope="module")
def mcp_url(served: TwoOwners) -> Iterator[str]:
    """The same two homes by MCP, on a real server."""
    made = create_app(*served.books.values())
    mount_mcp(made)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(made, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://localhost:{port}/mcp"
    server.should_exit = True
    thread.join()
    made.state.access.close()


def mcp_calls(own: dict[str, str], words: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Every tool that reads, and every one that writes, by the names of an owner; texts are in the caller's words."""
    agent, run, symbol = {"agent": own["agent"]}, {"run_id": own["run_id"]}, {"symbol": "BTC"}
    fill = {"id": "x", "side": "buy", "size": 1.0, "price": 1.0}
    return [
        ("query_trade_history", agent),
        *(("explain_decision", run | more) for more in ({}, {"part": "packet"}, {"part": "reply"})),
        ("market_context", {"symbols": ["BTC"]}),
        ("context_packet", agent | symbol),
        ("search", {"query": words["query"]}),
        *(("fetch", {"id": own[name]}) for name in ("path", "run_id")),
        *(("horizons", agent | more) for more in ({}, {"layer": "L1"})),
        ("lessons", agent),
        ("experience", agent),
        *(("backtests", {"id": name} if name else {}) for name in ("", own["name"])),
        ("append_journal", agent | {"text": words["text"]}),
        ("append_journal", agent | {"text": words["text"], "kind": "manual"}),
        ("record", agent | symbol | fill | {"what": "fill"}),
        ("record", agent | symbol | {"what": "position", "id": "y", "size": 1.0, "price": 1.0}),
        ("record", agent | symbol | {"what": "decision", "ticket": own["ticket"], "action": "hold"}),
    ]


RESOURCES = (
    *("tapebook://agents", "tapebook://agents/{agent}", "tapebook://agents/{agent}/lessons"),
    *("tapebook://agents/{agent}/packet/BTC", "tapebook://runs/{run_id}", "tapebook://documents/{path}"),
    "tapebook://market/BTC",
)


@pytest.mark.parametrize(("mine", "other", "mode"), [(*OWNERS, "2026-07-28"), (*OWNERS[::-1], "legacy")])
def test_no_tool_resource_or_prompt_gives_a_row_of_another_owner(
    served: TwoOwners, mcp_url: str, mine: str, other: str, mode: str
) -> None:
    named = {}
    for owner in OWNERS:
        ticket = served.done(owner, "GET", f"/agents/{owner}-bot/decision?symbol=BTC")["ticket"]
        named[owner] = served.names(owner) | {"ticket": ticket}
    theirs, heads = named[other], served.books[other].heads()
    words = {"query": f"{other}-mark feed disconnects", "text": "a thought"}

    async def ask(client: Client) -> tuple[dict[str, list[str]], list[str]]:
        """What one is answered by the names of both, and what is listed."""
        said: dict[str, list[str]] = {mine: [], other: []}
        for owner in (mine, other):
            for tool, given in mcp_calls(named[owner], words):
                answer = await client.call_tool(tool, given)
                has_name = bool({"agent", "run_id", "id"} & set(given))
                assert answer.is_error or owner == mine or not has_name, f"{tool} {given}: {answer}"
                said[owner].append(answer.model_dump_json())
            for uri in RESOURCES:
                try:
                    read = await client.read_resource(uri.format(**named[owner]))
                except MCPError as error:
                    said[owner].append(str(error))
                else:
                    assert owner == mine or "{" not in uri, uri
                    said[owner].append(read.model_dump_json())
        listed = [(await client.list_tools()).model_dump_json(), (await client.list_resources()).model_dump_json()]
        listed.append((await client.get_prompt("review_my_week", {"agent": theirs["agent"]})).model_dump_json())
        return said, listed

    async def run() -> tuple[dict[str, list[str]], list[str]]:
        headers = {"authorization": f"Bearer {served.tokens[mine]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(mcp_url, http_client=http), mode=mode) as client,
        ):
            return await ask(client)

    said, listed = asyncio.run(run())
    for text in (*said[mine], *said[other], *listed):
        assert f"{other}-mark" not in text.replace(words["query"], ""), text
    assert not [text for text in (*said[mine], *listed) if theirs["run_id"] in text or theirs["trade"] in text]
    assert sum(mine in text for text in said[mine]) >= 12, "rows of one's own are seen"
    assert served.books[other].heads() == heads
