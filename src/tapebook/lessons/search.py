"""Which lessons closed trades carry: every condition that is searched, measured, and corrected for having searched.

1. `searched_claims` is the family: each single fact and each pair of symbol or regime with the side against the rest,
   and the way of the market after exits, of all trades, of a side, a symbol or a regime, against nothing.
2. Two conditions that split the trades alike, or into the same two halves, are one: the first of them counts.
3. `find_lessons` tests what is left (Welch against the rest, Student against nothing), and believes what Holm's
   procedure lets pass at `FAMILY_ERROR`: the chance that a note about trades without any pattern gets a new lesson.
"""

from collections.abc import Sequence
from statistics import median

import msgspec

from tapebook.domain.estimate import Estimate, holm, mean_difference, mean_estimate, mean_p_value
from tapebook.lessons.hypotheses import (
    EXIT_SPANS,
    FIELDS,
    Baseline,
    Claim,
    Condition,
    Direction,
    Field,
    Hypothesis,
    Metric,
    Term,
    TradeCase,
    canonical_form,
    lesson_id,
    slot_of,
)

# A lesson that is luck stands until later trades speak against it, so of notes about noise that follow one another
# many more state one: by simulation (`make bench ARGS=lessons`) 4 of 100 with a note for each ten trades.
FAMILY_ERROR = 0.003
# A test says hardly anything about groups that are smaller.
FEWEST_TRADES = 8
# Two median deviations are 1.35 standard ones of a normal result, and fewer of one with fat tails: by simulation, a
# lesson is confirmed on a third fewer trades than with three.
_CLIP_DEVIATIONS = 2
_LEAST_CLIP_PPM = 100

# Every further pair would make the search stricter for all: these are what a trader asks first.
_PAIRED_WITH_SIDE: tuple[Field, ...] = ("symbol", "regime")
_AFTER_EXIT: tuple[Field, ...] = ("symbol", "side", "regime")


class Registration(msgspec.Struct, frozen=True):
    """What a new lesson is registered with: by whom, when, and how far the log was."""

    proposed_by: str
    at: int
    seq: int


class MeasuredClaim(msgspec.Struct, frozen=True):
    """A condition and a claim in numbers: the effect in the direction of the claim, with its p-value.

    `members` and `others` are the trades that meet the condition and those that do not, as bits by their place.
    """

    condition: Condition
    claim: Claim
    effect: Estimate
    rest_n: int
    chance: float
    members: int
    others: int

    @property
    def lesson_id(self) -> str:
        """The id it gets as a lesson."""
        return lesson_id(self.condition, self.claim)

    def says_the_same(self, other: "MeasuredClaim") -> bool:
        """Whether another claim about these trades is this one in other words: of the same, or turned, of the rest."""
        if (self.claim.metric, self.claim.baseline) != (other.claim.metric, other.claim.baseline):
            return False
        if (self.members, self.others) == (other.members, other.others):
            return self.claim.direction == other.claim.direction
        turned = self.claim.baseline == "rest" and (self.members, self.others) == (other.others, other.members)
        return turned and self.claim.direction != other.claim.direction


class CaseTable:
    """Closed trades column by column, so that many claims can be measured on them."""

    def __init__(self, cases: Sequence[TradeCase]) -> None:
        self.cases = cases
        self._terms: dict[Term, tuple[int, int]] = {}
        self._outcomes: dict[Metric, tuple[list[int], int]] = {}

    def split(self, condition: Condition, claim: Claim) -> tuple[int, int]:
        """The trades that meet a condition and those that do not, as bits, where both facts and outcome are known."""
        # What is not known of a trade puts it on neither side, so both are compared on what was there to be seen.
        known = self._outcome_column(claim.metric)[1]
        met, missed = known, 0
        for term in condition.terms:
            yes, no = self._term_column(term)
            met, missed = met & yes, missed | (no & known)
        return met, missed if claim.baseline == "rest" else 0

    def outcomes(self, metric: Metric, members: int) -> list[int]:
        """What some trades made, in their order."""
        bits = f"{members:b}"[::-1]
        return [value for value, bit in zip(self._outcome_column(metric)[0], bits, strict=False) if bit == "1"]

    def _outcome_column(self, metric: Metric) -> tuple[list[int], int]:
        if metric not in self._outcomes:
            found = [case.outcome_ppm(metric) for case in self.cases]
            bits = sum([1 << place for place, value in enumerate(found) if value is not None])
            self._outcomes[metric] = [value or 0 for value in found], bits
        return self._outcomes[metric]

    def _term_column(self, term: Term) -> tuple[int, int]:
        if term not in self._terms:
            found = [case.facts.meets(term.field, term.value) for case in self.cases]
            yes = sum([1 << place for place, meets in enumerate(found) if meets])
            no = sum([1 << place for place, meets in enumerate(found) if meets is False])
            self._terms[term] = yes, no
        return self._terms[term]


def measure_claim(table: CaseTable, condition: Condition, claim: Claim) -> MeasuredClaim | None:
    """The numbers of a claim; None when too few trades meet its condition, or too few do not."""
    members, others = table.split(condition, claim)
    n, rest_n = members.bit_count(), others.bit_count()
    if n < FEWEST_TRADES or (claim.baseline == "rest" and rest_n < FEWEST_TRADES):
        return None
    values = [float(claim.sign * value) for value in table.outcomes(claim.metric, members)]
    if claim.baseline == "rest":
        rest = [float(claim.sign * value) for value in table.outcomes(claim.metric, others)]
        effect, chance = mean_difference(values, rest)
    else:
        effect, chance = mean_estimate(values), mean_p_value(values)
    return MeasuredClaim(condition, claim, effect, rest_n, chance, members, others)


def turn_claim(measured: MeasuredClaim) -> MeasuredClaim:
    """A measured claim turned round: these trades with the opposite claim."""
    effect, claim = measured.effect, measured.claim
    turned = Estimate(-effect.value, -effect.high, -effect.low, effect.n)
    direction: Direction = "worse" if claim.direction == "better" else "better"
    return msgspec.structs.replace(measured, claim=msgspec.structs.replace(claim, direction=direction), effect=turned)


def searched_claims(cases: Sequence[TradeCase]) -> list[tuple[Condition, Metric, Baseline]]:
    """The family that is searched: conditions that occur, in a fixed order, the simple ones first."""
    values = {field: sorted({value for case in cases for value in case.facts.values(field)}) for field in FIELDS}
    single = [Condition((Term(field, value),)) for field in FIELDS for value in values[field]]
    sides = [Term("side", side) for side in values["side"]]
    pairs = [
        Condition(tuple(sorted((Term(field, value), side), key=lambda term: FIELDS.index(term.field))))
        for field in _PAIRED_WITH_SIDE
        for value in values[field]
        for side in sides
    ]
    exits = [Condition(), *(each for each in single if each.terms[0].field in _AFTER_EXIT)]
    family: list[tuple[Condition, Metric, Baseline]] = [(each, "result", "rest") for each in (*single, *pairs)]
    return family + [(each, metric, "nothing") for metric in EXIT_SPANS for each in exits]


def measure_family(table: CaseTable) -> list[MeasuredClaim]:
    """Every claim of the family that can be tested, in the direction in which it points; equal splits count once."""
    found: list[MeasuredClaim] = []
    seen: set[tuple[Metric, frozenset[int]]] = set()
    # The first of equal splits is the simplest condition, and the one that the id is of.
    for condition, metric, baseline in searched_claims(table.cases):
        claim = Claim(metric, "better", baseline)
        split = metric, frozenset(table.split(condition, claim))
        if split in seen:
            continue
        seen.add(split)
        measured = measure_claim(table, condition, claim)
        if measured is not None:
            found.append(_canonical(measured if measured.effect.value > 0 else turn_claim(measured)))
    return found


def _canonical(measured: MeasuredClaim) -> MeasuredClaim:
    condition, claim = canonical_form(measured.condition, measured.claim)
    if condition == measured.condition:
        return measured
    # Of two sides, the one that does worse is named; the effect is the same, with the sides changed.
    effect = msgspec.structs.replace(measured.effect, n=measured.rest_n)
    return msgspec.structs.replace(
        measured,
        condition=condition,
        claim=claim,
        effect=effect,
        rest_n=measured.effect.n,
        members=measured.others,
        others=measured.members,
    )


def find_lessons(measured: Sequence[MeasuredClaim]) -> list[MeasuredClaim]:
    """Those of a family that its trades carry, the surest first."""
    believed = holm([each.chance for each in measured], error=FAMILY_ERROR)
    found = [each for each, yes in zip(measured, believed, strict=True) if yes]
    return sorted(found, key=lambda each: (each.chance, each.lesson_id))


def register_lesson(
    measured: MeasuredClaim, table: CaseTable, registration: Registration, *, carried: bool
) -> Hypothesis:
    """A lesson with the numbers it is registered with."""
    claim, effect = measured.claim, measured.effect
    ours, rest = (table.outcomes(claim.metric, side) for side in (measured.members, measured.others))
    centre = int(median([*ours, *rest])) if claim.baseline == "rest" else 0
    deviation = median([abs(value - centre) for value in (*ours, *rest)])
    clip = max(_LEAST_CLIP_PPM, int(_CLIP_DEVIATIONS * deviation))
    clipped = [_clipped_mean(side, centre, clip) for side in (ours, rest) if side]
    gap = int(claim.sign * (clipped[0] - (clipped[1] if rest else 0.0)))
    return Hypothesis(
        lesson_id=measured.lesson_id,
        slot=slot_of(measured.condition, claim),
        condition=measured.condition,
        claim=claim,
        n=effect.n,
        rest_n=measured.rest_n,
        effect_ppm=round(effect.value),
        low_ppm=round(effect.low),
        high_ppm=round(effect.high),
        centre_ppm=centre,
        clip_ppm=clip,
        # What was found by searching looks larger than it is: half of it is still worth a lesson.
        least_ppm=max(1, gap // 2),
        carried=carried,
        proposed_by=registration.proposed_by,
        registered_at=registration.at,
        seq=registration.seq,
    )


def _clipped_mean(values: Sequence[int], centre: int, clip: int) -> float:
    return sum([max(centre - clip, min(centre + clip, value)) for value in values]) / len(values)
