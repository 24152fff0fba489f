"""The contract of the engine port, kept by every engine in its folder.

Engines that ask a model are made with one that needs no network, in three moods: it holds, it says
something that is no reply, or it fails. An engine never raises; it gives a reply that parses, a reply
that the parser refuses because a model wrote it, or a problem.
"""

from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given

from tapebook import plug
from tapebook.context import Situation, assemble_packet, packet_of_facts
from tapebook.decision import Engine, EngineAnswer, EngineTerms, Reply, make_engine, parse_reply, reads_facts_alone
from tapebook.domain.packet import BarPrices, Packet, Section
from tapebook.errors import ConfigError
from tapebook.llm import Asker, Budget, Completion, Failure, Price, WaitClock
from tests.caches import forget
from tests.context.situations import LONGEST, empty_situation, patient, situation, situations
from tests.decision.engines.seen import LONG, account, packet_of

FOLDER = "tapebook.decision.engines"
ENGINES = plug.names(FOLDER)
ASK_A_MODEL = {"anthropic", "openai"}
RULES = ["analog", "breakout", "carry", "hold", "reversion", "trend"]
SETTABLE = {"analog", "breakout", "carry", "reversion", "trend"}

every_engine = pytest.mark.parametrize("name", ENGINES)


class StandIn:
    """A model that gives one outcome; a hold is on the symbol that the user text is about."""

    def __init__(self, outcome: Completion | Failure | None = None) -> None:
        self.outcome = outcome

    def complete(
        self, system: str, user: str, *, schema: Mapping[str, Any], max_tokens: int, timeout_seconds: float
    ) -> Completion | Failure:
        """The outcome."""
        hold = {"action": "hold", "symbol": SYMBOL[0], "reason": "no edge", "confidence": 0.5}
        text = msgspec.json.encode({"actions": [hold]}).decode()
        return self.outcome or Completion(text, 10, 10)

    def close(self) -> None:
        """There is nothing to end."""


# The symbol of the packet that is asked about: the stand-in cannot read.
SYMBOL = ["BTC"]
FAILS = Failure("unauthorised", "no key")
RAMBLES = Completion("Well, it depends.", 10, 10)


def create(name: str, outcome: Completion | Failure | None = None) -> Engine:
    """A new engine, as the composition root makes it, on a stand-in for every model."""

    def asker(provider: str, model: str) -> Asker:
        waiting = WaitClock(lambda: 0.0, lambda _: None)
        name = model or provider
        return Asker(StandIn(outcome), name=name, place="", price=Price(1, 1), budget=Budget(), waiting=waiting)

    def member(entry: str, cap: int) -> Engine:
        made: Engine = plug.load(FOLDER, entry).create(EngineTerms(max_usd_e6=cap, asker=asker))
        return made

    terms = EngineTerms(max_usd_e6=10**6, member=member, asker=asker)
    engine: Engine = plug.load(FOLDER, name).create(terms)
    return engine


def ask(engine: Engine, packet: Packet) -> EngineAnswer:
    """One decision."""
    SYMBOL[0] = packet.symbol
    return engine.decide(packet)


def check_answer(packet: Packet, answer: EngineAnswer) -> None:
    """Every reply is one the parser understands, about the packet's symbol alone."""
    assert answer.problem is None
    parsed = parse_reply(answer.reply)
    assert isinstance(parsed, Reply), parsed
    assert {action.symbol for action in parsed.actions} == {packet.symbol}
    assert all(action.reason for action in parsed.actions)


def test_folder_has_the_engines_it_should() -> None:
    assert set(ENGINES) == {*RULES, *ASK_A_MODEL, "ensemble"}


@every_engine
def test_answers_a_full_packet(name: str) -> None:
    packet = assemble_packet(situation())
    check_answer(packet, ask(create(name), packet))


@every_engine
@pytest.mark.parametrize("symbol", ["BTC", "ETH", "xyz:GOLD"])
def test_answers_an_empty_packet(name: str, symbol: str) -> None:
    packet = assemble_packet(empty_situation(symbol))
    check_answer(packet, ask(create(name), packet))


@every_engine
def test_answers_a_packet_without_any_section(name: str) -> None:
    packet = packet_of()
    check_answer(packet, ask(create(name), packet))


@every_engine
@pytest.mark.parametrize("rows", [(), ((),), (("close",),), (("x", "y", "z"),) * 100, (("nan", "inf", "-1"),) * 100])
def test_answers_sections_that_make_no_sense(name: str, rows: tuple[tuple[str, ...], ...]) -> None:
    for columns in ((), ("high", "low", "close"), ("name", "value")):
        names = ("bars", "market", "portfolio", "experience")
        sections = tuple(Section(each, "", columns, rows) for each in names)
        packet = packet_of(*sections)
        check_answer(packet, ask(create(name), packet))


@every_engine
@pytest.mark.parametrize("close_e8", [0, 1, LONGEST])
def test_answers_bars_of_absurd_prices(name: str, close_e8: int) -> None:
    prices = tuple([close_e8] * 100)
    packet = packet_of(facts=account(LONG, bars=BarPrices(prices, prices, prices)))
    check_answer(packet, ask(create(name), packet))


@every_engine
def test_answers_any_packet_and_the_same_one_alike(name: str) -> None:
    used = create(name)

    @patient(25)
    @given(situations())
    def check(drawn: Situation) -> None:
        packet = assemble_packet(drawn)
        answer = ask(used, packet)
        check_answer(packet, answer)
        # Neither asking again nor what was asked before makes a difference.
        assert ask(used, packet) == answer
        forget()
        assert ask(create(name), packet) == answer

    check()


@every_engine
def test_a_pure_engine_has_no_identity_and_costs_nothing(name: str) -> None:
    engine, packet = create(name), assemble_packet(situation())
    assert bool(engine.identity) == (name in ASK_A_MODEL)
    assert bool(ask(engine, packet).usage) == (name in ASK_A_MODEL)


@pytest.mark.parametrize("name", sorted(ASK_A_MODEL))
def test_a_model_that_fails_or_rambles_is_no_exception(name: str) -> None:
    packet = assemble_packet(situation())
    failed = ask(create(name, FAILS), packet)
    assert failed.reply == "" and failed.problem == "unauthorised after 1 attempt: no key"
    rambled = ask(create(name, RAMBLES), packet)
    assert (rambled.reply, rambled.problem) == (RAMBLES.text, None)


def test_an_ensemble_has_a_vote_of_every_member() -> None:
    answer = ask(create("ensemble"), assemble_packet(situation()))
    assert [vote.engine for vote in answer.votes] == ["trend", "reversion", "breakout", "carry", "analog"]


@every_engine
def test_settings_have_defaults_and_say_what_they_may_be(name: str) -> None:
    kind = getattr(plug.load(FOLDER, name), "SETTINGS", None)
    assert (kind is not None) == (name in SETTABLE)
    if kind is not None:
        defaults = [(each, str(value)) for each, value in msgspec.to_builtins(kind()).items()]
        assert EngineTerms(settings=tuple(defaults)).settings_as(kind) == kind()
        hints = get_type_hints(kind, include_extras=True)
        assert all(hint.__metadata__[0].description for hint in hints.values())


@every_engine
def test_a_setting_that_nobody_knows_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_engine(name, EngineTerms(settings=(("patience", "3"),)))
    first = f"engine {name}: `engine_settings` has no `patience`; choose one of: notional_usd, leverage"
    none = f"the engine {name} takes no settings: remove patience from `engine_settings`"
    assert str(caught.value).startswith(first) if name in SETTABLE else str(caught.value) == none


@pytest.mark.parametrize(
    ("engine", "settings", "says"),
    [
        ("trend", {"fast": "0"}, "`fast` @ is 0 but must be a whole number of bars from 1 to 500"),
        (
            "trend",
            {"slow": "4.5"},
            "`slow` @ is 4.5 but must be a whole number of bars from 1 to 500",
        ),
        ("trend", {"fats": "4"}, "`engine_settings` has no `fats`; did you mean `fast`?"),
        (
            "trend",
            {"fast": "32"},
            "`engine_settings` cannot be: fast must be below slow, and leave_bps at",
        ),
        (
            "carry",
            {"enter_pct": "nan"},
            "`enter_pct` @ is nan but must be a number of percent an hour ",
        ),
        (
            "carry",
            {"enter_pct": "inf"},
            "`enter_pct` @ is inf but must be a number of percent an hour ",
        ),
        ("breakout", {"leave_bars": "31"}, "`engine_settings` cannot be: leave_bars must be at most enter_bars"),
        (
            "reversion",
            {"enter": "many"},
            "`enter` @ is many but must be a number of deviations above 0",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_line(engine: str, settings: dict[str, str], says: str) -> None:
    says = says.replace("@", "of `engine_settings`")
    with pytest.raises(ConfigError) as caught:
        make_engine(engine, EngineTerms(settings=tuple(settings.items())))
    assert str(caught.value).startswith(f"engine {engine}: {says}")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("trend", {"fast": "1", "slow": "2", "enter_bps": "0", "leave_bps": "0"}),
        ("trend", {"fast": "499", "slow": "500", "notional_usd": "0.01"}),
        ("reversion", {"bars": "1", "enter": "0.001"}),
        ("reversion", {"bars": "500", "enter": "20", "leverage": "100"}),
        ("breakout", {"enter_bars": "1", "leave_bars": "1"}),
        ("carry", {"enter_pct": "100", "leave_pct": "100"}),
    ],
)
def test_answers_with_settings_at_their_limits(name: str, settings: dict[str, str]) -> None:
    engine = make_engine(name, EngineTerms(settings=tuple(settings.items())))
    for packet in (assemble_packet(situation()), assemble_packet(empty_situation("BTC")), packet_of()):
        check_answer(packet, ask(engine, packet))


@every_engine
@given(here=situations())
def test_whoever_reads_facts_alone_answers_them_like_the_packet(name: str, here: Situation) -> None:
    engine = create(name)
    assert reads_facts_alone(engine) is (name not in ASK_A_MODEL)
    if reads_facts_alone(engine):
        assert ask(engine, packet_of_facts(here)) == ask(create(name), assemble_packet(here))


def test_an_ensemble_with_a_model_needs_the_packet() -> None:
    made = plug.load(FOLDER, "ensemble").create(
        EngineTerms(members=("trend", "anthropic"), member=lambda name, _cap: create(name))
    )
    assert not reads_facts_alone(made)
