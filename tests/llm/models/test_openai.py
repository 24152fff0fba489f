"""What goes to OpenAI's chat API, and how servers that know less of it are asked."""

import msgspec
import pytest

from tapebook.clock import elapsed_seconds
from tapebook.llm import Completion, Failure, Key, Model, ModelTerms
from tapebook.llm.models import openai
from tapebook.llm.port import estimate_tokens
from tests.llm.model_server import ModelServer, Said, error, openai_chat

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
REFUSED = Said(400, error("response_format json_schema is not supported"))


@pytest.fixture
def model(server: ModelServer) -> Model:
    """A model of a server that speaks OpenAI's API."""
    return openai.create(ModelTerms("local", f"{server.url}/v1", Key("k"), elapsed_seconds))


def asked(model: Model) -> Completion | Failure:
    """One request."""
    return model.complete("system\n text", "user → text", schema=SCHEMA, max_tokens=321, timeout_seconds=5)


def formats(server: ModelServer) -> list[str]:
    """The formats that were asked for."""
    return [seen.body.get("response_format", {"type": "plain"})["type"] for seen in server.seen]


def test_the_texts_go_out_as_they_are_with_the_schema(server: ModelServer, model: Model) -> None:
    server.says(Said(body=openai_chat("{}")))
    asked(model)
    assert server.seen[0].body == {
        "model": "local",
        "messages": [{"role": "system", "content": "system\n text"}, {"role": "user", "content": "user → text"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}},
        "max_tokens": 321,
    }


def test_a_server_without_schemas_is_asked_for_an_object_from_then_on(server: ModelServer, model: Model) -> None:
    server.says(REFUSED, Said(body=openai_chat("{}")))
    assert asked(model) == asked(model) == Completion("{}", 1000, 100, reasoning="hm")
    assert formats(server) == ["json_schema", "json_object", "json_object"]


def test_a_server_without_formats_is_asked_in_words_from_then_on(server: ModelServer, model: Model) -> None:
    server.says(REFUSED, Said(422, error("response_format is not supported")), Said(body=openai_chat("{}")))
    assert asked(model) == asked(model) == Completion("{}", 1000, 100, "end", "hm")
    assert formats(server) == ["json_schema", "json_object", "plain", "plain"]
    strict, *others = (seen.body["messages"][0]["content"] for seen in server.seen)
    schema = msgspec.json.encode(SCHEMA).decode()
    assert strict == "system\n text" and all(told.startswith(strict) and schema in told for told in others)


def test_a_request_that_is_refused_every_way_says_so_and_changes_nothing(server: ModelServer, model: Model) -> None:
    server.says(REFUSED, REFUSED, Said(400, error("the prompt is too long")), Said(body=openai_chat("{}")))
    assert asked(model) == Failure("rejected", "status 400: the prompt is too long", status=400)
    assert isinstance(asked(model), Completion)
    assert formats(server) == ["json_schema", "json_object", "plain", "json_schema"]


def test_steps_down_share_the_time_of_one_request(server: ModelServer, model: Model) -> None:
    server.says(Said(400, error("slowly"), after_seconds=0.25))
    outcome = model.complete("s", "u", schema=SCHEMA, max_tokens=3, timeout_seconds=0.2)
    assert isinstance(outcome, Failure)
    assert (outcome.fault, formats(server)) == ("timeout", ["json_schema"])


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_other_faults_are_not_taken_for_a_missing_format(server: ModelServer, model: Model, status: int) -> None:
    server.says(Said(status, error("no")))
    assert isinstance(asked(model), Failure)
    assert formats(server) == ["json_schema"]


def test_a_refusal_of_the_model_is_a_refusal(server: ModelServer, model: Model) -> None:
    server.says(Said(body=openai_chat(None, refusal="I will not trade.")))
    assert asked(model) == Completion("I will not trade.", 1000, 100, "refused", "hm")


def test_tokens_that_are_not_counted_are_estimated_high(server: ModelServer, model: Model) -> None:
    server.says(Said(body=openai_chat("{}", tokens=None)))
    expected = estimate_tokens("system\n text", "user → text")
    assert asked(model) == Completion("{}", expected, estimate_tokens("{}"), reasoning="hm")
    assert expected > 8


def test_no_choice_is_no_answer(server: ModelServer, model: Model) -> None:
    server.says(Said(body={"choices": []}))
    outcome = asked(model)
    assert isinstance(outcome, Failure)
    assert outcome.fault == "server_error"
