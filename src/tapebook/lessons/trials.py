"""The trial of a lesson: later trades alone confirm, weaken or retire it, at stated error rates.

Two bets run beside each other from the lesson's registration on. One gains when the difference is in the direction
of the claim, and its capital tests that there is no such difference; the other gains when the difference falls short
of half of what was registered, and its capital tests that the lesson is that true. A bet that is fair or worse under
its null hypothesis is a supermartingale, so by Ville's inequality its capital ever reaches 20 with a chance of 1 in 20
at most, however often it is looked at and whenever one stops (Waudby-Smith and Ramdas, "Estimating means of bounded
random variables by betting", JRSS B 2024; Shafer, "Testing by betting", JRSS A 2021). Hence

    confirmed  capital for the lesson at 20: of lessons that say nothing, at most 5 of 100 ever get there
    retired    capital against it at 20, before it is confirmed: of true lessons, at most 5 of 100 ever are
    weakened   capital against it at 4
    retired    also when nothing was decided after `MOST_ROUNDS` rounds or `MOST_LATER` later trades

What was confirmed can end: from then on the capital against it restarts whenever it falls below 1, and at
`RETIRE_CONFIRMED` the lesson is retired. A lesson that goes on being true is retired after that many rounds on
average, or later (Shin, Ramdas and Rinaldo, "E-detectors", NEJSDS 2023).

A round ends when there is a trade on either side: the mean of those that meet the condition is held against the mean
of the rest, so what moves all trades moves both. A claim against nothing has a round for each trade. Results are
clipped before they are compared: what is tested is the mean of clipped results, and one outlier decides nothing.
That rounds are fair assumes that which trades meet the condition does not depend on how they end, given what was
known before.

Capital is spread over several sizes of the bet, kept as integers of 1e-9 and rounded down, which only makes the test
more careful.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tapebook.domain.agent import FollowedLessons
from tapebook.lessons.hypotheses import EntryFacts, Hypothesis, Status, TradeCase, bullet_text

CONFIRM = 20
RETIRE = 20
WEAKEN = 4
RETIRE_CONFIRMED = 400
MOST_ROUNDS = 100
MOST_LATER = 1_000

# Shares of the capital that are staked, in sixteenths.
_STAKES = (3, 6, 10, 15)
_SIXTEENTHS = 16
_UNIT = 10**9
_START = (_UNIT,) * len(_STAKES)


class Trial(msgspec.Struct, frozen=True):
    """How a lesson did on later trades: a function of them in the order they became known.

    `matched` and `rest` count them, with the sums of what they made. The open round has the clipped results so far.
    `seq` is how far the log was judged, and `confirmed_at` when the capital for the lesson was there.
    """

    seq: int
    status: Status = "registered"
    matched: int = 0
    rest: int = 0
    matched_ppm: int = 0
    rest_ppm: int = 0
    round_matched: tuple[int, int] = (0, 0)
    round_rest: tuple[int, int] = (0, 0)
    rounds: int = 0
    capital_for: tuple[int, ...] = _START
    capital_against: tuple[int, ...] = _START
    confirmed_at: int | None = None
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the lesson is retired."""
        return self.status == "retired"


class Lesson(msgspec.Struct, frozen=True):
    """A hypothesis and how it did since it was registered."""

    hypothesis: Hypothesis
    trial: Trial

    @property
    def is_stated(self) -> bool:
        """Whether a note states it: before it is confirmed only what the search carried and nothing speaks against."""
        if self.trial.confirmed_at is not None:
            return not self.trial.is_over
        return self.hypothesis.carried and self.trial.status == "registered"

    def bullet(self) -> str:
        """The bullet that a note states it with."""
        return bullet_text(self.hypothesis, self.trial.status, self.trial.matched)


def follow_lessons(lessons: Iterable[Lesson], facts: EntryFacts, *, skip: bool) -> FollowedLessons:
    """What confirmed lessons say of a trade that is not entered yet, on either side.

    Only that trades like it do worse is followed: each such lesson halves the size, or with `skip` one is enough for
    none. A condition that is not known before the decision, such as its confidence or size, is not followed.
    """
    warning = [
        lesson.hypothesis
        for lesson in lessons
        if lesson.trial.status == "confirmed"
        and (lesson.hypothesis.claim.metric, lesson.hypothesis.claim.direction) == ("result", "worse")
    ]
    long, short = (
        [each for each in warning if each.condition.meets(msgspec.structs.replace(facts, side=side))]
        for side in ("long", "short")
    )
    ids = {each.lesson_id for each in (*long, *short)}
    return FollowedLessons(_followed_scale(long, skip), _followed_scale(short, skip), tuple(sorted(ids)))


def _followed_scale(warning: Sequence[Hypothesis], skip: bool) -> int:
    full = FollowedLessons().long_scale_e4
    return full if not warning else 0 if skip else full >> len(warning)


def judge(trial: Trial, hypothesis: Hypothesis, cases: Iterable[TradeCase], *, at: int, seq: int) -> Trial:
    """The trial after later cases, in their order; one that is over does not go on."""
    for case in cases:
        if trial.is_over:
            break
        trial = _after_case(trial, hypothesis, case, at)
    return msgspec.structs.replace(trial, seq=seq)


def _after_case(trial: Trial, hypothesis: Hypothesis, case: TradeCase, at: int) -> Trial:
    outcome, meets = case.outcome_ppm(hypothesis.claim.metric), hypothesis.condition.meets(case.facts)
    # A fact that is not known would be counted on the side it happens to look like.
    if outcome is None or meets is None:
        return trial
    low, high = hypothesis.centre_ppm - hypothesis.clip_ppm, hypothesis.centre_ppm + hypothesis.clip_ppm
    clipped = max(low, min(high, outcome))
    replace = msgspec.structs.replace
    if meets:
        count, total = trial.round_matched
        counted = {"matched": trial.matched + 1, "matched_ppm": trial.matched_ppm + outcome}
        trial = replace(trial, round_matched=(count + 1, total + clipped), **counted)
    else:
        count, total = trial.round_rest
        counted = {"rest": trial.rest + 1, "rest_ppm": trial.rest_ppm + outcome}
        trial = replace(trial, round_rest=(count + 1, total + clipped), **counted)
    against_rest = hypothesis.claim.baseline == "rest"
    if not trial.round_matched[0] or (against_rest and not trial.round_rest[0]):
        return _with_status(trial, at)
    return _with_status(_after_round(trial, hypothesis, against_rest=against_rest), at)


def _after_round(trial: Trial, hypothesis: Hypothesis, *, against_rest: bool) -> Trial:
    (n, total), (rest_n, rest_total) = trial.round_matched, trial.round_rest
    # The difference in the direction of the claim as a fraction, so that nothing is rounded in its favour.
    if against_rest:
        gap, of = hypothesis.claim.sign * (total * rest_n - rest_total * n), n * rest_n
    else:
        gap, of = hypothesis.claim.sign * total, n
    span = (2 if against_rest else 1) * hypothesis.clip_ppm
    against = trial.capital_against
    if trial.confirmed_at is not None and sum(against) < len(_STAKES) * _UNIT:
        against = _START
    return msgspec.structs.replace(
        trial,
        round_matched=(0, 0),
        round_rest=(0, 0),
        rounds=trial.rounds + 1,
        capital_for=_after_bet(trial.capital_for, gap, span * of),
        capital_against=_after_bet(against, hypothesis.least_ppm * of - gap, (span + hypothesis.least_ppm) * of),
    )


def _after_bet(capital: tuple[int, ...], gain: int, most: int) -> tuple[int, ...]:
    """Each part of the capital after a bet that pays `gain / most`, which lies between -1 and 1."""
    # Rounded down at every step, so that the capital is at most what fair bets have paid.
    full = _SIXTEENTHS * most
    return tuple([part * (full + stake * gain) // full for part, stake in zip(capital, _STAKES, strict=True)])


def capital(parts: tuple[int, ...]) -> int:
    """The capital in millionths of what it began with."""
    return sum(parts) * 10**6 // (len(parts) * _UNIT)


def _with_status(trial: Trial, at: int) -> Trial:
    for_it, against = (sum(parts) // len(_STAKES) for parts in (trial.capital_for, trial.capital_against))
    confirmed = trial.confirmed_at
    if against >= (RETIRE if confirmed is None else RETIRE_CONFIRMED) * _UNIT:
        return msgspec.structs.replace(trial, status="retired", reason="later trades speak against it")
    if confirmed is None and for_it >= CONFIRM * _UNIT:
        # What was lost on the other bet until now would have to be won back before a change is seen.
        trial = msgspec.structs.replace(trial, confirmed_at=at, capital_against=_START)
        return msgspec.structs.replace(trial, status="confirmed")
    if confirmed is None and (trial.rounds >= MOST_ROUNDS or trial.matched + trial.rest >= MOST_LATER):
        return msgspec.structs.replace(trial, status="retired", reason="later trades did not decide")
    if against >= WEAKEN * _UNIT:
        return msgspec.structs.replace(trial, status="weakened")
    return msgspec.structs.replace(trial, status="registered" if confirmed is None else "confirmed")
