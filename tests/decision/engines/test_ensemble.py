"""The ensemble: a weighted majority, every vote recorded, whoever fails counted as a hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision import Engine, EngineAnswer, EngineTerms
from tapebook.decision.engines import ensemble
from tapebook.decision.engines.ensemble import MEMBERS, EnsembleEngine
from tapebook.decision.reply import make_answer
from tapebook.domain.money import E6, E8
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import Action, Usage, Vote
from tapebook.errors import ConfigError
from tests.decision.engines.seen import action_in, packet_of

PACKET = packet_of()


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


def trusting(**weights: str) -> Packet:
    """A packet whose experience weighs members."""
    rows = (("similar", "3 of 4 won"), *(("provider", name, weight) for name, weight in weights.items()), ("provider",))
    return packet_of(Section("experience", "", ("kind", "name", "value"), rows))


def test_the_heavier_side_wins() -> None:
    proposed = decided(says("open", 0.6), says("open", 0.5), says("hold", 0.5), says("close", 0.5))
    assert (proposed.action, proposed.side) == ("open", "long")


def test_confidence_counts_not_heads() -> None:
    assert decided(says("open", 0.9), says("hold", 0.4), says("hold", 0.4)).action == "open"
    assert decided(says("open", 0.7), says("hold", 0.4), says("hold", 0.4)).action == "hold"


def test_sides_are_different_proposals() -> None:
    assert decided(says("open", 0.5), says("open", 0.5, side="short"), says("hold", 0.6)).action == "hold"


def test_a_tie_holds() -> None:
    proposed = decided(says("open", 0.5), says("open", 0.5, side="short"))
    assert (proposed.action, proposed.confidence_e4) == ("hold", 0)
    assert proposed.reason == "no majority: open long: a; open short: b"


def test_members_who_all_abstain_hold() -> None:
    assert decided(says("hold", 0.0), says("hold", 0.0)).reason.startswith("no majority")


def test_agreement_keeps_confidence_and_disagreement_lowers_it() -> None:
    assert decided(says("open", 0.6), says("open", 0.6)).confidence_e4 == 6_000
    assert decided(says("open", 0.6), says("open", 0.6), says("hold", 0.5)).confidence_e4 == 4_000
    assert decided(says("open", 0.6), fails()).confidence_e4 == 3_000


def test_the_strongest_voter_gives_size_leverage_and_limit() -> None:
    limit = {"order_type": "limit", "limit_price": 64_999.5, "cites": ["c1"]}
    strong = says("open", 0.8, notional_usd=321.5, leverage=3, **limit)
    proposed = decided(says("open", 0.6, notional_usd=900.0), strong, says("hold", 0.9, side=None))
    assert (proposed.notional_usd_e6, proposed.leverage) == (round(321.5 * E6), 3)
    assert (proposed.order_type, proposed.limit_price_e8) == ("limit", round(64_999.5 * E8))
    assert proposed.cites == ("c1",)


def test_every_vote_is_recorded() -> None:
    given = asked(says("open", 0.6), says("hold", 0.5), fails("timeout after 3 attempts"))
    assert given.votes == (
        Vote("a", "open", "long", 6_000, 10_000, "for open"),
        Vote("b", "hold", None, 5_000, 10_000, "for hold"),
        Vote("c", "hold", None, 0, 10_000, "timeout after 3 attempts"),
    )


def test_a_reply_that_is_none_is_a_vote_to_hold() -> None:
    given = asked(says("open", 0.6), Says(EngineAnswer("buy!")), Says(EngineAnswer('{"actions":[]}')))
    assert [vote.action for vote in given.votes] == ["open", "hold", "hold"]
    assert given.votes[1].reason.startswith("not the JSON")
    assert given.votes[2].reason == "no word on BTC"
    assert action_in(given).action == "open"


def test_words_on_other_symbols_are_no_votes() -> None:
    other = Says(
        EngineAnswer('{"actions":[{"action":"open","symbol":"ETH","side":"long","notional_usd":5,"confidence":1}]}')
    )
    assert decided(other, says("close", 0.1)).action == "close"


def test_when_everybody_fails_there_is_no_answer() -> None:
    given = asked(fails("one"), fails("two"))
    assert given.problem == "every member failed: a: one; b: two"
    assert [vote.reason for vote in given.votes] == ["one", "two"]


def test_weights_come_from_experience() -> None:
    members = says("open", 0.5), says("close", 0.6)
    assert decided(*members).action == "close"
    given = asked(*members, packet=trusting(a="1.30"))
    assert action_in(given).action == "open"
    assert [vote.weight_e4 for vote in given.votes] == [13_000, 10_000]


@pytest.mark.parametrize(
    ("weight", "e4"), [("0", 0), ("-5", 0), ("0.25", 2_500), ("99", 100_000), ("nan", 10_000), ("much", 10_000)]
)
def test_absurd_weights(weight: str, e4: int) -> None:
    assert asked(says("hold"), packet=trusting(a=weight)).votes[0].weight_e4 == e4


def test_weights_of_nothing_hold() -> None:
    assert decided(says("open"), says("close"), packet=trusting(a="0", b="0")).action == "hold"


def test_a_member_with_a_model_is_known_by_its_engine() -> None:
    member = EnsembleEngine([("openai:gpt-6-luna", says("hold"))])
    packet = packet_of(Section("experience", "", ("kind",), (("provider", "openai", "2.00"),)))
    assert member.decide(packet).votes[0].weight_e4 == 20_000


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


KINDS = st.sampled_from([("open", "long"), ("open", "short"), ("close", None), ("hold", None)])
VOTERS = st.lists(st.tuples(KINDS, st.integers(0, 10_000), st.integers(0, 100)), min_size=1, max_size=6)


@given(VOTERS)
def test_it_is_the_majority_that_a_plain_count_finds(voters: list[tuple[tuple[str, str | None], int, int]]) -> None:
    members = [says(kind, confidence / 1e4, side=side) for (kind, side), confidence, _ in voters]
    weights = {name: f"{weight / 100:.2f}" for name, (_, _, weight) in zip("abcdef", voters, strict=False)}
    sums: dict[tuple[str, str | None], int] = {}
    for proposal, confidence, weight in voters:
        sums[proposal] = sums.get(proposal, 0) + confidence * weight
    best = [proposal for proposal, weight in sums.items() if weight == max(sums.values())]
    expected = best[0] if len(best) == 1 and sums[best[0]] else ("hold", None)
    proposed = decided(*members, packet=trusting(**weights))
    assert (proposed.action, proposed.side) == expected
    # Nobody is surer together than the surest of them alone.
    assert proposed.confidence_e4 <= max(confidence for _, confidence, _ in voters)
