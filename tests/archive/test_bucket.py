"""Buckets by their address: which store, with which settings, where its keys may not be, and what goes over the wire.

No server of Google or Azure is at hand here. What their stores say is heard by a listener of this machine, which knows
a condition of a put and nothing else; the contract of archives runs with a folder behind the same adapter.
"""

import pickle
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest
from obstore.store import AzureStore, GCSStore, S3Store

from tapebook.archive import Archive
from tapebook.archive.archives._bucket import BucketArchive
from tapebook.archive.port import open_archive
from tapebook.errors import ConfigError, Damaged, StoreFailed

PLANTED = "cGxhbnRlZHNlY3JldA=="
CONDITIONS = {"gs": ("x-goog-if-generation-match", "0"), "az": ("if-none-match", "*")}


class ListenerServer(ThreadingHTTPServer):
    """Takes objects, refuses those that are there when a put is conditional, and keeps what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.refuses = False
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        server, name = cast(ListenerServer, self.server), self._note()
        content = self.rfile.read(int(self.headers["content-length"]))
        conditional = any(self.headers.get(key) == value for key, value in CONDITIONS.values())
        if conditional and name in server.objects:
            self._answer(409 if "x-ms-version" in self.headers else 412)
            return
        server.objects[name] = content
        self._answer(201)

    def do_GET(self) -> None:
        found = cast(ListenerServer, self.server).objects.get(self._note())
        self._answer(404 if found is None else 200, found or b"")

    def do_DELETE(self) -> None:
        found = cast(ListenerServer, self.server).objects.pop(self._note(), None)
        self._answer(404 if found is None else 202)

    def do_POST(self) -> None:
        # Azure takes deletions in a batch, and answers each in its part.
        self._note()
        batch = self.rfile.read(int(self.headers["content-length"])).decode()
        path = batch.partition("DELETE ")[2].partition(" ")[0].partition("?")[0]
        found = cast(ListenerServer, self.server).objects.pop(path, None)
        line = "202 Accepted" if found is not None else "404 The specified blob does not exist."
        part = f"Content-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 {line}\r\nx-ms-version: 1\r\n\r\n"
        self._answer(202, f"--one\r\n{part}\r\n--one--\r\n".encode(), kind="multipart/mixed; boundary=one")

    def _note(self) -> str:
        headers = {key.lower(): value for key, value in self.headers.items()}
        cast(ListenerServer, self.server).asked.append((self.command, self.path, headers))
        return self.path.partition("?")[0]

    def _answer(self, code: int, content: bytes = b"", kind: str = "application/octet-stream") -> None:
        self.send_response(403 if cast(ListenerServer, self.server).refuses else code)
        for key, value in (
            ("ETag", '"1"'),
            ("Content-Type", kind),
            ("x-goog-generation", "1"),
            ("Last-Modified", "Mon, 05 Jan 2026 00:00:00 GMT"),
        ):
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[ListenerServer]:
    """A listener, and the environment of a program that asks it."""
    with ListenerServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", PLANTED)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", server.url)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "desk")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", PLANTED)
        yield server
        server.shutdown()


def opened(place: str) -> Archive:
    """The archive at an address, as a home opens it."""
    return open_archive(place, home=Path("/nowhere"), durable=True)


@pytest.mark.parametrize(
    ("address", "store", "config", "prefix"),
    [
        ("s3://bucket", S3Store, {"bucket": "bucket"}, None),
        ("s3a://bucket/a/b", S3Store, {"bucket": "bucket"}, "a/b"),
        ("gs://my_bucket/desk/", GCSStore, {"bucket": "my_bucket"}, "desk"),
        ("az://box/desk", AzureStore, {"container_name": "box"}, "desk"),
        ("azure://box", AzureStore, {"container_name": "box"}, None),
        ("adl://box/a", AzureStore, {"container_name": "box"}, "a"),
        ("abfs://box/a", AzureStore, {"container_name": "box"}, "a"),
        (
            "abfss://box@other.dfs.core.windows.net/a",
            AzureStore,
            {"container_name": "box", "account_name": "other"},
            "a",
        ),
    ],
)
@pytest.mark.usefixtures("listener")
def test_an_address_opens_its_store(address: str, store: type, config: dict[str, str], prefix: str | None) -> None:
    archive = opened(address)
    assert isinstance(archive, BucketArchive) and not archive.is_local
    found = cast(S3Store, archive._store)
    assert (type(found), found.config, found.prefix) == (store, config, prefix)
    assert found.retry_config and found.client_options
    assert found.retry_config["max_retries"] == 2 and found.retry_config["retry_timeout"] == timedelta(seconds=20)
    # The driver gives the options back as text.
    assert dict(found.client_options) == {"timeout": "20s", "connect_timeout": "5s", "allow_http": "true"}


@pytest.mark.parametrize("scheme", ["ftp", "http", "https", "memory", "gcs"])
def test_an_unknown_scheme_is_one_line_that_lists_what_is_spoken(scheme: str) -> None:
    with pytest.raises(ConfigError) as caught:
        opened(f"{scheme}://user:{PLANTED}@host/path")
    assert str(caught.value) == (
        f"no archive speaks {scheme}://: name a folder, or an address that begins abfs://, abfss://, adl://, az://, "
        "azure://, file://, gs://, s3://, s3a://"
    )


@pytest.mark.parametrize(
    "address",
    [
        f"s3://key:{PLANTED}@bucket/a",
        f"gs://bucket/a?token={PLANTED}",
        f"gs://bucket@{PLANTED}",
        f"az://box@{PLANTED}.blob.core.windows.net/a",
        f"az://box/a?sig={PLANTED}",
        f"s3://bucket@desk.dfs.core.windows.net/{PLANTED}",
        f"az://x/{PLANTED}",
    ],
)
def test_what_is_no_bucket_is_said_without_the_address(address: str) -> None:
    with pytest.raises(ConfigError, match="is no bucket: write it like") as caught:
        opened(address)
    assert PLANTED not in str(caught.value)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_a_put_is_conditional_whatever_its_size(listener: ListenerServer, scheme: str) -> None:
    archive, large = opened(f"{scheme}://box/desk"), b"PAR1" * 5_000_000
    archive.create("a/b", b"one")
    archive.create("cold/a/1.parquet", large)
    name, wanted = CONDITIONS[scheme]
    puts = [headers for verb, _, headers in listener.asked if verb == "PUT"]
    assert [headers.get(name) for headers in puts] == [wanted, wanted]
    assert {unquote(path) for path in listener.objects} == {"/box/desk/a/b.z", "/box/desk/cold/a/1.parquet"}
    assert archive.get("a/b") == b"one" and archive.get("cold/a/1.parquet") == large and archive.get("a") is None
    archive.create("a/b", b"one")
    with pytest.raises(Damaged, match="other bytes under a/b"):
        archive.create("a/b", b"two")
    assert archive.get("a/b") == b"one"
    archive.create("backups/1", b"old")
    for _ in range(2):
        archive.delete_backup("backups/1")
        assert archive.get("backups/1") is None


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_keys_are_in_no_pickle_text_or_error(listener: ListenerServer, scheme: str) -> None:
    archive = opened(f"{scheme}://box/desk")
    archive.create("a/b", b"x")
    assert any(PLANTED in str(asked) or "authorization" in asked[2] for asked in listener.asked), "signed"
    assert PLANTED not in f"{archive!r} {archive}" and PLANTED.encode() not in pickle.dumps(archive)
    assert pickle.loads(pickle.dumps(archive)).get("a/b") == b"x"
    listener.refuses = True
    with pytest.raises(StoreFailed, match=r"the server refuses the keys: check (GOOGLE|AZURE)_") as refused:
        archive.create("a/c", b"x")
    assert PLANTED not in str(refused.value) and "\n" not in str(refused.value) and refused.value.__cause__ is None


def test_a_signature_in_a_query_is_in_no_error(listener: ListenerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"sv=2026&sig={PLANTED}")
    opened("az://box").create("a", b"x")
    assert any("sig=" in path for _, path, _ in listener.asked)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(StoreFailed, match=r"cannot read az://box: .*; check AZURE_STORAGE_ACCOUNT_NAME") as away:
        opened("az://box").get("a")
    assert PLANTED.rstrip("=") not in str(away.value) and "sig" not in str(away.value)


@pytest.mark.parametrize(
    ("address", "name"), [("gs://box", "GOOGLE_SERVICE_ACCOUNT_KEY"), ("az://box", "AZURE_STORAGE_ACCOUNT_KEY")]
)
@pytest.mark.usefixtures("listener")
def test_keys_that_cannot_be_read_are_one_line(address: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f'{{"private_key": "{PLANTED}')
    with pytest.raises(ConfigError, match=f"cannot be used as the environment is: check .*{name}") as caught:
        opened(address)
    assert PLANTED not in str(caught.value) and caught.value.__cause__ is None
