"""What goes to OpenAI's chat API, and how servers that know less of it are asked."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.llm import Completion, Failure, Key, Model, ModelTerms
from tapebook.llm.models import openai
from tapebook.llm.port import estimated_tokens
from tests.llm.model_server import ModelServer, Said, error, openai_chat

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
REFUSED = Said(400, error("response_format json_schema is not supported"))


@pytest.fixture
def model(server: ModelServer) -> Iterator[Model]:
    """A model of a server that speaks OpenAI's API."""
    with closing(openai.create(ModelTerms("local", f"{server.url}/v1", Key("k")))) as made:
        yield made


def asked(model: Model) -> Completion | Failure:
    """One request."""
    return model.complete("system\n text", "user → text", schema=SCHEMA, max_tokens=321, timeout_seconds=5)


def formats(server: ModelServer) -> list[str]:
    """The formats that were asked for."""
    return [seen.body["response_format"]["type"] for seen in server.seen]


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


def test_a_request_that_is_refused_either_way_says_so_and_changes_nothing(server: ModelServer, model: Model) -> None:
    server.says(REFUSED, Said(404, error("no such model")), Said(body=openai_chat("{}")))
    assert asked(model) == Failure("rejected", "status 404: no such model")
    assert isinstance(asked(model), Completion)
    assert formats(server) == ["json_schema", "json_object", "json_schema"]


@pytest.mark.parametrize("status", [401, 429, 500])
def test_other_faults_are_not_taken_for_a_missing_format(server: ModelServer, model: Model, status: int) -> None:
    server.says(Said(status, error("no")))
    assert isinstance(asked(model), Failure)
    assert formats(server) == ["json_schema"]


def test_a_refusal_of_the_model_is_a_refusal(server: ModelServer, model: Model) -> None:
    server.says(Said(body=openai_chat(None, refusal="I will not trade.")))
    assert asked(model) == Completion("I will not trade.", 1000, 100, "refused", "hm")


def test_tokens_that_are_not_counted_are_estimated_high(server: ModelServer, model: Model) -> None:
    server.says(Said(body=openai_chat("{}", tokens=None)))
    expected = estimated_tokens("system\n text", "user → text")
    assert asked(model) == Completion("{}", expected, estimated_tokens("{}"), reasoning="hm")
    assert expected > 8


def test_no_choice_is_no_answer(server: ModelServer, model: Model) -> None:
    server.says(Said(body={"choices": []}))
    outcome = asked(model)
    assert isinstance(outcome, Failure)
    assert outcome.fault == "server_error"
