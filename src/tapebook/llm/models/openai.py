"""Models of OpenAI's chat completions API, and of the many servers that speak it.

A server that refuses a JSON schema is asked for a JSON object instead; once that has worked, it is
asked so from then on. Some count no tokens: then they are estimated, rather too many than too few.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from tapebook.llm.faults import NOT_INSTALLED, failure_of, no_answer, no_key
from tapebook.llm.port import Completion, Failure, Model, ModelTerms, Stop, estimated_tokens

URL = "https://api.openai.com/v1"
_STOPS: dict[str, Stop] = {"content_filter": "refused", "length": "truncated"}


class _Said(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    # Where servers that show a model's thinking put it; OpenAI's own does not.
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Chat(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class OpenAIModel:
    """One model; the connection is made by the first request and kept."""

    def __init__(self, terms: ModelTerms) -> None:
        self._terms = terms
        self._takes_schemas = True

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """One request; a second one, for a plain JSON object, where the first is refused for what it asks."""
        if not self._terms.key and self._terms.url == URL:
            return no_key("OPENAI_API_KEY")
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        # OpenAI's newer models refuse the older name of the limit, and other servers do not know the newer one.
        limit = "max_completion_tokens" if self._terms.url == URL else "max_tokens"
        asked = {"messages": messages, limit: max_tokens, "timeout": timeout_seconds}
        if self._takes_schemas:
            named = {"name": "reply", "strict": True, "schema": dict(schema)}
            outcome = self._send({**asked, "response_format": {"type": "json_schema", "json_schema": named}})
            if not isinstance(outcome, Failure) or outcome.fault != "rejected":
                return outcome
        outcome = self._send({**asked, "response_format": {"type": "json_object"}})
        if isinstance(outcome, Completion):
            self._takes_schemas = False
        return outcome

    def _send(self, asked: dict[str, Any]) -> Completion | Failure:
        try:
            import openai
        except ImportError:
            return NOT_INSTALLED
        try:
            raw = self._client.chat.completions.with_raw_response.create(model=self._terms.model, **asked)
        except openai.OpenAIError as error:
            return failure_of(error, openai, self._terms.key)
        return _completion(raw.http_response.content, asked["messages"])

    def close(self) -> None:
        """Ends the connections, if there are any."""
        if "_client" in vars(self):
            self._client.close()
            del self._client

    @cached_property
    def _client(self) -> Any:
        import openai

        # A server of one's own may want no key, but the SDK does.
        key = self._terms.key.reveal() or "none"
        return openai.OpenAI(api_key=key, base_url=self._terms.url, max_retries=0)


def _completion(body: bytes, messages: list[dict[str, str]]) -> Completion | Failure:
    try:
        chat = msgspec.json.decode(body, type=_Chat)
    except msgspec.DecodeError as error:
        return no_answer(str(error))
    if not chat.choices:
        return no_answer("no choices")
    said, stop = chat.choices[0].message, _STOPS.get(chat.choices[0].finish_reason or "", "end")
    text = said.content or said.refusal or ""
    used = chat.usage or _Usage(estimated_tokens(*(each["content"] for each in messages)), estimated_tokens(text))
    thought = next((each for each in (said.reasoning_content, said.reasoning) if isinstance(each, str)), "")
    stop = "refused" if said.refusal else stop
    return Completion(text, used.prompt_tokens, used.completion_tokens, stop, thought)


def create(terms: ModelTerms) -> Model:
    """The adapter's entry point."""
    return OpenAIModel(terms)
