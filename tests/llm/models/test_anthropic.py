"""What goes to Anthropic's messages API."""

from tapebook.clock import elapsed_seconds
from tapebook.llm import Key, ModelTerms
from tapebook.llm.models import anthropic
from tests.llm.model_server import ModelServer, Said, anthropic_message

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def test_the_texts_go_out_as_they_are_with_the_schema_as_the_format(server: ModelServer) -> None:
    server.says(Said(body=anthropic_message("{}")))
    model = anthropic.create(ModelTerms("claude-x", server.url, Key("k"), elapsed_seconds))
    model.complete("system\n text", "user → text", schema=SCHEMA, max_tokens=321, timeout_seconds=5)
    assert server.seen[0].body == {
        "model": "claude-x",
        "system": "system\n text",
        "messages": [{"role": "user", "content": "user → text"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "max_tokens": 321,
    }
