"""Models of Anthropic's messages API, and of servers that speak it. The schema is sent as the format of the output."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tapebook.llm.port import Completion, CompletionStop, Failure, Key, Model, ModelTerms, Tokens
from tapebook.llm.post import missing_key_failure, post_json, unreadable_response

URL = "https://api.anthropic.com"
_VERSION = "2023-06-01"
_STOPS: dict[str, CompletionStop] = {
    "refusal": "refused",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
}
_THOUGHT = ("thinking", "redacted_thinking")
_REDACTED = "(the provider does not show this part)"


class _ContentBlock(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""


class _AnthropicUsage(msgspec.Struct):
    input_tokens: Tokens
    output_tokens: Tokens
    cache_creation_input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None


class _AnthropicMessage(msgspec.Struct):
    content: list[_ContentBlock]
    usage: _AnthropicUsage
    stop_reason: str | None = None


class AnthropicModel:
    """One model; every request has a connection of its own."""

    def __init__(self, terms: ModelTerms) -> None:
        self._terms = terms

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """One request."""
        key = self._terms.key
        if not key and self._terms.url == URL:
            return missing_key_failure("ANTHROPIC_API_KEY")
        asked = {
            "model": self._terms.model,
            "system": system,
            "messages": [{"role": "user", "content": user}],
            "output_config": {"format": {"type": "json_schema", "schema": dict(schema)}},
            "max_tokens": max_tokens,
        }
        headers = {"anthropic-version": _VERSION, **({"x-api-key": key.reveal()} if key else {})}
        address = f"{self._terms.url.rstrip('/')}/v1/messages"
        body = post_json(address, asked, headers=headers, seconds=timeout_seconds, key=key)
        return body if isinstance(body, Failure) else _completion(body, key)


def _completion(body: bytes, key: Key) -> Completion | Failure:
    try:
        message = msgspec.json.decode(body, type=_AnthropicMessage)
    except (msgspec.DecodeError, RecursionError) as error:
        return unreadable_response(key.redact(str(error)))
    used, thought = message.usage, [block for block in message.content if block.type in _THOUGHT]
    return Completion(
        text=key.redact("".join(block.text for block in message.content if block.type == "text")),
        input_tokens=used.input_tokens + (used.cache_creation_input_tokens or 0) + (used.cache_read_input_tokens or 0),
        output_tokens=used.output_tokens,
        stop=_STOPS.get(message.stop_reason or "", "end"),
        reasoning=key.redact(
            "\n\n".join(_REDACTED if block.type == "redacted_thinking" else block.thinking for block in thought)
        ),
    )


def create(terms: ModelTerms) -> Model:
    """The adapter's entry point."""
    return AnthropicModel(terms)
