"""Engines that ask a model, from the packet to the answer, over HTTP to a server on this machine."""

from collections.abc import Callable
from typing import Any

import pytest

from tapebook.decision import Engine, EngineAnswer, EngineTerms, Reply, ReplyRefusal, parse_reply
from tapebook.decision.engines import anthropic, openai
from tapebook.decision.reply import REPLY_SCHEMA
from tapebook.domain.packet import Packet
from tapebook.domain.run import Usage
from tapebook.llm import Asker, Key
from tapebook.settings.config import Config, LlmSettings
from tapebook.wiring import make_asker
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, anthropic_message, error, openai_chat
from tests.llm.offline import closed_port

__all__ = ["offline", "one_server", "server"]

PACKET = Packet("a", "BTC", 0, 1, "You are a.\nAnswer in JSON.", "## Market: BTC\n- price: 65,200 →", (), 9, {}, "", "")
SECRET = "sk-very-secret-0123456789"
HOLD = (
    '{"actions":[{"action":"hold","symbol":"BTC","side":null,"notional_usd":0,"leverage":1,"order_type":"market",'
    '"limit_price":null,"confidence":0.5,"reason":"no edge","cites":[]}],"note":""}'
)
MODULES = {"anthropic": anthropic, "openai": openai}
CAP = 500_000
# 1,000 tokens at $5 and 100 at $25 a million: the price of a model that is not listed.
USED = Usage("some-model", 1000, 100, 7_500, 1)

Make = Callable[..., Engine]
every_provider = pytest.mark.parametrize("name", sorted(MODULES))


@pytest.fixture
def engine() -> Make:
    """`engine(name, url)` gives an engine as a home makes it, with its provider on this machine."""

    def make(name: str, url: str, *, cap: int = CAP, **settings: Any) -> Engine:
        urls = {"anthropic_url": url, "openai_url": f"{url}/v1"}
        config = Config(llm=LlmSettings(**{"timeout_seconds": 5.0, **urls, **settings}))

        def ask(provider: str, model: str) -> Asker:
            return make_asker(config, provider, model, key=Key(SECRET))

        made: Engine = MODULES[name].create(EngineTerms("some-model", max_usd_e6=cap, asker=ask))
        return made

    return make


def said(name: str, text: str = HOLD, *, stop: str = "end") -> Said:
    """An answer as the provider writes it."""
    if name == "anthropic":
        stops = {"end": "end_turn", "truncated": "max_tokens", "refused": "refusal"}
        return Said(body=anthropic_message(text, stop=stops[stop]))
    stops = {"end": "stop", "truncated": "length", "refused": "content_filter"}
    return Said(body=openai_chat(text, stop=stops[stop]))


@every_provider
def test_the_packet_goes_out_verbatim_and_the_text_is_the_reply(
    engine: Make, server: ModelServer, *, name: str
) -> None:
    server.says(said(name))
    assert engine(name, server.url).decide(PACKET) == EngineAnswer(HOLD, usage=USED, reasoning="hm")
    assert isinstance(parse_reply(HOLD), Reply)
    (seen,) = server.seen
    texts = [message["content"] for message in seen.body["messages"]]
    assert [*filter(None, [seen.body.get("system")]), *texts] == [PACKET.system, PACKET.text]
    assert seen.body["model"] == "some-model"
    where = ("output_config", "format") if name == "anthropic" else ("response_format", "json_schema")
    assert seen.body[where[0]][where[1]]["schema"] == REPLY_SCHEMA


@every_provider
def test_a_limit_is_waited_for_and_both_attempts_are_counted(engine: Make, server: ModelServer, *, name: str) -> None:
    server.says(Said(429, error("slow down"), {"retry-after": "0.01"}), said(name))
    assert engine(name, server.url).decide(PACKET) == EngineAnswer(
        HOLD, usage=Usage("some-model", 1000, 100, 7_500, 2), reasoning="hm"
    )
    assert len(server.seen) == 2


@every_provider
@pytest.mark.parametrize("stop", ["refused", "truncated"])
def test_a_text_that_is_none_is_a_problem_and_is_paid_for(
    engine: Make, server: ModelServer, *, name: str, stop: str
) -> None:
    server.says(said(name, HOLD[:40], stop=stop))
    answer = engine(name, server.url).decide(PACKET)
    assert (answer.reply, answer.usage) == (HOLD[:40], USED)
    assert answer.problem is not None and answer.problem.startswith(f"{stop}: ")


@every_provider
@pytest.mark.parametrize("text", [HOLD[:-1], "I would hold.", '{"actions":[{"action":"buy","symbol":"BTC"}]}', "{}"])
def test_a_text_that_is_not_what_was_asked_for_is_left_to_the_parser(
    engine: Make, server: ModelServer, *, name: str, text: str
) -> None:
    server.says(said(name, text))
    assert engine(name, server.url, attempts=1).decide(PACKET) == EngineAnswer(text, usage=USED, reasoning="hm")
    assert isinstance(parse_reply(text), ReplyRefusal)


@every_provider
@pytest.mark.parametrize("wrong", [HOLD[:-1], "I would hold.", '{"actions":[{"action":"buy","symbol":"BTC"}]}'])
def test_a_text_that_is_no_reply_is_asked_for_again_with_what_is_wrong(
    engine: Make, server: ModelServer, *, name: str, wrong: str
) -> None:
    server.says(said(name, wrong), said(name, f"<think>hold?</think>\n```json\n{HOLD}\n```"))
    answer = engine(name, server.url, attempts=2).decide(PACKET)
    assert (answer.reply, answer.problem) == (HOLD, None)
    assert answer.usage is not None and answer.usage.attempts == 2
    refused = parse_reply(wrong)
    assert isinstance(refused, ReplyRefusal) and refused.why in server.seen[1].body["messages"][-1]["content"]


@every_provider
@pytest.mark.parametrize(
    ("scripted", "problem", "attempts"),
    [
        (Said(500, error("broken"), {"retry-after": "0"}), "server_error after 2 attempts: status 500: broken", 2),
        (Said(401, error("bad key")), "unauthorised after 1 attempt: the server refused the key (status 401)", 1),
        (Said(400, error("too long")), "rejected after 1 attempt: status 400: too long", 1),
        (Said(body={}, after_seconds=0.6), "timeout after 1 attempt: no answer came in time", 1),
        (Said(429, error("wait"), {"retry-after": "900"}), "rate_limited after 1 attempt: status 429: wait", 1),
    ],
)
def test_what_goes_wrong_is_a_problem(
    engine: Make, server: ModelServer, *, name: str, scripted: Said, problem: str, attempts: int
) -> None:
    server.says(scripted)
    answer = engine(name, server.url, attempts=2, timeout_seconds=0.3, total_seconds=1.0).decide(PACKET)
    assert (answer.reply, answer.problem) == ("", problem)
    assert answer.usage is not None and answer.usage.attempts == attempts


@every_provider
def test_no_server_is_a_problem(engine: Make, name: str) -> None:
    answer = engine(name, f"http://127.0.0.1:{closed_port()}", attempts=1).decide(PACKET)
    assert answer.problem is not None and answer.problem.startswith("unreachable after 1 attempt")


@every_provider
def test_the_cap_of_a_run_is_weighed_before_anything_is_sent(engine: Make, server: ModelServer, *, name: str) -> None:
    server.says(said(name))
    answer = engine(name, server.url, cap=10_000).decide(PACKET)
    assert not server.seen
    assert answer.usage == Usage("some-model", 0, 0, 0, 0)
    assert answer.problem is not None and answer.problem.startswith("R11_MODEL_SPEND: asking some-model could cost $")


@every_provider
def test_a_key_is_in_no_answer(engine: Make, server: ModelServer, *, name: str) -> None:
    asked = engine(name, server.url, attempts=1)
    for scripted in (Said(status, error(f"key {SECRET} no")) for status in (400, 401, 403, 404, 429, 500)):
        server.says(scripted)
        assert SECRET not in repr(asked.decide(PACKET))
        assert all(SECRET not in repr(seen.body) for seen in server.seen)
    assert SECRET not in asked.identity


@every_provider
def test_identity_is_what_a_kept_reply_depends_on(engine: Make, name: str) -> None:
    plain = engine(name, "http://127.0.0.1:1").identity
    assert plain == engine(name, "http://127.0.0.1:1", cap=5, attempts=1, timeout_seconds=1).identity
    assert "some-model" in plain and "schema=" in plain
    assert plain != engine(name, "http://127.0.0.1:2").identity
    assert plain != engine(name, "http://127.0.0.1:1", max_tokens=500).identity
