"""Tokens and who may call: scopes, owners, revocation, and that no secret is kept anywhere."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.api.access import ACCESS_FILE, SCOPES, AccessStore, BegunWrite, KeptAnswer
from tapebook.errors import BadInput, Busy, UnknownName
from tapebook.home import make_home
from tapebook.surfaces.cli import main
from tapebook.surfaces.http.server import ListenTerms, create_app, serve

AGENTS = "/api/v1/agents"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[AccessStore]:
    with AccessStore(home) as made:
        yield made


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def test_a_token_is_found_until_it_is_revoked(store: AccessStore) -> None:
    assert not store.has_tokens()
    made = store.add("bot", scopes=["record", "read"])
    assert made.token.scopes == ("read", "record") and store.has_tokens()
    assert store.find(made.text) == made.token
    assert store.revoke("bot") == made.token.token_id
    assert store.find(made.text) is None and not store.has_tokens()
    again = store.add("bot", scopes=["read"])
    assert store.find(again.text) and store.find(made.text) is None
    assert [each.revoked_at is None for each in store.tokens()].count(True) == 1


def test_what_is_nearly_a_token_is_none(store: AccessStore) -> None:
    text = store.add("bot", scopes=["read"]).text
    flipped = text[:-1] + ("A" if text[-1] != "A" else "B")
    for wrong in ("", "tbk_", text[:-1], f"{text} ", flipped, text.upper(), text.replace("tbk_", "tbk_0", 1)):
        assert store.find(wrong) is None, wrong


def test_a_token_is_kept_as_a_hash_alone(home: Path, store: AccessStore) -> None:
    text = store.add("bot", scopes=["read"]).text
    secret = text[len("tbk_0123456789ab_") :][:20].encode()
    assert len(secret) == 20
    for path in home.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path
    assert (home / ACCESS_FILE).stat().st_mode & 0o077 == 0


def test_a_name_is_taken_once_and_a_scope_exists(store: AccessStore) -> None:
    store.add("bot", scopes=["read"])
    with pytest.raises(BadInput, match="already"):
        store.add("bot", scopes=["read"])
    for scopes in ([], ["write"]):
        with pytest.raises(BadInput, match="is no scope"):
            store.add("other", scopes=scopes)
    with pytest.raises(BadInput, match="no name"):
        store.add("a b", scopes=["read"])
    with pytest.raises(UnknownName):
        store.revoke("nobody")


def test_a_token_is_of_the_owner_its_home_had(home: Path, store: AccessStore) -> None:
    text = store.add("bot", scopes=["read"]).text
    (home / "tapebook.toml").write_text('owner = "somebody else"\n', "utf-8")
    with AccessStore(home) as other:
        assert other.find(text) is None


def test_a_keyed_write_is_answered_once(store: AccessStore, home: Path) -> None:
    first = store.begin_write("t", "k", b"request", moment=5)
    assert isinstance(first, BegunWrite) and first.moment == 5
    with pytest.raises(Busy):
        store.begin_write("t", "k", b"request", moment=6)
    store.finish_write("t", "k", KeptAnswer(200, b"answer"))
    assert store.begin_write("t", "k", b"request", moment=7) == KeptAnswer(200, b"answer")
    with pytest.raises(BadInput, match="another request"):
        store.begin_write("t", "k", b"other", moment=8)
    # A key is of its token; one that did nothing is free for another request.
    other = store.begin_write("another token", "k", b"other", moment=9)
    store.free_key("another token", "k")
    third = store.begin_write("another token", "k", b"third", moment=10)
    assert isinstance(other, BegunWrite) and isinstance(third, BegunWrite) and other.write_id != third.write_id


def test_a_write_that_was_cut_goes_on_as_the_same_write(store: AccessStore, home: Path) -> None:
    first = store.begin_write("t", "k", b"request", moment=5)
    with AccessStore(home) as after_a_crash:
        assert after_a_crash.begin_write("t", "k", b"request", moment=6) == first
        with pytest.raises(Busy):
            after_a_crash.begin_write("t", "k", b"request", moment=7)
        after_a_crash.leave_write("t", "k")
    assert store.begin_write("t", "k", b"request", moment=8) == first


def test_without_a_token_this_machine_may_read_until_there_is_one(demo_home: Path, tmp_path: Path) -> None:
    home = shutil.copytree(demo_home, tmp_path / "home")
    with app.open(home) as book, TestClient(create_app(book), base_url="http://localhost") as client:
        assert client.get(AGENTS).status_code == 200
        with AccessStore(home) as store:
            reads, writes = store.add("reader", scopes=["read"]), store.add("writer", scopes=["record"])
        refused = client.get(AGENTS)
        assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
        assert "tapebook tokens add" in refused.json()["remedy"]
        assert client.get(AGENTS, headers=bearer(reads.text)).status_code == 200
        assert client.get(AGENTS, headers={"authorization": f"Basic {reads.text}"}).status_code == 401
        assert client.get(AGENTS, headers=bearer(reads.text[:-1] + "_")).status_code == 401
        no_scope = client.get(AGENTS, headers=bearer(writes.text))
        assert no_scope.status_code == 403 and "may not read" in no_scope.json()["detail"]
        with AccessStore(home) as store:
            store.revoke("reader")
        assert client.get(AGENTS, headers=bearer(reads.text)).status_code == 401


def test_nobody_reads_without_a_token_from_elsewhere(book: app.Tapebook) -> None:
    with TestClient(create_app(book, loopback=False), base_url="http://192.0.2.1") as client:
        assert client.get(AGENTS).status_code == 401
    with TestClient(create_app(book, hosts=["bots.example"]), base_url="http://bots.example") as client:
        assert client.get(AGENTS).status_code == 401


@pytest.mark.parametrize("where", [ListenTerms("0.0.0.0", 1), ListenTerms(hosts=("bots.example",))])
def test_it_does_not_listen_elsewhere_without_a_token(book: app.Tapebook, where: ListenTerms) -> None:
    with pytest.raises(BadInput, match="tapebook tokens add"):
        serve([book], where)


def test_the_commands_of_tokens(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tokens", "add", "bot", "--scope", "read", "--scope", "record", "--home", str(home)]) == 0
    text, said = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r"tbk_[0-9a-f]{12}_[\w-]{43}", text) and "read, record" in said
    for words in (["tokens"], ["tokens", "list"], ["tokens", "--json"]):
        assert main([*words, "--home", str(home)]) == 0
        out = capfd.readouterr().out
        assert "bot" in out and "record" in out and text not in out
    assert main(["tokens", "revoke", "bot", "--home", str(home)]) == 0
    assert "refused from now on" in capfd.readouterr().out
    assert main(["tokens", "revoke", "bot", "--home", str(home)]) == 2
    assert main(["tokens", "add", "bot", "--scope", "write", "--home", str(home)]) == 2
    said = capfd.readouterr().err
    assert all(scope in said for scope in SCOPES)
