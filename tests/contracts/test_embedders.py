"""The contract of the embedder port, kept by the local model and by every provider against a server that speaks its
wire format."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapebook import plug
from tapebook.errors import ConfigError, Retry, TapebookError
from tapebook.llm import Key
from tapebook.search.index import Embedder, EmbedderTerms
from tapebook.search.store import cosine_similarities, quantise
from tests.llm.offline import closed_port, offline
from tests.search.embedding_server import DIMENSION, KEY, EmbeddingServer, serving, vector
from tests.search.sample_docs import asked, indexed, paper, paths

__all__ = ["offline"]

FOLDER = "tapebook.search.embedders"
EMBEDDERS = plug.names(FOLDER)
# Where each has its endpoint below the address it is given, and what it calls a question and a document.
PATHS = {
    "gemini": ("", "/models/m-1:batchEmbedContents"),
    "llamacpp": ("/v1", "/v1/embeddings"),
    "ollama": ("", "/api/embed"),
    "openai": ("/v1", "/v1/embeddings"),
    "voyage": ("/v1", "/v1/embeddings"),
}
KINDS = {"gemini": ("RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"), "voyage": ("document", "query")}
KEYED = {"gemini": "GEMINI_API_KEY", "openai": "OPENAI_API_KEY", "voyage": "VOYAGE_API_KEY"}

Create = Callable[..., Embedder]
every_one = pytest.mark.parametrize("name", EMBEDDERS)
every_server = pytest.mark.parametrize("name", sorted(PATHS))


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingServer]:
    """The server of all tests here."""
    with serving() as server:
        yield server


@pytest.fixture
def server(running: EmbeddingServer) -> EmbeddingServer:
    """The server, with nothing to remember."""
    running.fails, running.seen, running.dimension, running.most_texts = [], [], DIMENSION, 10_000
    return running


@pytest.fixture
def pauses() -> list[float]:
    """The seconds somebody waited."""
    return []


@pytest.fixture
def create(server: EmbeddingServer, pauses: list[float]) -> Create:
    """`create(name)` gives an embedder that asks the server."""

    def make(name: str, **more: Any) -> Embedder:
        module = plug.load(FOLDER, name)
        if name not in PATHS:
            made: Embedder = module.create(EmbedderTerms(**more))
            return made
        terms = {"model": "m-1", "url": server.url + PATHS[name][0], "key": Key(KEY), "sleep": pauses.append}
        made = module.create(EmbedderTerms(**{**terms, **more}))
        return made

    return make


def test_every_provider_is_covered() -> None:
    assert set(EMBEDDERS) == PATHS.keys() | {"wordllama"}


@every_one
def test_a_row_for_each_text_in_order(create: Create, name: str) -> None:
    embedder = create(name)
    texts = ["the feed went stale", "margin was called", "", "the feed went stale", "   "]
    rows = embedder.embed_documents(texts)
    assert rows.dtype == np.float64 and rows.shape[0] == 5 and np.isfinite(rows).all()
    assert (rows[0] == rows[3]).all() and (rows[0] != rows[1]).any()
    # A text without words is like nothing.
    assert not rows[2].any() or name == "wordllama"
    made = quantise(rows)
    assert cosine_similarities(made, made[0])[2] == 0.0 and cosine_similarities(made, made[0])[3] == 1.0
    assert embedder.embed_question("margin was called").shape == (rows.shape[1],)
    assert len(embedder.embed_documents([])) == 0
    assert embedder.name.startswith(f"{name}:") and embedder.is_local == (name == "wordllama")


@every_one
def test_any_text_has_a_row(create: Create, name: str) -> None:
    texts = ["\x00", "🚀", "x" * 50_000, "\n\n", "流动性", "e\u0301", '"}]', "a" * 5 + "\ufffd"]
    assert np.isfinite(create(name).embed_documents(texts)).all()


@every_one
def test_an_index_finds_with_it(create: Create, server: EmbeddingServer, name: str, tmp_path: Path) -> None:
    terms = {} if name not in PATHS else {"url": server.url + PATHS[name][0], "model": "m-1", "key": Key(KEY)}
    path = str(tmp_path / "recall.db")
    with indexed(
        "hybrid_embeddings",
        [paper(1, "a.md", "zebra"), paper(2, "b.md", "qqqq")],
        path=path,
        embedder=name,
        embedding=EmbedderTerms(**terms),  # type: ignore[arg-type]
        minimum_percent=1,
    ) as index:
        assert index.head() == 2
        assert paths(asked(index, "zebras"))[0] == "a.md"
        before = len(server.seen)
        # The same question is not asked again, and has the same answer.
        assert asked(index, "zebras") == asked(index, "zebras") and len(server.seen) == before


@every_server
def test_the_request_is_that_of_the_provider(create: Create, server: EmbeddingServer, name: str) -> None:
    embedder = create(name)
    rows = embedder.embed_documents(["one", "two"])
    embedder.embed_question("three")
    assert rows.tolist() == [vector("one"), vector("two")]
    assert [path for path, _, _ in server.seen] == [PATHS[name][1]] * 2
    assert server.asked == ["one", "two", "three"]
    for _, headers, body in server.seen:
        assert headers["content-type"] == "application/json"
        assert KEY in (headers.get("authorization", "").removeprefix("Bearer "), headers.get("x-goog-api-key", ""))
        assert KEY not in str(body) and "m-1" in str(body)
    if name in KINDS:
        said = [str(body) for _, _, body in server.seen]
        assert [kind in text for kind, text in zip(KINDS[name], said, strict=True)] == [True, True]


@every_server
def test_many_texts_are_asked_for_in_batches(create: Create, server: EmbeddingServer, name: str) -> None:
    texts = [f"text number {at}" for at in range(2_100)]
    server.most_texts = {"gemini": 100, "voyage": 128, "ollama": 64, "llamacpp": 64, "openai": 1_000}[name]
    assert create(name).embed_documents(texts).tolist() == [vector(text) for text in texts]
    assert len(server.seen) > 2 and server.asked == texts
    server.seen.clear()
    create(name).embed_documents(["y" * 40_000] * 5)
    assert len(server.seen) == 3


@every_server
@pytest.mark.parametrize("status", [429, 408, 409, 500, 502, 503, 529, 0])
def test_what_may_pass_is_waited_for(
    create: Create, server: EmbeddingServer, pauses: list[float], *, name: str, status: int
) -> None:
    server.fails = [(status, b"{}", {"Retry-After": "7"}), (status, b"", {})]
    assert create(name).embed_documents(["one"]).tolist() == [vector("one")]
    assert pauses == ([1.0, 2.0] if status == 0 else [7.0, 2.0]) and len(server.seen) == 3


@every_server
def test_what_does_not_pass_is_given_up(
    create: Create, server: EmbeddingServer, pauses: list[float], name: str
) -> None:
    server.fails = [(503, b'{"error": {"message": "overloaded"}}', {"Retry-After": "9999"})] * 9
    with pytest.raises(Retry, match="was asked 3 times: status 503: overloaded; try again later"):
        create(name, attempts=3).embed_documents(["one"])
    assert pauses == [60.0, 60.0]
    nobody = create(name, url=f"http://127.0.0.1:{closed_port()}", attempts=2)
    with pytest.raises(Retry, match="no answer"):
        nobody.embed_question("one")


@every_server
@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]", b"null", b'{"data": [{}]}', b'{"embeddings": [{}]}'])
def test_what_is_no_answer_is_asked_for_again(
    create: Create, server: EmbeddingServer, *, name: str, body: bytes
) -> None:
    server.fails = [(200, body, {})]
    assert create(name).embed_documents(["one"]).tolist() == [vector("one")]


@every_server
@pytest.mark.parametrize("status", [400, 404, 413, 422, 301, 302, 307])
def test_what_is_wrong_is_said_at_once(create: Create, server: EmbeddingServer, *, name: str, status: int) -> None:
    for body in (
        b'{"error": {"message": "no such model"}}',
        b'{"error": "no such model"}',
        b'{"detail": "no such model"}',
    ):
        server.fails, server.seen = [(status, body, {"Location": f"{server.url}/elsewhere"})], []
        with pytest.raises(ConfigError, match=f"status {status}: no such model; check the embedder"):
            create(name).embed_documents(["one"])
        assert len(server.seen) == 1


@every_server
def test_rows_that_do_not_fit_are_refused(create: Create, server: EmbeddingServer, name: str) -> None:
    few = {
        "data": [{"embedding": [1.0], "index": 0}],
        "embeddings": [{"values": [1.0]}] if name == "gemini" else [[1.0]],
    }
    server.fails = [(200, str(few).replace("'", '"').encode(), {})]
    with pytest.raises(Retry, match="gave 1 row for 2 texts"):
        create(name).embed_documents(["one", "two"])


@every_server
@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_a_key_is_never_shown(create: Create, server: EmbeddingServer, *, name: str, status: int) -> None:
    embedder = create(name, attempts=1)
    for body in (f'{{"error": {{"message": "bad {KEY}\\n{KEY}"}}}}', f'"bad {KEY}"'):
        server.fails = [(status, body.encode(), {})]
        with pytest.raises(TapebookError) as raised:
            embedder.embed_documents(["one"])
        assert KEY not in str(raised.value) and "\n" not in str(raised.value)
        assert raised.value.__cause__ is None
    assert KEY not in repr(embedder) + repr(vars(embedder))


@pytest.mark.parametrize(("name", "variable"), sorted(KEYED.items()))
def test_a_provider_wants_a_key(name: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        plug.load(FOLDER, name).create(EmbedderTerms()).embed_documents(["one"])


@pytest.mark.parametrize(("name", "variable"), sorted(KEYED.items()))
def test_a_refused_key_names_its_variable(create: Create, server: EmbeddingServer, *, name: str, variable: str) -> None:
    server.fails = [(401, b"{}", {})]
    with pytest.raises(ConfigError, match=rf"refused the key \(status 401\): set {variable}"):
        create(name).embed_documents(["one"])


@every_server
def test_an_address_is_one_of_the_web(name: str) -> None:
    with pytest.raises(ConfigError, match="begins with http"):
        plug.load(FOLDER, name).create(EmbedderTerms(url="file:///etc/passwd"))


def test_the_local_model_is_one() -> None:
    with pytest.raises(ConfigError, match="leave `model` empty"):
        plug.load(FOLDER, "wordllama").create(EmbedderTerms(model="other"))
