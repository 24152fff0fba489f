"""Asks several engines and trades towards what they want together.

1. Every member has a target (`domain/targets.py`): a rule gives it from the facts of the packet; of any other engine it
   follows from its reply: an order wants its side, a close nothing, a hold what is held. Who fails or says nothing of
   the symbol has no voice.
2. Without weights the majority decides: one voice against two that hold does not trade. With the weights that
   experience has learned the target is their mean, in which `cash` and the majority (`equal`) have weights as well.
3. The position moves to the target when that is worth its costs. Size is the notional of a whole target times the
   target; the strongest voter on its side gives leverage and limit.
4. Where confirmed lessons are followed they scale what is entered, and the reason names them.

A member is the name of an engine, or `engine:model`, such as `openai:gpt-6-luna`; the members that
cost money share the run's cap evenly.
"""

from collections.abc import Sequence

import msgspec

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms, default_members, reads_facts_alone
from tapebook.decision.reply import MAX_REASON_CHARS, ReplyRefusal, make_answer_of, parse_reply
from tapebook.decision.rule_engine import (
    USUAL_SETTINGS,
    RuleEngine,
    RuleSettings,
    Signal,
    action_towards,
    side_target_e4,
    target_side,
    unit_usd_e6,
)
from tapebook.domain.cache import LastCall
from tapebook.domain.packet import DecisionFacts, Packet, PositionSide
from tapebook.domain.run import Action, ActionKind, Usage, Vote
from tapebook.domain.targets import FULL_E4, majority_target_e4, position_after_e4, weighted_target_e4
from tapebook.domain.text import short_line
from tapebook.errors import ConfigError

MEMBERS = ("trend", "reversion", "breakout", "carry", "analog")
_ORDERS = ("open", "adjust")
_SIDES: tuple[PositionSide | None, ...] = ("long", "short", None)


class Ballot(msgspec.Struct, frozen=True):
    """A member's vote, not weighed yet, its target, and the action or the settings that say how to trade."""

    vote: Vote
    target_e4: int | None
    action: Action | None = None
    settings: RuleSettings = USUAL_SETTINGS


class Council(msgspec.Struct, frozen=True):
    """What the members say, whatever they weigh: ballots, those of each side, all targets, and who wants what."""

    ballots: tuple[Ballot, ...]
    sides: dict[PositionSide | None, tuple[Ballot, ...]]
    targets: dict[str, int | None]
    majority_e4: int
    tally: str


_RuleSignals = tuple[tuple[Signal, ...], PositionSide | None]


class EnsembleEngine:
    """Several engines under their names."""

    def __init__(self, members: Sequence[tuple[str, Engine]]) -> None:
        self._members = members
        self._rules = [engine for _, engine in members if isinstance(engine, RuleEngine)]
        # A cache by symbol: rules want the same for as long as their signals and the side that is held stay.
        self._councils: dict[str, LastCall[_RuleSignals, Council]] = {}
        self.facts_alone = all(reads_facts_alone(engine) for _, engine in members)
        # Empty when every member is a pure function of the packet.
        identities = " + ".join(f"{name} {engine.identity}".strip() for name, engine in members)
        self.identity = identities if any(engine.identity for _, engine in members) else ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """What the members want together, with everybody's vote."""
        facts = packet.facts if packet.facts.symbol else msgspec.structs.replace(packet.facts, symbol=packet.symbol)
        signals, held, weights = tuple([rule.signal(facts) for rule in self._rules]), facts.held_side, facts.weights
        answers: list[tuple[str, EngineAnswer]] = []
        if len(self._rules) == len(self._members):
            kept = self._councils.get(facts.symbol)
            if kept is None:
                kept = self._councils[facts.symbol] = LastCall(self._council_of_rules)
            council = kept((signals, held))
        else:
            answers = [(name, each.decide(packet)) for name, each in self._members if not isinstance(each, RuleEngine)]
            council = self._council((signals, held), answers, facts)
        votes: list[Vote] = []
        for ballot in council.ballots:
            weight = weights.get(ballot.vote.engine, 0) if weights else FULL_E4
            votes.append(msgspec.structs.replace(ballot.vote, weight_e4=weight))
        failed = [(name, each.problem) for name, each in answers if each.problem]
        usage, reasoning = (_usage(answers), _reasoning(answers)) if answers else (None, "")
        if failed and len(failed) == len(votes):
            problem = short_line("; ".join(f"{name}: {why}" for name, why in failed), MAX_REASON_CHARS)
            return EngineAnswer("", tuple(votes), usage, f"every member failed: {problem}", reasoning)
        answer = make_answer_of(_joint_action(facts, council))
        return EngineAnswer(answer.reply, tuple(votes), usage, None, reasoning, answer.actions)

    def _council_of_rules(self, given: _RuleSignals) -> Council:
        return self._council(given, (), DecisionFacts())

    def _council(
        self, given: _RuleSignals, answers: Sequence[tuple[str, EngineAnswer]], facts: DecisionFacts
    ) -> Council:
        """The ballots in the order of the members: of a rule by its signal, of any other by its answer."""
        signals, held = given
        left, answered, ballots = iter(signals), iter(answers), []
        for name, engine in self._members:
            if isinstance(engine, RuleEngine):
                ballots.append(_ballot_of_signal(name, next(left), held, settings=engine.settings))
            else:
                ballots.append(_ballot_of_answer(*next(answered), facts))
        voices = [each for each in ballots if each.target_e4]
        sides = {side: tuple([each for each in voices if target_side(each.target_e4 or 0) == side]) for side in _SIDES}
        targets = {ballot.vote.engine: ballot.target_e4 for ballot in ballots}
        tally = _tally_text([(ballot.vote.engine, ballot.target_e4) for ballot in ballots])
        return Council(tuple(ballots), sides, targets, majority_target_e4(targets.values()), tally)


def _ballot_of_signal(name: str, signal: Signal, held: PositionSide | None, *, settings: RuleSettings) -> Ballot:
    kind, side = action_towards(signal.target_e4, held)
    target = msgspec.UNSET if signal.target_e4 is None else signal.target_e4
    vote = Vote(name, kind, side, signal.confidence_e4, 0, short_line(signal.story, MAX_REASON_CHARS), target)
    return Ballot(vote, signal.target_e4, None, settings)


def _ballot_of_answer(name: str, given: EngineAnswer, facts: DecisionFacts) -> Ballot:
    if given.problem is not None:
        return _make_ballot(Vote(name, "hold", None, 0, 0, short_line(given.problem, MAX_REASON_CHARS)), None)
    parsed = parse_reply(given.reply) if given.actions is None else None
    if isinstance(parsed, ReplyRefusal):
        return _make_ballot(Vote(name, "hold", None, 0, 0, short_line(parsed.why, MAX_REASON_CHARS)), None)
    actions = parsed.actions if parsed else given.actions or ()
    own = [action for action in actions if action.symbol == facts.symbol]
    if not own:
        return _make_ballot(Vote(name, "hold", None, 0, 0, f"no word on {facts.symbol}"), None)
    action = own[0] if len(own) == 1 else next((each for each in own if each.action != "hold"), own[0])
    side = action.side if action.action in _ORDERS else None
    target = 0 if action.action == "close" else side_target_e4(side) if side else side_target_e4(facts.held_side)
    vote = Vote(name, action.action, side, action.confidence_e4, 0, action.reason)
    return _make_ballot(vote, target, action=action if side else None)


def _make_ballot(vote: Vote, target_e4: int | None, *, action: Action | None = None) -> Ballot:
    vote = vote if target_e4 is None else msgspec.structs.replace(vote, target_e4=target_e4)
    return Ballot(vote, target_e4, action)


def _joint_action(facts: DecisionFacts, council: Council) -> Action:
    """The step from what is held towards what the members want together."""
    target, reason = weighted_target_e4(council.targets, facts.weights, council.majority_e4), council.tally
    leader, voters = None, council.sides[target_side(target)]
    if voters:
        # Gives an order on that side what a target does not say: of those for it, the heaviest and surest.
        leader = max(voters, key=lambda each: (facts.weights.get(each.vote.engine, 0), each.vote.confidence_e4))
    # The notional of a whole target.
    unit = unit_usd_e6(facts, leader.settings if leader else USUAL_SETTINGS)
    if leader is not None and leader.action is not None:
        unit = min(leader.action.notional_usd_e6, unit_usd_e6(facts, RuleSettings(notional_usd=1e9)))
    wanted = _target_to_enter(target, facts, unit)
    if wanted != target:
        why = f"follows lessons {', '.join(facts.lessons_followed)}" if facts.lessons_followed else "sized as it hits"
        reason = short_line(f"{why}; {reason}", MAX_REASON_CHARS)
    kind, after_usd = _step_towards(wanted, facts, unit)
    if kind in ("hold", "close"):
        sure = abs(wanted) if kind == "hold" else FULL_E4 - abs(wanted)
        return Action(kind, facts.symbol, None, 0, 1, "market", None, sure, reason)
    order, settings = (leader.action, leader.settings) if leader else (None, USUAL_SETTINGS)
    leverage = max(1, min(order.leverage if order else settings.leverage, facts.max_leverage or 1))
    terms = (order.order_type, order.limit_price_e8) if order else ("market", None)
    side, sure, cites = target_side(after_usd), abs(wanted), order.cites if order else ()
    return Action(kind, facts.symbol, side, abs(after_usd), leverage, *terms, sure, reason, cites)


def _target_to_enter(target_e4: int, facts: DecisionFacts, unit: int) -> int:
    """The target as far as the lessons that are followed, and the hit rates of its confidence, let it grow."""
    scale = facts.lessons_scale_e4 if target_e4 > 0 else facts.lessons_scale_short_e4
    wanted = round(target_e4 * min(scale, FULL_E4) / FULL_E4)
    if facts.believed_e4:
        # A target is how sure the members are together: where that hits less often than it says, less is entered.
        most = facts.believed_e4[min(abs(wanted) * len(facts.believed_e4) // FULL_E4, len(facts.believed_e4) - 1)]
        wanted = max(-most, min(most, wanted))
    if target_side(target_e4) != facts.held_side:
        return wanted
    # A lesson is about entries: what is held on that side stays for as long as it is wanted.
    held_e4 = round(facts.held_usd_e6 * FULL_E4 / unit) if unit else target_e4
    kept = max(abs(wanted), min(abs(target_e4), abs(held_e4)))
    return kept if target_e4 > 0 else -kept


def _step_towards(wanted_e4: int, facts: DecisionFacts, unit: int) -> tuple[ActionKind, int]:
    """What to do, and the signed notional to hold afterwards."""
    held = facts.held_usd_e6
    if not unit:
        # Where nothing may be opened, what is held stays for as long as it is wanted.
        return ("hold" if target_side(wanted_e4) == facts.held_side or not held else "close"), 0
    held_e4 = round(held * FULL_E4 / unit)
    after_e4 = position_after_e4(wanted_e4, held_e4, missed_e9=facts.missed_e9, cost_ppm=facts.cost_ppm)
    size = unit * abs(after_e4) // FULL_E4
    after = 0 if size < max(1, facts.min_notional_usd_e6) else size if after_e4 > 0 else -size
    if after_e4 == held_e4 or abs(after - held) < (facts.min_notional_usd_e6 if after else 1):
        return "hold", held
    if not after:
        return "close", 0
    return ("adjust" if (after > 0) == (held > 0) and held else "open"), after


def _tally_text(targets: Sequence[tuple[str, int | None]]) -> str:
    """Who wants what, in the order of the members."""
    camps: dict[str, list[str]] = {}
    for name, target in targets:
        side = "no voice" if target is None else target_side(target) or "flat"
        camps.setdefault(side, []).append(name)
    return short_line("; ".join([f"{what}: {', '.join(names)}" for what, names in camps.items()]), MAX_REASON_CHARS)


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
    if any(default_members(name.partition(":")[0]) for name in names):
        raise ConfigError("an ensemble cannot be a member of an ensemble: name its members instead")
    paid = sum(bool(terms.member(name, terms.max_usd_e6).identity) for name in names)
    share = terms.max_usd_e6 // max(1, paid)
    return EnsembleEngine([(name, terms.member(name, share)) for name in names])
