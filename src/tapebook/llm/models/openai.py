"""Models of OpenAI's chat completions API, and of the many servers that speak it.

A server that refuses a strict JSON schema is asked for a JSON object, and one that refuses that for plain text; the
schema then stands in the system message. What has worked is asked for from then on. Some servers count no tokens: then
they are estimated, rather too many than too few.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tapebook.llm.port import Completion, CompletionStop, Failure, Model, ModelTerms, Tokens, estimate_tokens
from tapebook.llm.post import missing_key_failure, post_json, unreadable_response

URL = "https://api.openai.com/v1"
_STOPS: dict[str, CompletionStop] = {"content_filter": "refused", "length": "truncated"}
# What servers answer to a format they do not know.
_UNKNOWN_FORMAT = frozenset({400, 415, 422, 501})


class _ChatMessage(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    # Where servers that show a model's thinking put it; OpenAI's own does not.
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    message: _ChatMessage
    finish_reason: str | None = None


class _OpenAIUsage(msgspec.Struct):
    prompt_tokens: Tokens
    completion_tokens: Tokens


class _ChatCompletion(msgspec.Struct):
    choices: list[_Choice]
    usage: _OpenAIUsage | None = None


class OpenAIModel:
    """One model; every request has a connection of its own."""

    def __init__(self, terms: ModelTerms) -> None:
        self._terms = terms
        # How far this server was stepped down: strict schema, JSON object, plain text.
        self._step = 0

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """One request; another one for less, as long as the server refuses the format and there is time."""
        if not self._terms.key and self._terms.url == URL:
            return missing_key_failure("OPENAI_API_KEY")
        # OpenAI's newer models refuse the older name of the limit, and other servers do not know the newer one.
        limit = "max_completion_tokens" if self._terms.url == URL else "max_tokens"
        elapsed, ends = self._terms.elapsed_seconds, self._terms.elapsed_seconds() + timeout_seconds
        outcome: Completion | Failure | None = None
        for step, form in list(enumerate(_formats(schema)))[self._step :]:
            if isinstance(outcome, Failure) and elapsed() >= ends:
                return outcome
            instructions = system if step == 0 else f"{system}\n\n{_schema_instruction(schema)}"
            messages = [{"role": "system", "content": instructions}, {"role": "user", "content": user}]
            outcome = self._send({"messages": messages, limit: max_tokens, **form}, max(0.1, ends - elapsed()))
            if isinstance(outcome, Completion):
                self._step = step
                return outcome
            if outcome.status not in _UNKNOWN_FORMAT:
                return outcome
        assert outcome is not None
        return outcome

    def _send(self, asked: dict[str, Any], seconds: float) -> Completion | Failure:
        key = self._terms.key
        headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
        address = f"{self._terms.url.rstrip('/')}/chat/completions"
        body = post_json(address, {"model": self._terms.model, **asked}, headers=headers, seconds=seconds, key=key)
        if isinstance(body, Failure):
            return body
        try:
            chat = msgspec.json.decode(body, type=_ChatCompletion)
        except (msgspec.DecodeError, RecursionError) as error:
            return unreadable_response(key.redact(str(error)))
        if not chat.choices:
            return unreadable_response("no choices")
        message, stop = chat.choices[0].message, _STOPS.get(chat.choices[0].finish_reason or "", "end")
        text = key.redact(message.content or message.refusal or "")
        prompt = estimate_tokens(*(each["content"] for each in asked["messages"]))
        used = chat.usage or _OpenAIUsage(prompt, estimate_tokens(text))
        thought = next((each for each in (message.reasoning_content, message.reasoning) if isinstance(each, str)), "")
        stop = "refused" if message.refusal else stop
        return Completion(text, used.prompt_tokens, used.completion_tokens, stop, key.redact(thought))


def _formats(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What can be asked for, from the strictest on."""
    named = {"name": "reply", "strict": True, "schema": dict(schema)}
    strict = {"type": "json_schema", "json_schema": named}
    return [{"response_format": strict}, {"response_format": {"type": "json_object"}}, {}]


def _schema_instruction(schema: Mapping[str, Any]) -> str:
    written = msgspec.json.encode(schema).decode()
    return f"Answer with one JSON object that follows this JSON schema, and nothing else: {written}"


def create(terms: ModelTerms) -> Model:
    """The adapter's entry point."""
    return OpenAIModel(terms)
