"""Which engine an agent gets: its own, else the home's, made once, with its model, its members and its cap."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapebook.clock import VirtualClock
from tapebook.decision import Engine
from tapebook.decision.engines.hold import HoldEngine
from tapebook.decision.engines.trend import TrendEngine
from tapebook.domain.agent import AgentProfile, RiskCaps
from tapebook.errors import ConfigError, UnknownName
from tapebook.home import make_home
from tapebook.settings.config import FILE
from tapebook.wiring import Rooms
from tests.decision.engines.seen import packet_of
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, anthropic_message, openai_chat

__all__ = ["offline", "one_server", "server"]

HOLD = '{"actions":[{"action":"hold","symbol":"BTC","confidence":0.9,"reason":"no edge"}]}'
SECRET = "sk-very-secret-0123456789"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home."""
    monkeypatch.delenv("DECISION_MODEL_PROVIDER", raising=False)
    make_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def rooms(home: Path) -> Iterator[Rooms]:
    """The home, opened."""
    opened = Rooms(home, clock=VirtualClock(0))
    yield opened
    opened.close()


def agent(engine: str = "", **changes: Any) -> AgentProfile:
    """An agent with that engine."""
    return AgentProfile("a", ("BTC",), engine=engine, **changes)


def test_an_engine_is_made_once_for_the_same_terms(rooms: Rooms) -> None:
    assert rooms.engine(agent("trend")) is rooms.engine(agent("trend", strategy="other"))
    assert isinstance(rooms.engine(agent("trend")), TrendEngine)
    dear = agent("anthropic", caps=RiskCaps(max_model_usd_e6_per_run=1))
    made = [rooms.engine(each) for each in (agent("anthropic"), agent("anthropic", model="x"), dear)]
    assert len(set(map(id, made))) == 3


def test_no_engine_means_the_homes(home: Path, rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(rooms.engine(agent()), HoldEngine)
    monkeypatch.setenv("DECISION_MODEL_PROVIDER", "trend")
    other = Rooms(home, clock=VirtualClock(0))
    assert isinstance(other.engine(agent()), TrendEngine)
    assert isinstance(other.engine(agent("hold")), HoldEngine)
    other.close()


def test_unknown_names_are_refused(rooms: Rooms) -> None:
    for wrong in (agent("oracle"), agent("ensemble", members=("trend", "oracle"))):
        with pytest.raises(UnknownName, match="no 'oracle' among the engines"):
            rooms.engine(wrong)
    with pytest.raises(ConfigError, match="cannot be a member"):
        rooms.engine(agent("ensemble", members=("ensemble",)))


def test_models_have_the_settings_of_the_home(rooms: Rooms) -> None:
    assert rooms.engine(agent("anthropic")).identity.startswith("claude-sonnet-5-5 at https://api.anthropic.com ")
    assert rooms.engine(agent("openai", model="x")).identity.startswith("x at https://api.openai.com/v1 ")
    mixed = rooms.engine(agent("ensemble", members=("trend", "openai:x", "anthropic")))
    assert mixed.identity.startswith("trend + openai:x x at https://api.openai.com/v1 ")


def test_without_a_key_the_provider_is_not_asked(rooms: Rooms) -> None:
    answer = rooms.engine(agent("anthropic")).decide(packet_of())
    assert answer.problem == "unauthorised after 1 attempt: ANTHROPIC_API_KEY is not set in the environment"


def opened_at(home: Path, url: str, engine: str) -> tuple[Rooms, Engine]:
    """A home whose providers are on this machine, and an ensemble of a rule and a model."""
    (home / FILE).write_text(f'[llm]\nopenai_url = "{url}/v1"\nanthropic_url = "{url}"\n')
    rooms = Rooms(home, clock=VirtualClock(0))
    return rooms, rooms.engine(agent("ensemble", members=("hold", f"{engine}:some-model")))


@pytest.mark.parametrize("engine", ["anthropic", "openai"])
def test_a_key_reaches_the_provider_and_nothing_else(
    home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, *, engine: str
) -> None:
    monkeypatch.setenv(f"{engine.upper()}_API_KEY", SECRET)
    server.says(Said(body=anthropic_message(HOLD) if engine == "anthropic" else openai_chat(HOLD)))
    rooms, ensemble = opened_at(home, server.url, engine)
    answer = ensemble.decide(packet_of())
    rooms.close()
    assert [vote.engine for vote in answer.votes] == ["hold", f"{engine}:some-model"]
    assert answer.usage is not None and answer.usage.cost_usd_e6 == 7_500
    assert SECRET in repr(server.seen[0].headers)
    shown = f"{answer} {ensemble.identity} {server.seen[0].body} {rooms.config} {vars(rooms)} {vars(ensemble)}"
    assert SECRET not in shown
    assert all(SECRET.encode() not in path.read_bytes() for path in home.rglob("*") if path.is_file())
