"""A server on this machine that speaks the wire formats of all providers of vectors, and checks how it is asked.

A text's vector is made of its letters, so the same text has the same one in every format. `fails` says how the next
requests go wrong, one after the other; `seen` keeps what came in.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 16
KEY = "vk-very-secret-0123456789"

Failing = tuple[int, bytes, dict[str, str]]


def vector(text: str, *, dimension: int = DIMENSION) -> list[float]:
    """A few numbers that follow the letters of a text."""
    made = [0.0] * dimension
    for letter in text:
        made[ord(letter) % dimension] += 1.0
    return made


class EmbeddingServer(ThreadingHTTPServer):
    """The server, while it runs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fails: list[Failing] = []
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.dimension = DIMENSION
        self.most_texts = 10_000

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def asked(self) -> list[str]:
        """All texts it was asked for."""
        return [text for _, _, body in self.seen for text in _texts(body)]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Vectors in the words of whoever is asked."""
        texts = _texts(body)
        if not texts or any(not text for text in texts) or len(texts) > self.most_texts:
            return 400, {"error": {"message": "texts must not be empty, nor too many"}}
        rows = [vector(text, dimension=self.dimension) for text in texts]
        if path.endswith("/embeddings"):
            numbered = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
            # Out of order: the index counts.
            return 200, {"object": "list", "data": numbered[::-1], "model": body["model"], "usage": {"total_tokens": 9}}
        if path.endswith("/api/embed"):
            return 200, {"model": body["model"], "embeddings": rows, "total_duration": 1, "prompt_eval_count": 9}
        if path.endswith(":batchEmbedContents"):
            named = {request["model"] for request in body["requests"]}
            if named != {path.removesuffix(":batchEmbedContents")[1:]}:
                return 400, {"error": {"code": 400, "message": f"model {named} is not that of the path"}}
            return 200, {"embeddings": [{"values": row} for row in rows]}
        return 404, {"error": f"no such path: {path}"}


def _texts(body: dict[str, Any]) -> list[str]:
    if "requests" in body:
        return [request["content"]["parts"][0]["text"] for request in body["requests"]]
    return list(body.get("input", []))


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        """Any request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if self.server.fails:
            status, content, headers = self.server.fails.pop(0)
        else:
            status, said = self.server.answer(self.path, body)
            content, headers = json.dumps(said).encode(), {}
        if status == 0:
            # Breaks the connection off.
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    """Runs a server on a free port of the loopback address."""
    with EmbeddingServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
