"""The ensemble: a majority or a weighted target, every vote recorded, whoever fails without a voice."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision import Engine, EngineAnswer, EngineTerms
from tapebook.decision.engines import breakout, ensemble, reversion, trend
from tapebook.decision.engines.ensemble import MEMBERS, EnsembleEngine
from tapebook.decision.reply import make_answer
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import Action, Usage, Vote
from tapebook.domain.units import E6, E8
from tapebook.errors import ConfigError
from tests.decision.engines.seen import FLAT, LONG, SHORT, account, action_in, bars, packet_of

PACKET = packet_of(facts=account())


class Says:
    """An engine that always says the same."""

    def __init__(self, given: EngineAnswer, identity: str = "") -> None:
        self.given = given
        self.identity = identity

    def decide(self, packet: Packet) -> EngineAnswer:
        """What it always says."""
        return self.given


def says(kind: str, confidence: float = 0.5, **fields: Any) -> Says:
    """A member that proposes one action."""
    order = {"side": "long", "notional_usd": 100.0, **fields} if kind in ("open", "adjust") else fields
    return Says(make_answer(PACKET, kind, reason=f"for {kind}", confidence=confidence, **order))


def fails(problem: str = "it broke", usage: Usage | None = None) -> Says:
    """A member that has no answer."""
    return Says(EngineAnswer("", usage=usage, problem=problem), "model")


def asked(*members: Engine, packet: Packet = PACKET) -> EngineAnswer:
    """What members a, b, c … come to."""
    return EnsembleEngine(list(zip("abcdefgh", members, strict=False))).decide(packet)


def decided(*members: Engine, packet: Packet = PACKET) -> Action:
    """The action they come to."""
    return action_in(asked(*members, packet=packet))


def trusting(held_usd: int = 0, **weights: int) -> Packet:
    """A packet whose facts weigh members, with so much held."""
    return packet_of(facts=account(held_usd_e6=held_usd * E6, account_used_usd_e6=abs(held_usd) * E6, weights=weights))


def holding(held: int) -> Packet:
    """A packet of an account that holds 1,000 USD on a side."""
    return packet_of(facts=account(held))


LONGS_OF_1000, SHORTS_OF_1000 = says("open", notional_usd=1_000.0), says("open", side="short", notional_usd=1_000.0)
LONGS, SHORTS, CLOSES, HOLDS = says("open"), says("open", side="short"), says("close"), says("hold")


@pytest.mark.parametrize(
    ("members", "kind", "side"),
    [
        ((LONGS, LONGS, HOLDS), "open", "long"),
        ((LONGS, HOLDS, HOLDS), "hold", None),
        ((LONGS, HOLDS), "open", "long"),
        ((LONGS, SHORTS), "hold", None),
        ((LONGS, LONGS, SHORTS), "open", "long"),
        ((LONGS, LONGS, SHORTS, HOLDS), "hold", None),
        ((LONGS, LONGS, HOLDS, CLOSES), "open", "long"),
        ((SHORTS, SHORTS, HOLDS, LONGS, SHORTS), "open", "short"),
        ((LONGS, fails(), fails()), "open", "long"),
    ],
)
def test_a_majority_needs_a_majority(members: tuple[Engine, ...], kind: str, side: str | None) -> None:
    proposed = decided(*members)
    assert (proposed.action, proposed.side) == (kind, side)


@pytest.mark.parametrize(
    ("held", "members", "kind"),
    [
        (LONG, (LONGS_OF_1000, HOLDS, HOLDS), "hold"),
        (LONG, (CLOSES, HOLDS, HOLDS), "hold"),
        (LONG, (CLOSES, CLOSES, HOLDS), "close"),
        (LONG, (SHORTS, SHORTS, HOLDS), "open"),
        (SHORT, (LONGS, HOLDS, HOLDS), "hold"),
        (LONG, (LONGS, SHORTS, CLOSES), "close"),
    ],
)
def test_a_hold_is_a_voice_for_what_is_held(held: int, members: tuple[Engine, ...], kind: str) -> None:
    assert decided(*members, packet=holding(held)).action == kind


def test_the_strongest_voter_gives_size_leverage_and_limit() -> None:
    limit = {"order_type": "limit", "limit_price": 64_999.5, "cites": ["c1"]}
    strong = says("open", 0.8, notional_usd=321.5, leverage=3, **limit)
    proposed = decided(says("open", 0.6, notional_usd=900.0), strong, says("hold", 0.9, side=None))
    assert (proposed.notional_usd_e6, proposed.leverage) == (round(321.5 * E6), 3)
    assert (proposed.order_type, proposed.limit_price_e8) == ("limit", round(64_999.5 * E8))
    assert proposed.cites == ("c1",)


def test_every_vote_is_recorded_with_its_target() -> None:
    given = asked(says("open", 0.6), says("hold", 0.5), fails("timeout after 3 attempts"))
    assert given.votes == (
        Vote("a", "open", "long", 6_000, 10_000, "for open", 10_000),
        Vote("b", "hold", None, 5_000, 10_000, "for hold", 0),
        Vote("c", "hold", None, 0, 10_000, "timeout after 3 attempts"),
    )


def test_a_vote_without_a_target_is_stored_as_before_there_were_any() -> None:
    assert b"target" not in msgspec.json.encode(Vote("a", "hold", None, 0, 10_000, "why"))
    assert msgspec.json.decode(msgspec.json.encode(Vote("a", "hold", None, 0, 1, "", -5)), type=Vote).target_e4 == -5


def test_a_reply_that_is_none_has_no_voice() -> None:
    given = asked(says("open", 0.6), Says(EngineAnswer("buy!")), Says(EngineAnswer('{"actions":[]}')))
    assert [vote.action for vote in given.votes] == ["open", "hold", "hold"]
    assert given.votes[1].reason.startswith("not the JSON")
    assert given.votes[2].reason == "no word on BTC"
    assert action_in(given).action == "open"


def test_words_on_other_symbols_are_no_votes() -> None:
    other = Says(
        EngineAnswer('{"actions":[{"action":"open","symbol":"ETH","side":"long","notional_usd":5,"confidence":1}]}')
    )
    assert decided(other, says("close", 0.1), packet=holding(LONG)).action == "close"


def test_when_everybody_fails_there_is_no_answer() -> None:
    given = asked(fails("one"), fails("two"))
    assert given.problem == "every member failed: a: one; b: two"
    assert [vote.reason for vote in given.votes] == ["one", "two"]


@pytest.mark.parametrize(
    ("weights", "held", "kind", "size"),
    [
        ({"a": 7_000, "cash": 3_000}, 0, "open", 700),
        ({"a": 2_000, "cash": 8_000}, 0, "hold", 0),
        ({"a": 6_000, "b": 2_000, "cash": 2_000}, 0, "open", 400),
        ({"a": 2_000, "equal": 8_000}, 0, "hold", 0),
        ({"a": 7_000, "cash": 3_000}, 600, "hold", 0),
        ({"a": 7_000, "cash": 3_000}, 300, "adjust", 700),
        ({"cash": 10_000}, 700, "close", 0),
        ({"a": 7_000, "cash": 3_000}, -700, "open", 700),
    ],
)
def test_weights_scale_the_target_and_small_steps_are_not_worth_their_costs(
    weights: dict[str, int], held: int, kind: str, size: int
) -> None:
    packet = trusting(held, **weights)
    proposed = decided(LONGS_OF_1000, SHORTS_OF_1000, packet=packet)
    assert (proposed.action, proposed.notional_usd_e6) == (kind, size * E6)


def test_a_small_step_is_made_once_not_making_it_has_cost_as_much() -> None:
    # All of the notional at 500 ppm costs 500,000 billionths of it.
    for missed, kind in ((499_999, "hold"), (500_000, "adjust")):
        facts = account(held_usd_e6=600 * E6, account_used_usd_e6=600 * E6, cost_ppm=500, missed_e9=missed)
        facts = msgspec.structs.replace(facts, weights={"a": 7_000, "cash": 3_000})
        assert decided(LONGS_OF_1000, packet=packet_of(facts=facts)).action == kind


def test_lessons_scale_what_is_wanted() -> None:
    facts = account(lessons_scale_e4=5_000)
    assert decided(LONGS_OF_1000, packet=packet_of(facts=facts)).notional_usd_e6 == 500 * E6


def test_confidence_that_hits_less_often_than_it_says_enters_less() -> None:
    usual, sized, sure = (
        decided(LONGS_OF_1000, packet=packet_of(facts=account(believed_e4=each)))
        for each in ((), (10_000,) * 9 + (4_000,), (0,) * 9 + (10_000,))
    )
    assert (usual.notional_usd_e6, sized.notional_usd_e6) == (1_000 * E6, 400 * E6)
    assert sized.confidence_e4 == 4_000 and sized.reason.startswith("sized as it hits; ")
    # A tenth that hits as often as it says, or of which too little is known, leaves it as it was.
    assert sure == usual


def test_lessons_scale_entries_on_their_side_and_are_named_and_what_is_held_stays() -> None:
    facts = account(lessons_scale_short_e4=0, lessons_followed=("0123456789ab",))
    assert decided(LONGS_OF_1000, packet=packet_of(facts=facts)).notional_usd_e6 == 1_000 * E6
    assert decided(SHORTS_OF_1000, packet=packet_of(facts=facts)).action == "hold"
    halved = msgspec.structs.replace(facts, lessons_scale_e4=5_000)
    assert decided(LONGS_OF_1000, packet=packet_of(facts=halved)).reason.startswith("follows lessons 0123456789ab; ")
    # A lesson is about entries: a position that is wanted as it is stays, and one that is not wanted ends.
    held = msgspec.structs.replace(halved, held_usd_e6=1_000 * E6, account_used_usd_e6=1_000 * E6)
    assert decided(LONGS_OF_1000, packet=packet_of(facts=held)).action == "hold"
    assert decided(SHORTS_OF_1000, packet=packet_of(facts=held)).action == "close"


class ReadsSections:
    """A plug-in that was written against the packet's sections alone."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """Long when the section says up."""
        found = packet.section("market")
        kind = "open" if found and found.get("direction") == "up" else "hold"
        return make_answer(packet, kind, reason="as it says", side="long", notional_usd=500.0)


def test_an_engine_that_reads_sections_has_a_voice() -> None:
    market = Section("market", "", ("name", "value"), (("direction", "up"),))
    packet = packet_of(market, facts=account())
    assert decided(ReadsSections(), packet=packet).notional_usd_e6 == 500 * E6
    assert action_in(ReadsSections().decide(packet)).action == "open"


RULES = (trend, reversion, breakout)
CLOSES_OF_BARS = st.lists(st.integers(90, 110).map(float), min_size=45, max_size=60)


@given(CLOSES_OF_BARS)
def test_targets_of_rules_do_not_depend_on_what_is_held(closes: list[float]) -> None:
    engine = EnsembleEngine([(each.__name__.rpartition(".")[2], each.create(EngineTerms())) for each in RULES])
    prices = bars([(close + 1, close - 1, close) for close in closes])
    packets = [packet_of(facts=account(held, bars=prices)) for held in (FLAT, LONG, SHORT)]
    targets = [[vote.target_e4 for vote in engine.decide(packet).votes] for packet in packets]
    assert targets[0] == targets[1] == targets[2]
    # What they come to is held until the bars change: the same packet behind it asks for nothing more.
    wanted = action_in(engine.decide(packets[0]))
    after = {"open": LONG if wanted.side == "long" else SHORT}.get(wanted.action, FLAT)
    assert action_in(engine.decide(packets[(FLAT, LONG, SHORT).index(after)])).action == "hold"


def test_usage_is_that_of_all_members() -> None:
    paid = Says(make_answer(PACKET, "hold", reason="r"), "m")
    paid.given = EngineAnswer(paid.given.reply, usage=Usage("m", 10, 2, 300, 1))
    assert asked(paid, says("hold"), fails(usage=Usage("n", 5, 0, 50, 3))).usage == Usage("m + n", 15, 2, 350, 4)
    assert asked(says("hold")).usage is None


def test_identity_is_that_of_its_members() -> None:
    assert EnsembleEngine([("a", says("hold")), ("b", says("open"))]).identity == ""
    assert EnsembleEngine([("a", says("hold")), ("b", fails())]).identity == "a + b model"


def test_members_that_cost_money_share_the_cap() -> None:
    caps: list[tuple[str, int]] = []

    def member(name: str, cap: int) -> Engine:
        caps.append((name, cap))
        return says("hold") if name == "trend" else fails()

    terms = EngineTerms(members=("anthropic", "trend", "openai:x"), max_usd_e6=501, member=member)
    ensemble.create(terms)
    assert caps[-3:] == [("anthropic", 250), ("trend", 250), ("openai:x", 250)]


def test_members_are_those_of_the_profile_else_the_four_rules() -> None:
    made: list[str] = []

    def member(name: str, cap: int) -> Engine:
        made.append(name)
        return says("hold")

    ensemble.create(EngineTerms(member=member))
    assert set(made) == set(MEMBERS)


@pytest.mark.parametrize("name", ["ensemble", "ensemble:x"])
def test_an_ensemble_of_ensembles_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a member"):
        ensemble.create(EngineTerms(members=("trend", name), member=lambda *_: says("hold")))


TWO_RULES = [("trend", trend.create(EngineTerms())), ("breakout", breakout.create(EngineTerms()))]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([FLAT, LONG, SHORT]), st.sampled_from([90.0, 110.0, 130.0]), st.integers(0, 9),
            st.sampled_from(["BTC", "ETH"]), st.booleans(),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_what_was_decided_before_leaves_no_trace(asked_for: list[tuple[int, float, int, str, bool]]) -> None:
    for members in (TWO_RULES, [*TWO_RULES[:1], ("said", LONGS), *TWO_RULES[1:]]):
        lasting = EnsembleEngine(members)
        for held, close, weight, symbol, weighed in asked_for:
            weights = {"trend": weight, "breakout": 9, "cash": 1} if weighed else {}
            shown = bars([(price, price, price) for price in (*[100.0] * 40, close)])
            packet = packet_of(facts=account(held, bars=shown, symbol=symbol, weights=weights))
            assert lasting.decide(packet) == EnsembleEngine(members).decide(packet)


def test_a_member_that_is_named_twice_is_asked_and_paid_twice() -> None:
    paid = Says(msgspec.structs.replace(LONGS.given, usage=Usage("m", 1, 2, 3, 1)), "model")
    answer = EnsembleEngine([("m", paid), ("m", paid)]).decide(PACKET)
    assert len(answer.votes) == 2 and answer.usage == Usage("m + m", 2, 4, 6, 2)
