"""Asks a server for vectors: in batches, again when it was only busy, and never with a key in an error.

Each provider is an `EmbeddingDialect`: where it is, how it is asked, and where in its response the numbers stand.

    429, 408, 409, 5xx, no response  waited for and asked again, up to `attempts`; then Retry
    401, 402, 403, or no key         ConfigError: nothing to wait for
    anything else                    ConfigError with what the server said

Somebody waits for the answer to a question, so it is asked once and not for long, and after a failure not at all for a
while: then Retry comes at once.
"""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.text import plural
from tapebook.errors import ConfigError, Retry
from tapebook.llm.port import short_error_line
from tapebook.llm.post import retry_after_seconds
from tapebook.search.index import EmbedderTerms

_BUSY_STATUSES = frozenset({408, 409, 429})
_KEY_REFUSED_STATUSES = frozenset({401, 402, 403})
_LONGEST_WAIT = 60.0
_MOST_BYTES = 2**28
_MOST_SIGNS = 100_000

QUESTION_SECONDS = 2.0
"""How long a question waits for its vector."""

PAUSE_SECONDS = 30.0
"""For how long no question is asked after one had no answer."""


class EmbeddingDialect(msgspec.Struct, frozen=True):
    """What one provider's server is like. `ask` makes the path and the body of a request, `read` finds the rows."""

    provider: str
    url: str
    model: str
    key_variable: str
    most_texts: int
    ask: Callable[[str, Sequence[str], bool], tuple[str, dict[str, Any]]]
    read: Callable[[bytes], list[list[float]]]
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "


class _RequestFailed(Exception):
    """One request that failed, and whether another may succeed."""

    def __init__(self, says: str, *, passes: bool, after: float | None = None, status: int = 0) -> None:
        super().__init__(says)
        self.passes = passes
        self.after = after
        self.status = status


class ServerEmbedder:
    """One model on one server."""

    is_local = False

    def __init__(self, dialect: EmbeddingDialect, terms: EmbedderTerms) -> None:
        self._dialect = dialect
        self._terms = terms
        self._url = (terms.url or dialect.url).rstrip("/")
        self._model = terms.model or dialect.model
        if not self._url.startswith(("http://", "https://")):
            raise ConfigError(f"the address of {dialect.provider} is {self._url!r}: it begins with http:// or https://")
        # A server that redirects would be given the key, and answered with a GET.
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._failed_at: float | None = None
        self._failure = ""

    @property
    def name(self) -> str:
        """Provider and model."""
        return f"{self._dialect.provider}:{self._model}"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """A row for each text of documents."""
        return self._rows(texts, is_question=False)

    def embed_question(self, text: str) -> NDArray[np.float64]:
        """The row of a question."""
        elapsed = self._terms.elapsed
        if elapsed and self._failed_at is not None and (left := self._failed_at + PAUSE_SECONDS - elapsed()) > 0:
            raise Retry(f"{self._failure}; it is asked again in {max(1, round(left))} s")
        try:
            row: NDArray[np.float64] = self._rows([text], is_question=True)[0]
        except Retry as error:
            self._failed_at, self._failure = elapsed() if elapsed else None, str(error)
            raise
        return row

    def knows_word(self, _word: str) -> bool:
        """Whatever a server answers is taken for its word: it cannot be asked what it has never read."""
        return True

    def _rows(self, texts: Sequence[str], *, is_question: bool) -> NDArray[np.float64]:
        # Servers refuse a text without words; it is like nothing.
        asked = [at for at, text in enumerate(texts) if text.strip()]
        given: list[list[float]] = []
        for batch in _text_batches([texts[at][:_MOST_SIGNS] for at in asked], self._dialect.most_texts):
            given += self._ask_with_retries(batch, is_question)
        width = len(given[0]) if given else 0
        if len(given) != len(asked) or any(len(row) != width for row in given):
            counts = f"{plural(len(given), 'row')} for {plural(len(asked), 'text')}"
            raise Retry(f"{self.name} gave {counts}, or rows that differ; try again")
        rows = np.zeros((len(texts), width))
        rows[asked] = given
        return rows

    def _ask_with_retries(self, texts: Sequence[str], is_question: bool) -> list[list[float]]:
        attempts = 1 if is_question else self._terms.attempts
        for attempt in range(1, attempts + 1):
            try:
                return self._ask_once(texts, is_question)
            except _RequestFailed as refusal:
                if not refusal.passes:
                    raise self._config_error(refusal) from None
                if attempt == attempts:
                    times = plural(attempt, "time")
                    raise Retry(f"{self.name} was asked {times}: {refusal}; try again later") from None
                pause = refusal.after if refusal.after is not None else float(2 ** (attempt - 1))
                self._terms.sleep(min(pause, _LONGEST_WAIT))
        raise Retry(f"{self.name} was not asked: `attempts` is {self._terms.attempts}")

    def _config_error(self, refusal: _RequestFailed) -> ConfigError:
        variable = self._dialect.key_variable
        if refusal.status in _KEY_REFUSED_STATUSES and variable:
            return ConfigError(f"{self._dialect.provider} refused the key (status {refusal.status}): set {variable}")
        return ConfigError(f"{self.name} refused the request: {refusal}; check the embedder, its model and its url")

    def _ask_once(self, texts: Sequence[str], is_question: bool) -> list[list[float]]:
        path, body = self._dialect.ask(self._model, texts, is_question)
        request = urllib.request.Request(
            f"{self._url}{path}", data=msgspec.json.encode(body), headers=self._headers(), method="POST"
        )
        timeout = min(self._terms.timeout_seconds, QUESTION_SECONDS) if is_question else self._terms.timeout_seconds
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                content = answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            raise self._failure_of(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise _RequestFailed(
                f"no answer ({short_error_line(str(reason)) or type(reason).__name__})", passes=True
            ) from None
        try:
            return self._dialect.read(content)
        except msgspec.DecodeError as error:
            raise _RequestFailed(f"its answer is none ({short_error_line(str(error))})", passes=True) from None

    def _headers(self) -> dict[str, str]:
        dialect, key = self._dialect, self._terms.key
        if not key and dialect.key_variable and self._url == dialect.url:
            raise ConfigError(f"{dialect.provider} needs a key: set {dialect.key_variable} in the environment")
        sent = {dialect.key_header: f"{dialect.key_prefix}{key.reveal()}"} if key else {}
        return {"Content-Type": "application/json", "Accept": "application/json", **sent}

    def _failure_of(self, error: urllib.error.HTTPError) -> _RequestFailed:
        status, passes = error.code, error.code in _BUSY_STATUSES or error.code >= 500
        with error:
            message = short_error_line(self._terms.key.redact(_error_message(error.read(10_000))))
        after = retry_after_seconds(error.headers.get("Retry-After", ""))
        return _RequestFailed(
            f"status {status}{': ' if message else ''}{message}", passes=passes, after=after, status=status
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Leaves the answer as it is, which then is an error."""
        return None


class _EmbeddingRow(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _EmbeddingRows(msgspec.Struct):
    data: list[_EmbeddingRow]


def read_openai_rows(content: bytes) -> list[list[float]]:
    """The rows of an answer in OpenAI's words, in the order they were asked for."""
    return [
        row.embedding
        for row in sorted(msgspec.json.decode(content, type=_EmbeddingRows).data, key=lambda row: row.index)
    ]


def _text_batches(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    """So many texts at a time, and not too long together."""
    batch: list[str] = []
    signs = 0
    for text in texts:
        if batch and (len(batch) >= most or signs + len(text) > _MOST_SIGNS):
            yield batch
            batch, signs = [], 0
        batch.append(text)
        signs += len(text)
    if batch:
        yield batch


def _error_message(content: bytes) -> str:
    """What a server says is wrong, in any of the words they use for it."""
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return ""
    for name in ("error", "detail", "message"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else ""
