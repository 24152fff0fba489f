"""Asks several engines and goes with the weighted majority; every vote is recorded.

1. Every member answers the packet; one that fails has a recorded vote to hold, with its problem as the reason.
2. A vote weighs its confidence times the member's weight. Votes for the same action and side are added up.
3. The heaviest proposal wins, and the strongest of its voters gives it size, leverage and limit. A tie holds.
4. Its confidence is the share of all the weight there is: whoever votes otherwise lowers it.

A member is the name of an engine, or `engine:model`, such as `openai:gpt-6-luna`; the members that
cost money share the run's cap evenly. Weights are 1 unless the packet's section `experience` has
rows ("provider", MEMBER, WEIGHT), such as ("provider", "trend", "1.20").
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms, has_members
from tapebook.decision.reply import MAX_REASON_CHARS, ReplyRefusal, make_answer_on, parse_reply
from tapebook.decision.rule_engine import parse_number
from tapebook.domain.cache import LastCall
from tapebook.domain.money import E6, E8
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import Action, Usage, Vote
from tapebook.domain.text import short_line
from tapebook.errors import ConfigError

MEMBERS = ("trend", "reversion", "breakout", "carry")
ONE_E4 = 10_000
# Weights are read from the packet; clamped, so that no member can outvote all others by a row of experience.
MOST_WEIGHT = 10.0
_ORDERS = ("open", "adjust")


class Ballot(msgspec.Struct, frozen=True, cache_hash=True):
    """A vote, what it is for, what it weighs, and the action behind it; without one the member failed or is silent."""

    vote: Vote
    proposal: tuple[str, str | None]
    strength: int
    action: Action | None


class EnsembleEngine:
    """Several engines under their names."""

    def __init__(self, members: Sequence[tuple[str, Engine]]) -> None:
        self._members = members
        # Rules answer the same for as long as the bars stay, so what the votes come to is often known.
        self._together = LastCall(_majority_answer)
        # Empty when every member is a pure function of the packet.
        identities = " + ".join(f"{name} {engine.identity}".strip() for name, engine in members)
        self.identity = identities if any(engine.identity for _, engine in members) else ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """The proposal of the majority, with everybody's vote."""
        answers = tuple([(name, engine.decide(packet)) for name, engine in self._members])
        return self._together((packet.symbol, answers, packet.section("experience")))


def _majority_answer(given: tuple[str, tuple[tuple[str, EngineAnswer], ...], Section | None]) -> EngineAnswer:
    symbol, answers, experience = given
    weights = _weights(experience)
    ballots = tuple([_ballot(name, each, _weight(name, weights), symbol) for name, each in answers])
    votes, usage = tuple([ballot.vote for ballot in ballots]), _usage(answers)
    if not [each for _, each in answers if not each.problem]:
        problem = "; ".join(f"{name}: {each.problem}" for name, each in answers)
        return EngineAnswer(
            "", votes, usage, f"every member failed: {short_line(problem, MAX_REASON_CHARS)}", _reasoning(answers)
        )
    return EngineAnswer(_count_votes(symbol, ballots).reply, votes, usage, reasoning=_reasoning(answers))


def _weights(section: Section | None) -> dict[str, int]:
    rows = [row for row in section.rows if len(row) > 2 and row[0] == "provider"] if section else []
    return _weights_of(tuple(rows))


@lru_cache(maxsize=256)
def _weights_of(rows: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    """The weights of an ensemble's members."""
    # Cached, since weights change with an outcome, and what stands beside them with every bar.
    found = {row[1]: parse_number(row[2]) for row in rows}
    return {
        name: round(min(max(weight, 0.0), MOST_WEIGHT) * ONE_E4) for name, weight in found.items() if weight is not None
    }


def _weight(name: str, weights: dict[str, int]) -> int:
    return weights.get(name, weights.get(name.partition(":")[0], ONE_E4))


@lru_cache(maxsize=1_024)
def _ballot(name: str, given: EngineAnswer, weight_e4: int, symbol: str) -> Ballot:
    parsed = parse_reply(given.reply) if given.problem is None else ReplyRefusal(given.problem)
    if isinstance(parsed, ReplyRefusal):
        return _make_ballot(Vote(name, "hold", None, 0, weight_e4, short_line(parsed.why, MAX_REASON_CHARS)))
    own = [action for action in parsed.actions if action.symbol == symbol]
    if not own:
        return _make_ballot(Vote(name, "hold", None, 0, weight_e4, f"no word on {symbol}"))
    own_action = own[0] if len(own) == 1 else next((action for action in own if action.action != "hold"), own[0])
    side = own_action.side if own_action.action in _ORDERS else None
    return _make_ballot(
        Vote(name, own_action.action, side, own_action.confidence_e4, weight_e4, own_action.reason), own_action
    )


def _make_ballot(vote: Vote, action: Action | None = None) -> Ballot:
    return Ballot(vote, (vote.action, vote.side), vote.confidence_e4 * vote.weight_e4, action)


@lru_cache(maxsize=1_024)
def _count_votes(symbol: str, ballots: tuple[Ballot, ...]) -> EngineAnswer:
    """What the votes come to; cached like the ballots, since rules vote the same for as long as the bars stay."""
    sums: dict[tuple[str, str | None], int] = {}
    for ballot in ballots:
        sums[ballot.proposal] = sums.get(ballot.proposal, 0) + ballot.strength
    heaviest = max(sums.values())
    winners = [proposal for proposal, weight in sums.items() if weight == heaviest]
    if len(winners) > 1 or not heaviest:
        return make_answer_on(symbol, "hold", reason=f"no majority: {_tally(ballots)}", confidence=0.0)
    winner, all_weights = winners[0], sum([ballot.vote.weight_e4 for ballot in ballots])
    order = (
        _order_of_voters([ballot for ballot in ballots if ballot.proposal == winner]) if winner[0] in _ORDERS else {}
    )
    confidence = heaviest / all_weights / ONE_E4
    return make_answer_on(symbol, winner[0], reason=_tally(ballots), confidence=confidence, **order)


def _order_of_voters(voters: list[Ballot]) -> dict[str, object]:
    """Everything else that an action says, from the strongest of its voters."""
    action = max(voters, key=lambda ballot: ballot.strength).action
    if action is None:
        return {}
    limit = None if action.limit_price_e8 is None else action.limit_price_e8 / E8
    return {
        **{"side": action.side, "notional_usd": action.notional_usd_e6 / E6, "leverage": action.leverage},
        **{"order_type": action.order_type, "limit_price": limit, "cites": action.cites},
    }


def _tally(ballots: Sequence[Ballot]) -> str:
    """Who is for what, in the order of the members."""
    camps: dict[str, list[str]] = {}
    for ballot in ballots:
        what = ballot.vote.action if ballot.vote.side is None else f"{ballot.vote.action} {ballot.vote.side}"
        camps.setdefault(what, []).append(ballot.vote.engine)
    return "; ".join([f"{what}: {', '.join(names)}" for what, names in camps.items()])


def _reasoning(answers: Sequence[tuple[str, EngineAnswer]]) -> str:
    """What the members thought, each under its name."""
    return "\n\n".join([f"{name}:\n{each.reasoning}" for name, each in answers if each.reasoning])


def _usage(answers: Sequence[tuple[str, EngineAnswer]]) -> Usage | None:
    used = [given.usage for _, given in answers if given.usage is not None]
    if not used:
        return None
    return Usage(
        " + ".join(each.model for each in used),
        sum(each.input_tokens for each in used),
        sum(each.output_tokens for each in used),
        sum(each.cost_usd_e6 for each in used),
        sum(each.attempts for each in used),
    )


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    names = terms.members or MEMBERS
    if any(has_members(name.partition(":")[0]) for name in names):
        raise ConfigError("an ensemble cannot be a member of an ensemble: name its members instead")
    paid = sum(bool(terms.member(name, terms.max_usd_e6).identity) for name in names)
    share = terms.max_usd_e6 // max(1, paid)
    return EnsembleEngine([(name, terms.member(name, share)) for name in names])
