"""Models of Anthropic's messages API, and of servers that speak it. The schema is sent as the format of the output."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from tapebook.llm.faults import NOT_INSTALLED, failure_of, no_answer, no_key
from tapebook.llm.port import Completion, Failure, Model, ModelTerms, Stop

URL = "https://api.anthropic.com"
_STOPS: dict[str, Stop] = {
    "refusal": "refused",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
}
_THOUGHT = ("thinking", "redacted_thinking")
_REDACTED = "(the provider does not show this part)"


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    content: list[_Block]
    usage: _Usage
    stop_reason: str | None = None


class AnthropicModel:
    """One model; the connection is made by the first request and kept."""

    def __init__(self, terms: ModelTerms) -> None:
        self._terms = terms

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """One request."""
        if not self._terms.key and self._terms.url == URL:
            return no_key("ANTHROPIC_API_KEY")
        try:
            import anthropic
        except ImportError:
            return NOT_INSTALLED
        try:
            raw = self._client.messages.with_raw_response.create(
                model=self._terms.model,
                system=system,
                messages=[{"role": "user", "content": user}],
                output_config={"format": {"type": "json_schema", "schema": dict(schema)}},
                max_tokens=max_tokens,
                timeout=timeout_seconds,
            )
        except anthropic.AnthropicError as error:
            return failure_of(error, anthropic, self._terms.key)
        return _completion(raw.http_response.content)

    def close(self) -> None:
        """Ends the connections, if there are any."""
        if "_client" in vars(self):
            self._client.close()
            del self._client

    @cached_property
    def _client(self) -> Any:
        import anthropic

        # A server of one's own may want no key, but the SDK does.
        key = self._terms.key.reveal() or "none"
        return anthropic.Anthropic(api_key=key, base_url=self._terms.url, max_retries=0)


def _completion(body: bytes) -> Completion | Failure:
    try:
        message = msgspec.json.decode(body, type=_Message)
    except msgspec.DecodeError as error:
        return no_answer(str(error))
    used, thought = message.usage, [block for block in message.content if block.type in _THOUGHT]
    return Completion(
        text="".join(block.text for block in message.content if block.type == "text"),
        input_tokens=used.input_tokens + (used.cache_creation_input_tokens or 0) + (used.cache_read_input_tokens or 0),
        output_tokens=used.output_tokens,
        stop=_STOPS.get(message.stop_reason or "", "end"),
        reasoning="\n\n".join(_REDACTED if block.type == "redacted_thinking" else block.thinking for block in thought),
    )


def create(terms: ModelTerms) -> Model:
    """The adapter's entry point."""
    return AnthropicModel(terms)
