"""Writes over HTTP: a bot that lives by the four verbs, keys used twice, scopes, and files that are out of reach."""

import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tapebook.api.access import SCOPES
from tapebook.domain.units import MINUTE, iso_text
from tests.surfaces.http.conftest import API, START, Answer, BotServer


def test_a_bot_lives_by_the_four_verbs(server: BotServer) -> None:
    offer = server.call("GET", "/agents/bot/decision?symbol=BTC").json()
    assert "position_side: flat" in offer["text"] and offer["packet"]["symbol"] == "BTC"
    decided = {"ticket": offer["ticket"], "action": "open", "side": "long", "notional_usd": 250, "reason": "it rises"}
    run = server.post("/decisions", decided | {"confidence": 0.7, "provider": "model-a"}).json()
    assert (run["status"], run["engine"]) == ("placed", "model-a")
    assert server.post("/decisions", decided).json()["run_id"] == run["run_id"]
    entry = {
        "agent": "bot",
        "symbol": "BTC",
        "id": "f1",
        "side": "buy",
        "size": 0.0038,
        "price": 65_021.5,
        "last": True,
    }
    assert server.post("/fills", entry).json()["fill_id"] == "f1"
    assert server.post("/fills", entry).status_code == 200
    assert server.post("/fills", entry | {"price": 1}).status_code == 422
    server.clock.advance(server.clock.now() + MINUTE)
    flat = {"agent": "bot", "symbol": "BTC", "id": "p1", "size": 0, "price": 65_100}
    assert server.post("/positions", flat).json()["side"] == "sell"
    assert server.post("/positions", flat | {"id": "p2"}).json() is None
    assert server.post("/learn", {}).json() == {"bot": []}
    [trade] = server.call("GET", "/agents/bot/trades").json()["rows"]
    assert (trade["status"], trade["entry_reason"]) == ("closed", "it rises")
    assert server.call("GET", f"/runs/{run['run_id']}/replay").json()["equal"] == 1
    assert server.book.verify() == []


def test_the_same_key_does_a_thing_once(server: BotServer) -> None:
    body = {"what": "journal", "text": "the feed was late"}
    first = server.post("/agents/bot/entries", body, idempotency_key="k1")
    again = server.post("/agents/bot/entries", body, idempotency_key="k1")
    assert first.status_code == again.status_code == 200 and first.json() == again.json()
    assert "idempotency-replayed" not in first.headers and again.headers["idempotency-replayed"] == "true"
    other = server.post("/agents/bot/entries", body | {"text": "another"}, idempotency_key="k1")
    assert other.status_code == 422 and "another request" in other.json()["detail"]
    elsewhere = server.post("/learn", body, idempotency_key="k1")
    assert elsewhere.status_code == 422
    # A key is of its token: another's is another key.
    assert server.post("/agents/bot/entries", body, by="record", idempotency_key="k1").status_code == 200
    assert len(server.book.recall.writes("bot")) >= 1


def test_a_write_that_did_nothing_frees_its_key(server: BotServer) -> None:
    wrong = {"what": "journal", "text": " "}
    assert server.post("/agents/bot/entries", wrong, idempotency_key="k2").status_code == 422
    right = {"what": "journal", "text": "words"}
    assert server.post("/agents/bot/entries", right, idempotency_key="k2").status_code == 200


def test_a_key_in_many_threads_is_used_once(server: BotServer) -> None:
    before = len(server.book.runs("bot", most=100))
    offer = server.call("GET", f"/agents/bot/decision?symbol=BTC&at={START + 199 * MINUTE}").json()
    body = {"ticket": offer["ticket"], "action": "hold", "reason": "nothing new"}
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(server.post("/decisions", body, idempotency_key="k3")))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    # Whoever came while the first was under way is told to ask again.
    assert {each.status_code for each in answers} <= {200, 503}
    assert len({each.json()["run_id"] for each in answers if each.status_code == 200}) == 1
    assert len(server.book.runs("bot", most=100)) == before + 1


# Every write with the scope it needs; the body is right, so that nothing but the scope can refuse it.
NEEDS: list[tuple[str, str, str, object]] = [
    ("record", "POST", "/observe", {"symbol": "BTC", "prices": 65_000}),
    ("record", "POST", "/decisions", {"ticket": "x", "action": "hold"}),
    ("record", "POST", "/fills", {"agent": "bot", "symbol": "BTC", "id": "z", "side": "buy", "size": 1, "price": 1}),
    ("record", "POST", "/positions", {"agent": "bot", "symbol": "BTC", "id": "z", "size": 1, "price": 1}),
    ("record", "POST", "/learn", {}),
    ("record", "POST", "/agents/bot/entries", {"what": "note", "text": "x"}),
    ("record", "POST", "/agents/bot/proposals", {"text": "x"}),
    ("trade", "POST", "/agents/bot/tick", {"symbol": "BTC"}),
    ("trade", "POST", "/halt", {}),
    ("trade", "POST", "/resume", {}),
    ("trade", "POST", "/flatten", {"all": True}),
    ("admin", "POST", "/agents", {"name": "new", "settings": {"watch": "BTC"}}),
    ("admin", "PATCH", "/agents/bot", {"settings": {}}),
    ("admin", "DELETE", "/agents/nobody", None),
    ("admin", "POST", "/recall/proposals/none/approve", None),
    ("admin", "POST", "/recall/proposals/none/reject", None),
    ("admin", "POST", "/recall/sync", None),
    ("admin", "POST", "/skills", {"agent": "bot"}),
    ("admin", "DELETE", "/skills/none", None),
    ("admin", "PUT", "/horizons", {"layer": "L1", "timeframe": "LEGACY", "key": "k", "value": 1}),
    ("admin", "POST", "/horizons/rollup", {}),
]


@pytest.mark.parametrize(("scope", "method", "path", "body"), NEEDS, ids=lambda each: str(each)[:30])
def test_nothing_is_written_without_its_scope(
    server: BotServer, scope: str, method: str, path: str, body: object
) -> None:
    heads = server.book.heads(tape=True)
    for other in (each for each in SCOPES if each != scope):
        answer = server.call(method, path, body, by=other)
        assert answer.status_code == 403 and f"may not {scope}" in answer.json()["detail"]
    anonymous = server.client.request(method, f"{API}{path}", json=body)
    assert anonymous.status_code == 401
    assert server.book.heads(tape=True) == heads


def test_every_write_is_in_the_table_of_scopes(server: BotServer) -> None:
    paths = server.client.get(f"{API}/openapi.json").json()["paths"]
    writes = {(method.upper(), path) for path, found in paths.items() for method in found if method != "get"}
    tried = set()
    for _, method, path, _ in NEEDS:
        parts = path.split("/")
        for known, template in writes:
            own = template.removeprefix(API).split("/")
            fits = len(own) == len(parts) and all(a == b or a[:1] == "{" for a, b in zip(own, parts, strict=True))
            if known == method and fits:
                tried.add((known, template))
    assert tried == writes


def test_agents_are_added_changed_halted_and_removed(server: BotServer) -> None:
    made = server.post("/agents", {"name": "second", "settings": {"watch": "ETH"}, "reason": "a test"}, by="admin")
    assert made.json()["version"] == 1
    changed = server.call("PATCH", "/agents/second", {"settings": {"max_leverage": 2}}, by="admin").json()
    assert changed["version"] == 2 and changed["changes"]
    halted = server.post("/halt", {"agent": "second", "reason": "lunch"}, by="trade").json()
    assert halted["changed"] and "lunch" in halted["halts"].values()
    assert server.post("/resume", {"agent": "second"}, by="trade").json()["changed"]
    assert server.call("DELETE", "/agents/second?reason=done", by="admin").json()["reason"] == "done"
    assert server.post("/flatten", {}, by="trade").status_code == 422


def test_an_error_that_names_a_command_names_the_route_of_it(server: BotServer) -> None:
    told = {
        "GET /api/v1/runs": server.call("GET", "/runs/zz"),
        "GET /api/v1/recall/proposals": server.post("/recall/proposals/zz/approve", by="admin"),
        "PATCH /api/v1/agents/bot": server.post("/agents", {"name": "bot", "settings": {"watch": "BTC"}}, by="admin"),
    }
    for route, answer in told.items():
        assert f"`{route}`" in answer.json()["detail"] and "tapebook" not in answer.json()["detail"], answer.text


@pytest.mark.parametrize("key", ["strategy", "manual"])
def test_no_file_of_the_server_can_be_read_by_its_name(server: BotServer, tmp_path: Path, key: str) -> None:
    (tmp_path / "secret.txt").write_text("the secret", "utf-8")
    for value in (f"@{tmp_path}/secret.txt", f" @{tmp_path}/secret.txt"):
        body: dict[str, Any] = {"name": "thief", "settings": {"watch": "BTC", key: value}}
        refused = server.post("/agents", body, by="admin")
        assert refused.status_code == 422 and "names a file" in refused.json()["detail"]
    nested: dict[str, Any] = {"settings": {"shadow": {key: f"@{tmp_path}/secret.txt"}}}
    assert server.call("PATCH", "/agents/bot", nested, by="admin").status_code == 422


def test_the_name_of_the_token_is_who_wrote(server: BotServer) -> None:
    server.post("/agents/bot/entries", {"what": "learning", "text": "wait for the close"})
    assert "bot" in {each["written_by"] for each in server.book.recall.writes("bot")}
    proposed = server.post("/agents/bot/proposals", {"text": "Never trade on Sundays.\n"}).json()["proposal"]
    shown = server.call("GET", f"/recall/proposals/{proposed['proposal_id']}").json()
    assert any("Sundays" in line for line in shown["diff"])
    decided = server.post(f"/recall/proposals/{proposed['proposal_id']}/reject", by="admin").json()
    assert decided["status"] == "rejected"


def test_an_agent_stands_as_it_stood(server: BotServer) -> None:
    fill = {"agent": "bot", "symbol": "BTC", "size": 0.01}
    assert server.post("/fills", fill | {"id": "in", "side": "buy", "price": 65_000}).status_code == 200
    before, was = iso_text(server.clock.now()), server.call("GET", "/agents/bot").json()
    server.clock.advance(server.clock.now() + MINUTE)
    assert server.post("/fills", fill | {"id": "out", "side": "sell", "price": 65_500}).status_code == 200
    server.call("PATCH", "/agents/bot", {"settings": {"strategy": "Buy low."}}, by="admin")
    now = server.call("GET", "/agents/bot").json()
    assert (now["closed_trades"], now["version"]) == (was["closed_trades"] + 1, was["version"] + 1)
    assert now["net_pnl_usd"] == pytest.approx(was["net_pnl_usd"] + 5.0)
    assert server.call("GET", f"/agents/bot?as_of={before}").json() == was
    given = server.call("GET", f"/agents/bot?as_of={before}&version={now['version']}").json()
    assert given == now | {key: was[key] for key in ("closed_trades", "net_pnl_usd")}
    too_early = server.call("GET", f"/agents/bot?as_of={iso_text(START)}")
    assert too_early.status_code == 404 and "did not exist" in too_early.json()["detail"]


def test_a_proposal_stands_as_it_stood(server: BotServer) -> None:
    before = iso_text(server.clock.now())
    server.clock.advance(server.clock.now() + MINUTE)
    proposed = server.post("/agents/bot/proposals", {"text": "Never trade on Mondays.\n"}).json()["proposal"]
    name, open_then = proposed["proposal_id"], iso_text(server.clock.now())
    server.clock.advance(server.clock.now() + MINUTE)
    approved = server.post(f"/recall/proposals/{name}/approve", by="admin").json()
    assert approved["status"] == "approved"

    def listed(path: str, **query: str) -> Answer:
        return server.call("GET", f"{path}?agent=bot&{urlencode(query)}").json()

    known = {
        as_of: {each["proposal_id"]: each for each in listed("/recall/proposals", as_of=as_of)}
        for as_of in (before, open_then)
    }
    assert name not in known[before]
    assert (known[open_then][name]["status"], known[open_then][name]["decided_at"]) == ("open", None)
    assert listed("/recall/proposals")[0]["status"] == "approved"
    assert server.call("GET", f"/recall/proposals/{name}?as_of={before}").status_code == 404
    shown = server.call("GET", f"/recall/proposals/{name}?as_of={open_then}").json()
    assert shown["proposal"]["status"] == "open" and any("Mondays" in line for line in shown["diff"])
    written = [[each["kind"] for each in listed("/recall/writes", as_of=as_of)] for as_of in (before, open_then)]
    written.append([each["kind"] for each in listed("/recall/writes")])
    assert written[1] == ["proposal", *written[0]] and written[2] == ["manual", *written[1]]


def test_a_document_is_read_by_the_path_of_its_citation(server: BotServer) -> None:
    text = "when the feed disconnects, open nothing until it is back"
    server.post("/agents/bot/entries", {"what": "journal", "text": text})
    assert server.post("/recall/sync", by="admin").status_code == 200
    cited = server.call("GET", "/recall/search?query=the+feed+disconnects&agent=bot").json()["citations"]
    found = server.call("GET", f"/recall/document?agent=bot&path={cited[0]['path']}").json()
    assert text in found["text"]
    for wrong in ("../../tapebook.toml", "/etc/passwd", "..%2f..%2ftapebook.toml"):
        assert server.call("GET", f"/recall/document?path={wrong}").status_code == 404


def test_moments_of_the_future_and_nonsense_are_refused(server: BotServer) -> None:
    fill = {"agent": "bot", "symbol": "BTC", "id": "n", "side": "buy", "size": 1.0, "price": 1.0}
    later = iso_text(server.clock.now() + MINUTE)
    for wrong in (
        {"at": later},
        {"at": 10**20},
        {"at": "soon"},
        {"size": -1},
        {"size": 1e300},
        {"id": "a\0b"},
        {"x": 1},
    ):
        assert server.post("/fills", fill | wrong).status_code == 422, wrong
    assert server.post("/fills", fill | {"agent": "nobody"}).status_code == 404
    huge = '{"agent":"bot","symbol":"BTC","id":"n","side":"buy","size":NaN,"price":1}'
    sent = {"authorization": f"Bearer {server.tokens['bot']}", "content-type": "application/json"}
    assert server.client.post(f"{API}/fills", content=huge, headers=sent).status_code == 422
