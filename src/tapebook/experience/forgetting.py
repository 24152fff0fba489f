"""Forgetting: outcomes that stop counting from an event on, and count again from the event that takes it back.

An outcome that is forgotten stays known, so that it is not learned again. It leaves the records, and with them the
calibration and the last days, and it is nobody's neighbour any more. The event carries which outcomes are meant and the
records without them; what is learned later counts, whatever the terms. Sums are integers, so taking it back gives the
records as if nothing had been forgotten. Readers as of a moment before the event see no difference.
"""

from collections.abc import Callable, Sequence

from tapebook.domain.canonical import short_id
from tapebook.errors import BadInput
from tapebook.experience.events import ForgetTerms, OutcomesForgotten, OutcomesRemembered, draft
from tapebook.experience.records import Outcome, updated_records
from tapebook.experience.store import Experience, LearnedOutcome
from tapebook.log import Draft

OWN, IMPORTED = "own", "imported"
"""Sources that are no name of an import: trades of the account itself, and all that files brought."""


def outcomes_meant(
    experience: Experience, deployment: str, terms: ForgetTerms, *, seq: int, is_own: Callable[[str], bool]
) -> list[LearnedOutcome]:
    """The outcomes that count as of a sequence number and meet the terms; `is_own` knows the account's own trades."""
    # What is forgotten already stays with the event that forgot it: each can be taken back by itself.
    forgotten = experience.forgotten_by_event(deployment, seq=seq)
    return [
        each
        for each in experience.history(deployment, seq=seq)
        if each.seq not in forgotten and _meets(each, terms, is_own)
    ]


def draft_forgetting(
    experience: Experience,
    deployment: str,
    meant: Sequence[LearnedOutcome],
    *,
    terms: ForgetTerms,
    reason: str,
    seq: int,
    at: int,
) -> Draft:
    """The event by which outcomes that count as of a sequence number are forgotten; its id is a function of that."""
    outcomes = [each.outcome for each in meant]
    records = updated_records(experience.records(deployment, seq=seq), *outcomes, sign=-1)
    forget_id = short_id("forget", experience.owner, deployment, seq)[:8]
    ids = tuple(outcome.trade_id for outcome in outcomes)
    return draft(at, OutcomesForgotten(forget_id, terms, reason, ids, records))


def draft_remembering(experience: Experience, deployment: str, forget_id: str, *, seq: int, at: int) -> Draft:
    """The event by which what was forgotten counts again; BadInput when nothing was, or when it does already."""
    known = {each.forget_id: each for each in experience.forgettings(deployment, seq=seq)}
    if forget_id not in known:
        ids = ", ".join(each.forget_id for each in known.values() if each.undone_at is None)
        raise BadInput(f"nothing was forgotten as {forget_id!r}: choose from {ids or 'none'}")
    if known[forget_id].undone_at is not None:
        raise BadInput(f"what was forgotten as {forget_id!r} counts again already")
    # From the stored outcomes: sums are taken back by what was taken away, not by what the event once said.
    mine = {event for event, by in experience.forgotten_by_event(deployment, seq=seq).items() if by == forget_id}
    outcomes = [each.outcome for each in experience.history(deployment, seq=seq) if each.seq in mine]
    records = updated_records(experience.records(deployment, seq=seq), *outcomes)
    return draft(at, OutcomesRemembered(forget_id, records))


def _meets(learned: LearnedOutcome, terms: ForgetTerms, is_own: Callable[[str], bool]) -> bool:
    outcome = learned.outcome
    if terms.since is not None and outcome.exited_at < terms.since:
        return False
    if terms.until is not None and outcome.exited_at >= terms.until:
        return False
    if terms.provider and terms.provider not in proposers(outcome):
        return False
    if terms.source in (OWN, IMPORTED):
        # What was imported before imports had names has no trade here.
        return (terms.source == OWN) == (not learned.source and is_own(outcome.trade_id))
    return not terms.source or learned.source == terms.source


def proposers(outcome: Outcome) -> set[str]:
    """Who proposed a trade: the engine that decided, and the members of an ensemble that voted for a side."""
    voters = {vote.provider for vote in outcome.votes if vote.side is not None and vote.action in ("open", "adjust")}
    return voters | {outcome.provider}
