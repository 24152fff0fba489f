"""The contract of the reflector port: whoever reflects proposes claims or says why not, and never raises an error."""

import json
import time
from typing import Any

import pytest

from tapebook import plug
from tapebook.clock import elapsed_seconds
from tapebook.domain.agent import AgentProfile
from tapebook.lessons import Evidence, Reflector, ReflectorTerms, is_rendered_bullet, note_bullets, run_reflection
from tapebook.lessons.reflection import Proposal
from tapebook.lessons.search import CaseTable
from tapebook.llm import Asker, Budget, Key, ModelTerms, Price, WaitClock
from tests.lessons.trades import T0, random_cases
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, anthropic_message, error, openai_chat

__all__ = ["offline", "one_server", "server"]

REFLECTORS = plug.names("tapebook.lessons.reflectors")
MODELS = plug.names("tapebook.llm.models")
AGENT = AgentProfile("a", ("BTC",), avoid=("never trade against the weekly trend",))
EMPTY = json.dumps({"claims": []})
WORLDS = tuple(
    Evidence(tuple(cases), (), (), T0, 1)
    for cases in (random_cases(1, edge_bps=50.0), random_cases(2), random_cases(3, n=3), random_cases(4, n=1))
)


@pytest.fixture(params=REFLECTORS)
def reflector(request: pytest.FixtureRequest, server: ModelServer) -> Reflector:
    """Every reflector; those with a model ask this machine's server, which has nothing to say of any slot."""

    def asker(provider: str, model: str) -> Asker:
        url = f"{server.url}/v1" if provider == "openai" else server.url
        terms = ModelTerms(model, url, Key("sk-0123456789"), elapsed_seconds)
        made = plug.load("tapebook.llm.models", provider).create(terms)
        price, waiting = Price(1_000_000, 5_000_000), WaitClock(elapsed_seconds, time.sleep)
        budget = Budget(attempts=1, max_tokens=1_000)
        return Asker(made, name=model, place=url, price=price, budget=budget, waiting=waiting)

    name = str(request.param)
    server.says(Said(body=anthropic_message(EMPTY) if name == "anthropic" else openai_chat(EMPTY)))
    terms = ReflectorTerms("some-model", 100_000, asker)
    made: Reflector = plug.load("tapebook.lessons.reflectors", name).create(terms)
    return made


def test_every_model_can_reflect() -> None:
    assert set(REFLECTORS) == {*MODELS, "statistics"}


def test_what_comes_are_proposals_and_a_rendered_note(reflector: Reflector) -> None:
    for evidence in WORLDS:
        found = reflector.propose(AGENT, CaseTable(evidence.cases), standing=())
        assert found.problem is None and found.written_by
        assert all(isinstance(each, Proposal) for each in found.claims)
        assert all(map(is_rendered_bullet, note_bullets(run_reflection(reflector, AGENT, evidence).text)))


def test_the_same_trades_give_the_same_lessons(reflector: Reflector) -> None:
    first, second = (run_reflection(reflector, AGENT, WORLDS[0]) for _ in range(2))
    assert first == second and first.registered


@pytest.mark.parametrize("body", [error("no"), b"\xff", {"strange": 1}, openai_chat(None), anthropic_message("")])
def test_whatever_a_server_says_is_no_error(reflector: Reflector, server: ModelServer, body: Any) -> None:
    for status in (200, 500):
        server.says(Said(status=status, body=body))
        assert run_reflection(reflector, AGENT, WORLDS[0]).registered
