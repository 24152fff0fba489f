"""Paper twins: the account each member of an ensemble would have if it alone had decided, and the trust it earns.

A twin holds a unit of notional times its member's target. At every slot it is marked, pays fee and half the spread on
every change, and funding at every full hour. Two standing members have twins as well: `cash` does nothing, `equal`
follows the majority, which is what the ensemble does without memory. All of it is a function of stored votes and
marks, in integers: gains are in billionths of the notional (e9), targets in ten-thousandths (e4).

Trust is prediction with expert advice. Every expert has a share of trust p, which begins as its prior. After a slot

    p_i ← p_i · (1 + η z_i) / (1 + η Σ p_j z_j)          z_i = net gain of the slot / scale, moves cut at 4 scales

which is Prod (Cesa-Bianchi, Mansour and Stoltz 2007, "Improved second-order bounds for prediction with expert
advice"). Each member stands there twice: a copy that is always awake, and one for the regime at hand which sleeps in
all others (Freund, Schapire, Singer and Warmuth 1997, specialists). A small part of the trust of all but `cash` is
shared out again at every slot (fixed share, Herbster and Warmuth 1998), so that who was bad can come back.

The bound. `cash` gains nothing, so its share grows by what the mix loses: p_cash ← p_cash / (1 + η Σ p z). It never
exceeds one, and sharing leaves it alone. Hence after any sequence of votes and prices, at every moment,

    gain of the mix ≥ − scale / η · ln(1 / prior of cash) − what the cap of cash gave back − moves beyond the cut

whatever the number of slots: the regret against a fixed reference is a constant (Sani, Neu and Lazaric 2014,
"Exploiting easy data in online optimization"). Against any other expert, `equal` among them, Prod's second-order
bound holds: ln(1 / prior) / η + η Σ z². The scale is the largest of the market's own volatility so far; when it
grows, shares go back towards their priors by the power old / new, which keeps the bound (Jensen).
The share of `cash` is capped: with less than a twentieth at work nothing would be noticed that has begun to earn. What
that gives back is counted in the bound.

What the ensemble itself holds follows the mix only where that is worth its costs (`domain/targets.py`); the `follower`
is the twin of that, and what it lies behind the mix is counted beside the bound.

The twins of a deployment are a function of the runs of its stream (`fold_run`).
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from math import log
from operator import add, attrgetter, mul

import msgspec

from tapebook.domain.agent import ExperienceRow
from tapebook.domain.run import DecisionRun, SlotMark, Vote
from tapebook.domain.targets import (
    FULL_E4,
    STANDING_MEMBERS,
    majority_target_e4,
    position_after_e4,
    weighted_target_e4,
)
from tapebook.domain.units import DAY, HOUR, decimal_text, divide_half_even

E9 = 10**9
_NAME = attrgetter("name")
ONE = 10**15
"""All the trust there is, in the integers it is counted in."""

# What is given before anything is known: a quarter to doing nothing, a quarter to doing as without memory.
CASH_PRIOR, EQUAL_PRIOR = ONE // 4, ONE // 4
# Of all trust half belongs to the copies that are always awake; a regime gets a sixteenth, and there are seven tags.
AWAKE_MASS, REGIME_MASS, MOST_REGIMES = ONE // 2, ONE // 16, 8
MOST_CASH = ONE * 19 // 20
CUT_SCALES = 4
WARM_UP_SLOTS = 24
# A scale is raised by a tenth more than is needed, so that it is raised seldom.
SCALE_STEP = (11, 10)
# From a mean absolute move to a standard deviation.
_DEVIATION = (5, 4)
# Weights as a packet shows them, and whether ten-thousandths round up to hundredths, half to even: by their remainder
# of two hundredths.
_SHOWN = tuple([decimal_text(hundredths, 100, 2) for hundredths in range(101)])
_ROUNDS_UP = tuple([divide_half_even(weight, 100) - weight // 100 for weight in range(200)])


class TwinAccount(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One member's twin: what it holds, what it has gained after costs, and what its last change still has to pay."""

    name: str
    target_e4: int = 0
    gain_e9: int = 0
    owed_e9: int = 0
    changes: int = 0


class SymbolTwins(msgspec.Struct, frozen=True, array_like=True):
    """The twins of an ensemble's members in one symbol, `cash` and `equal` first, and the trust in them.

    `trust` has a row for the copies that are always awake (named "") and one for each regime seen; `asleep` is what
    regimes not seen yet would get. `mix_e9` is what the mix gained, `returned_e9` what the cap of cash gave back and
    `cut_e9` what moves beyond the cut took, all of the unit.
    """

    symbol: str
    at: int
    mark: SlotMark
    accounts: tuple[TwinAccount, ...]
    trust: dict[str, tuple[int, ...]]
    asleep: int
    slots: int = 0
    move_e9: int = 0
    scale_e9: int = 0
    follower: TwinAccount = TwinAccount("follower")
    missed_e9: int = 0
    wanted_e4: int = 0
    mix_e9: int = 0
    returned_e9: int = 0
    cut_e9: int = 0

    def account(self, name: str) -> TwinAccount | None:
        """The twin of a member."""
        return next((each for each in self.accounts if each.name == name), None)


def prior_shares(members: int, total: int) -> tuple[int, ...]:
    """The trust before anything is known: of `cash`, of `equal`, and of each member alike."""
    cash, equal = total * CASH_PRIOR // ONE, total * EQUAL_PRIOR // ONE
    each = (total - cash - equal) // max(1, members)
    return (total - equal - each * members, equal, *[each] * members)


def begin_twins(symbol: str, at: int, mark: SlotMark, names: Sequence[str]) -> SymbolTwins:
    """Twins that hold nothing yet."""
    accounts = tuple([TwinAccount(name) for name in (*STANDING_MEMBERS, *names)])
    return SymbolTwins(symbol, at, mark, accounts, {"": prior_shares(len(names), AWAKE_MASS)}, ONE - AWAKE_MASS)


def twins_after(
    twins: SymbolTwins | None,
    symbol: str,
    at: int,
    *,
    mark: SlotMark,
    targets: Mapping[str, int | None],
    cache: "MarkCache | None" = None,
) -> SymbolTwins:
    """The twins after one more decision: marked, trusted anew, and holding what their members want now."""
    names = tuple(targets)
    cache = cache or MarkCache()
    if twins is None:
        twins = begin_twins(symbol, at, mark, names)
    else:
        twins, weights = cache.mark(twins, at, mark)
        if tuple(map(_NAME, twins.accounts[2:])) == names:
            return _with_targets(twins, targets, weights)
        twins = _with_members(twins, names)
    return _with_targets(twins, targets, weights_e4(twins, mark.regime))


class MarkCache:
    """A cache of the last mark and its weights: a packet asks for them, and the run made from it is folded with them.

    Twins are never changed, so that what was made of the same object stays true.
    """

    def __init__(self) -> None:
        self._marked: tuple[SymbolTwins, int, SlotMark, tuple[SymbolTwins, dict[str, int]]] | None = None
        # By name and hundredths: whoever writes a row down knows it again.
        self._rows: dict[tuple[str, int], ExperienceRow] = {}
        self._told: tuple[list[str], list[int], tuple[ExperienceRow, ...]] = ([], [], ())

    def mark(self, twins: SymbolTwins, at: int, mark: SlotMark) -> tuple[SymbolTwins, dict[str, int]]:
        """What `mark_twins` gives, and `weights_e4` in the regime of the mark."""
        kept = self._marked
        if kept is None or kept[0] is not twins or kept[1] != at or kept[2] != mark:
            marked = mark_twins(twins, at, mark)
            kept = self._marked = twins, at, mark, (marked, weights_e4(marked, mark.regime))
        return kept[3]

    def rows(self, weights: Mapping[str, int]) -> tuple[ExperienceRow, ...]:
        """Weights as a packet shows them, in hundredths; the same rows until one of these changes."""
        names, hundredths = list(weights), [weight // 100 + _ROUNDS_UP[weight % 200] for weight in weights.values()]
        if self._told[1] != hundredths or self._told[0] != names:
            rows: list[ExperienceRow] = []
            for shown in zip(names, hundredths, strict=True):
                if shown not in self._rows:
                    self._rows[shown] = ExperienceRow("provider", shown[0], _SHOWN[shown[1]])
                rows.append(self._rows[shown])
            self._told = names, hundredths, tuple(rows)
        return self._told[2]


def mark_twins(twins: SymbolTwins, at: int, mark: SlotMark) -> SymbolTwins:
    """The twins marked at a price, and the trust that follows from what each gained since the last slot."""
    # One function with plain numbers, since every decision marks all twins of its symbol.
    before, held, move_e9, slots = twins.mark, twins.follower, twins.move_e9, twins.slots + 1
    move = divide_half_even((mark.mark_e8 - before.mark_e8) * E9, before.mark_e8)
    # Longs pay a positive rate at every full hour.
    if hours := at // HOUR - twins.at // HOUR:
        move -= before.funding_e12 * hours // 1_000
    gains: list[int] = []
    accounts: list[TwinAccount] = []
    for each in twins.accounts:
        target, owed = each.target_e4, each.owed_e9
        gain = target * move // FULL_E4 - owed if target or owed else 0
        gains.append(gain)
        if gain or owed:
            each = TwinAccount(each.name, target, each.gain_e9 + gain, 0, each.changes)
        accounts.append(each)
    # The mean absolute move of a slot over the window, in which no single one counts more than four.
    size = abs(move)
    if slots > WARM_UP_SLOTS:
        size = min(size, CUT_SCALES * max(1, move_e9))
    move_e9 += (size - move_e9) // min(slots, before.window_days * DAY // (at - twins.at or 1) or 1)
    trust, asleep, scale, regime = twins.trust, twins.asleep, twins.scale_e9, before.regime
    if slots >= WARM_UP_SLOTS:
        # No less than what a trade costs: a market that stands still must not make fees look like catastrophes.
        least = max(move_e9 * _DEVIATION[0] // _DEVIATION[1], before.cost_ppm * 1_000, 1)
        if least > scale:
            scale, trust, asleep = _raise_scale(twins, least)
    if regime not in trust:
        trust, asleep = _with_regime(trust, regime, asleep=asleep)
    awake, tagged = trust[""], trust.get(regime) if regime else None
    both = awake if tagged is None else tuple(map(add, awake, tagged))
    total, returned = sum(both), 0
    whole = mixed = sum(map(mul, both, gains)) // total
    if slots < WARM_UP_SLOTS:
        # Nothing is known of the market's moves yet: what the priors make counts as beyond the cut.
        mixed = 0
    else:
        if not -CUT_SCALES * scale <= move <= CUT_SCALES * scale:
            excess = move - CUT_SCALES * scale if move > 0 else move + CUT_SCALES * scale
            gains = [gain - each.target_e4 * excess // FULL_E4 for gain, each in zip(gains, accounts, strict=True)]
            mixed = sum(map(mul, both, gains)) // total
        # η z with fifteen digits: rates have six, gains and the scale nine each.
        rate = learning_rate_e6(before)
        rate_e15 = rate * E9
        factors = [ONE + rate_e15 * gain // scale for gain in gains]
        grown, shared = ONE + rate_e15 * mixed // scale, (_shared_part(twins, at), _free_priors(len(accounts) - 2))
        earned = [product // grown or 1 for product in map(mul, awake, factors)]
        kept = _share_out(earned, *shared)
        trust = trust | {"": kept}
        returned = _trust_cost_e9(scale, rate, earned[0], kept[0]) if kept[0] < earned[0] else 0
        if tagged is not None:
            trust[regime] = _share_out([product // grown or 1 for product in map(mul, tagged, factors)], *shared)
    gain = held.target_e4 * move // FULL_E4 - held.owed_e9
    follower = TwinAccount(held.name, held.target_e4, held.gain_e9 + gain, 0, held.changes)
    missed = twins.missed_e9 + (twins.wanted_e4 - held.target_e4) * move // FULL_E4
    sums = (twins.mix_e9 + whole, twins.returned_e9 + returned, twins.cut_e9 + whole - mixed)
    after = (slots, move_e9, scale, follower, missed, twins.wanted_e4, *sums)
    marked = SymbolTwins(twins.symbol, at, mark, tuple(accounts), trust, asleep, *after)
    begins_again = slots >= WARM_UP_SLOTS and mark.rate_e4 != before.rate_e4
    return _begin_again(marked, learning_rate_e6(before)) if begins_again else marked


def weights_e4(twins: SymbolTwins, regime: str) -> dict[str, int]:
    """The trust in each member by now, in ten-thousandths: of the copies that are awake in a regime."""
    awake, tagged = twins.trust[""], twins.trust.get(regime)
    both = awake if tagged is None else tuple(map(add, awake, tagged))
    total = sum(both)
    # Half to even as everywhere: a half more, and one less where it was just a half and came out odd.
    weights, twice, full = {}, 2 * total, 2 * FULL_E4
    for each, p in zip(twins.accounts, both, strict=True):
        weight, rest = divmod(full * p + total, twice)
        weights[each.name] = weight if rest else weight & ~1
    return weights


def learning_rate_e6(mark: SlotMark) -> int:
    """η: about half the setting at its default, and never so much that a factor of a slot falls below one half."""
    # rate / (1 + 11 rate): a twelfth at most, while no gain of a slot is below minus six scales.
    return max(1, 10**6 * mark.rate_e4 // (10_000 + 11 * mark.rate_e4))


def bound_e9(twins: SymbolTwins) -> int:
    """How far the mix can be behind doing nothing by now, in billionths of the unit; never less than what it lost."""
    prior = prior_shares(len(twins.accounts) - 2, AWAKE_MASS)[0]
    learned = _trust_cost_e9(twins.scale_e9, learning_rate_e6(twins.mark), ONE, prior)
    return learned + twins.returned_e9 + max(0, -twins.cut_e9)


def follower_bound_e9(twins: SymbolTwins) -> int:
    """How far what the ensemble holds can be behind doing nothing: the bound of the mix, and what it lies behind it."""
    return bound_e9(twins) + max(0, twins.mix_e9 - twins.follower.gain_e9)


def _with_regime(
    trust: dict[str, tuple[int, ...]], regime: str, *, asleep: int
) -> tuple[dict[str, tuple[int, ...]], int]:
    """The trust with copies for a regime, which take their part of what is asleep, and what is still asleep."""
    born = len(trust) - 1
    if born >= MOST_REGIMES:
        return trust, asleep
    mass = asleep // (MOST_REGIMES - born)
    return trust | {regime: prior_shares(len(trust[""]) - 2, mass)}, asleep - mass


def _raise_scale(twins: SymbolTwins, least: int) -> tuple[int, dict[str, tuple[int, ...]], int]:
    """A scale that no usual move of by now exceeds; the trust, which goes back towards its prior; what is asleep."""
    before, scale = twins.scale_e9, least * SCALE_STEP[0] // SCALE_STEP[1]
    if not before:
        return scale, twins.trust, twins.asleep
    members = len(twins.accounts) - 2
    rows = {
        name: [
            _towards_prior(p, prior, before, scale)
            for p, prior in zip(row, prior_shares(members, AWAKE_MASS if not name else REGIME_MASS), strict=True)
        ]
        for name, row in twins.trust.items()
    }
    unseen = (MOST_REGIMES - len(twins.trust) + 1) * REGIME_MASS
    asleep = _towards_prior(twins.asleep, unseen, before, scale) if unseen else 0
    total = sum([sum(row) for row in rows.values()]) + asleep
    trust = {name: tuple([max(1, p * ONE // total) for p in row]) for name, row in rows.items()}
    return scale, trust, asleep * ONE // total


def _towards_prior(share: int, prior: int, before: int, scale: int) -> int:
    """prior × (share / prior) ^ (before / scale), to the last digit the same on every machine, unlike floats."""
    with localcontext(prec=30):
        return int(prior * (Decimal(share) / prior) ** (Decimal(before) / scale))


def _shared_part(before: SymbolTwins, at: int) -> int:
    """The part of trust that is shared out again: by the time since the last slot, and by who changed its mind then."""
    changed, mark = 0, before.mark
    for each in before.accounts[2:]:
        changed += each.owed_e9 > 0
    part = ONE * (at - before.at) // (mark.window_days * DAY) + ONE * changed // mark.memory_size
    return max(0, min(part, ONE // 4))


def _free_priors(members: int) -> tuple[int, int]:
    """The prior of each of so many members, and that of all but cash."""
    to_each = (ONE - CASH_PRIOR - EQUAL_PRIOR) // max(1, members)
    return to_each, EQUAL_PRIOR + to_each * members


def _share_out(earned: Sequence[int], share: int, priors: tuple[int, int]) -> tuple[int, ...]:
    """A row of trust after a slot: what each has earned, after sharing a part of all but cash, and after the cap of
    cash. `priors` are those of a member and of all but cash.
    """
    cash, whole, kept = earned[0], sum(earned), ONE - share
    most, given = whole * MOST_CASH // ONE, (whole - cash) * share // ONE
    if cash > most:
        given, cash = given + cash - most, most
    # The priors of members are alike, and integers so large are slow to divide.
    to_each, free = priors
    to_member = given * to_each // free
    shared = [p * kept // ONE + to_member for p in earned]
    # These two have other priors than members; cash shares nothing.
    shared[0], shared[1] = cash, shared[1] - to_member + given * EQUAL_PRIOR // free
    return tuple(shared)


def _begin_again(twins: SymbolTwins, rate_e6: int) -> SymbolTwins:
    """Trust at its priors; what could be lost until now stays part of the bound."""
    members = len(twins.accounts) - 2
    cost = _trust_cost_e9(twins.scale_e9, rate_e6, ONE, prior_shares(members, AWAKE_MASS)[0])
    return msgspec.structs.replace(
        twins,
        trust={"": prior_shares(members, AWAKE_MASS)},
        asleep=ONE - AWAKE_MASS,
        returned_e9=twins.returned_e9 + cost,
    )


def _with_members(twins: SymbolTwins, names: Sequence[str]) -> SymbolTwins:
    """The twins of other members: who stays keeps its account, and all are trusted anew."""
    known = {each.name: each for each in twins.accounts}
    accounts = tuple([known.get(name) or TwinAccount(name) for name in (*STANDING_MEMBERS, *names)])
    return _begin_again(msgspec.structs.replace(twins, accounts=accounts), learning_rate_e6(twins.mark))


def _with_targets(twins: SymbolTwins, targets: Mapping[str, int | None], weights: Mapping[str, int]) -> SymbolTwins:
    """The twins holding what their members want now; whoever has no voice wants nothing."""
    cost, majority = twins.mark.cost_ppm, majority_target_e4(targets.values())
    accounts, changed = list(twins.accounts), False
    for place, target in enumerate((0, majority, *targets.values())):
        each = accounts[place]
        if each.target_e4 != (target or 0):
            accounts[place], changed = _trade(each, target or 0, cost), True
    wanted = weighted_target_e4(targets, weights, majority)
    follower, missed = twins.follower, twins.missed_e9
    after = position_after_e4(wanted, follower.target_e4, missed_e9=missed, cost_ppm=cost)
    if after != follower.target_e4:
        follower, missed = _trade(follower, after, cost), 0
    return msgspec.structs.replace(
        twins,
        accounts=tuple(accounts) if changed else twins.accounts,
        follower=follower,
        wanted_e4=wanted,
        missed_e9=max(0, missed),
    )


def _trade(account: TwinAccount, target_e4: int, cost_ppm: int) -> TwinAccount:
    away = abs(target_e4 - account.target_e4)
    # Millionths of what is traded, of which `away` is ten-thousandths, in billionths; rounded up.
    owed = -(-cost_ppm * 1_000 * away // FULL_E4)
    return TwinAccount(account.name, target_e4, account.gain_e9, owed, account.changes + 1)


def _trust_cost_e9(scale_e9: int, rate_e6: int, more: int, less: int) -> int:
    """What it may cost that a share of trust is one and not another: scale / η · ln(more / less), rounded up."""
    # Nine digits of the logarithm: its last ones may differ from machine to machine.
    return round(log(more / less) * E9) * scale_e9 // (1_000 * rate_e6) + 1


TwinsBySymbol = dict[str, SymbolTwins]


def voted_targets(votes: Iterable[Vote]) -> dict[str, int | None]:
    """What each member wants, None without a voice."""
    return {vote.engine: None if vote.target_e4 is msgspec.UNSET else vote.target_e4 for vote in votes}


def fold_run(twins: Mapping[str, SymbolTwins], run: DecisionRun, *, cache: MarkCache | None = None) -> TwinsBySymbol:
    """The twins after a decision; one without a mark, or of a shadow, changes nothing."""
    if isinstance(run.mark, msgspec.UnsetType) or run.branch != "main":
        return dict(twins)
    known, targets = twins.get(run.symbol), voted_targets(run.votes)
    if known is not None and run.as_of < known.at:
        # A clock that was set back: time in which nothing can have been earned.
        known = msgspec.structs.replace(known, at=run.as_of)
    after = twins_after(known, run.symbol, run.as_of, mark=run.mark, targets=targets, cache=cache)
    return {**twins, run.symbol: after}
