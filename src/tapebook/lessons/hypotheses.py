"""Lessons as data: a condition over facts known at the entry, a claim about trades that meet it, and its evidence.

1. `TradeCase` is one closed trade: what was known when it was entered, its result, and what the market did after it.
2. `Condition` is a conjunction of at most three terms `field = value` from a closed vocabulary (`VALUES`). A fact that
   is not known meets neither a term nor its opposite.
3. `Claim` says of what, in which direction and against what: the result of trades against the rest or against nothing,
   or the way of the market after the exit against nothing.
4. `Hypothesis` is condition, claim and the numbers at its registration; its id is a function of the first two.
5. `bullet_text` renders it. Nothing else writes bullets, and `is_rendered_bullet` knows its language: a sentence of
   anybody else, or a note of before there were hypotheses, is none.

Numbers are millionths of the notional at entry (`_ppm`), hundredths of a basis point.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from tapebook.domain.canonical import short_id
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import HOUR, decimal_text, divide_half_even

OVERALL = "All trades"
"""The heading above the slots: what holds for everything."""

SLOTS = ("Entry timing", "Sizing", "Symbol selection", "Exit timing", "Regime fit")

Field = Literal["symbol", "side", "regime", "hour", "volatility", "funding", "provider", "confidence", "size"]
FIELDS: tuple[Field, ...] = get_args(Field)
MOST_TERMS = 3

_SYMBOL = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}"
_TAG = r"[a-z]{1,16}(?:_[a-z]{1,16}){0,3}"
_PROVIDER = r"[a-z][a-z0-9_]{0,39}(?::[A-Za-z0-9][A-Za-z0-9._/-]{0,59})?"

# Six blocks a day: hour by hour, most groups would stay too small to say anything.
_BLOCK_HOURS = 4
_HOURS = tuple(f"{first:02d}-{first + _BLOCK_HOURS:02d}" for first in range(0, 24, _BLOCK_HOURS))
# Fixed borders rather than quantiles of the trades at hand: a condition means the same in every note.
_VOLATILITY = ((100, "<1%"), (200, "1-2%"), (400, "2-4%"), (800, "4-8%"), (None, ">8%"))
_FUNDING = ((0, "negative"), (25, "usual"), (None, "high"))
_CONFIDENCE = ((2_000, "<0.2"), (4_000, "0.2-0.4"), (6_000, "0.4-0.6"), (8_000, "0.6-0.8"), (None, ">0.8"))
_SIZE = ((100, "<$100"), (300, "$100-300"), (1_000, "$300-1000"), (3_000, "$1000-3000"), (10_000, "$3000-10000"))
_SIZES = (*_SIZE, (None, ">$10000"))


def _names(bands: Iterable[tuple[int | None, str]]) -> str:
    return "|".join(re.escape(name) for _, name in bands)


VALUES: dict[Field, re.Pattern[str]] = {
    "symbol": re.compile(_SYMBOL),
    "side": re.compile("long|short"),
    "regime": re.compile(_TAG),
    "hour": re.compile("|".join(_HOURS)),
    "volatility": re.compile(_names(_VOLATILITY)),
    "funding": re.compile(_names(_FUNDING)),
    "provider": re.compile(_PROVIDER),
    "confidence": re.compile(_names(_CONFIDENCE)),
    "size": re.compile(_names(_SIZES)),
}
"""What each field may be: closed sets, and names without blanks."""

Metric = Literal["result", "after_exit_1h", "after_exit_4h"]
EXIT_SPANS: dict[Metric, int] = {"after_exit_1h": HOUR, "after_exit_4h": 4 * HOUR}
"""How long the market is followed after an exit, for the claims that look at it."""


class EntryFacts(msgspec.Struct, frozen=True):
    """What is known when a trade is entered, in the words of the grammar; None where it is not known.

    `providers` are the engine that decided and the members of an ensemble that voted for the side that was traded.
    """

    symbol: str | None = None
    side: str | None = None
    regime: str | None = None
    hour: str | None = None
    volatility: str | None = None
    funding: str | None = None
    providers: tuple[str, ...] | None = None
    confidence: str | None = None
    size: str | None = None

    def meets(self, field: Field, value: str) -> bool | None:
        """Whether a term holds; None when the fact is not known."""
        if field == "provider":
            return None if self.providers is None else value in self.providers
        known = getattr(self, field)
        return None if known is None else known == value

    def values(self, field: Field) -> tuple[str, ...]:
        """The values a field has here: none when it is not known."""
        if field == "provider":
            return self.providers or ()
        known = getattr(self, field)
        return () if known is None else (known,)


class EntryDecision(msgspec.Struct, frozen=True):
    """What the decision behind an entry adds: who was for it, how confident, and what the market looked like.

    `conditions` are the texts that a decision stores with what it saw, such as `volatility_24h`.
    """

    providers: tuple[str, ...] | None = None
    confidence_e4: int | None = None
    conditions: tuple[tuple[str, str], ...] = ()


NO_DECISION = EntryDecision()


class TradeCase(msgspec.Struct, frozen=True):
    """One closed trade as evidence; the way after its exit is None where it is not known yet, or never will be."""

    trade_id: str
    exited_at: int
    facts: EntryFacts
    result_ppm: int
    after_exit_1h_ppm: int | None = None
    after_exit_4h_ppm: int | None = None

    def outcome_ppm(self, metric: Metric) -> int | None:
        """What a claim about a metric looks at."""
        if metric == "result":
            return self.result_ppm
        return self.after_exit_1h_ppm if metric == "after_exit_1h" else self.after_exit_4h_ppm


def case_of(trade: ClosedTrade, decision: EntryDecision = NO_DECISION) -> TradeCase:
    """A closed trade with what was known at its entry."""
    state, seen = trade.state, dict(decision.conditions)
    facts = entry_facts(
        symbol=state.symbol,
        side=state.side,
        regime=state.entry_regime_tag,
        at=state.entry_tick_at,
        conditions=seen,
        decision=decision,
        notional_usd_e6=state.entry_notional_usd_e6,
    )
    result = ratio_ppm(state.net_usd_e6, state.entry_notional_usd_e6)
    return TradeCase(state.trade_id, trade.exit_tick_at, facts, result)


def entry_facts(
    *,
    symbol: str,
    side: str | None,
    regime: str | None,
    at: int,
    conditions: Mapping[str, str],
    decision: EntryDecision = NO_DECISION,
    notional_usd_e6: int | None = None,
) -> EntryFacts:
    """Facts of an entry in the words of the grammar; what does not fit them is not known."""
    first = at // HOUR % 24 // _BLOCK_HOURS
    daily, hourly = (
        _scaled_number(conditions.get(name), by) for name, by in (("volatility_24h", 10_000), ("funding", 10**6))
    )
    return EntryFacts(
        symbol=_value_in_grammar("symbol", symbol),
        side=_value_in_grammar("side", side),
        regime=_value_in_grammar("regime", regime),
        hour=_HOURS[first],
        volatility=_band(_VOLATILITY, daily),
        funding=_band(_FUNDING, hourly),
        providers=None
        if decision.providers is None
        else tuple(filter(VALUES["provider"].fullmatch, decision.providers)),
        confidence=_band(_CONFIDENCE, decision.confidence_e4),
        size=_band(_SIZES, None if notional_usd_e6 is None else notional_usd_e6 // 10**6),
    )


def ratio_ppm(amount: int, of: int) -> int:
    """An amount in millionths of another, within ten times it; 0 of nothing."""
    return max(-(10**7), min(10**7, divide_half_even(amount * 10**6, of))) if of else 0


def _value_in_grammar(field: Field, value: str | None) -> str | None:
    return value if value is not None and VALUES[field].fullmatch(value) else None


def _scaled_number(text: str | None, by: int) -> int | None:
    try:
        return None if text is None else round(float(text) * by)
    except (ValueError, OverflowError):
        return None


def _band(bands: Iterable[tuple[int | None, str]], value: int | None) -> str | None:
    if value is None:
        return None
    return next(name for below, name in bands if below is None or value < below)


class Term(msgspec.Struct, frozen=True, order=True):
    """One fact that a trade must have."""

    field: Field
    value: str


class Condition(msgspec.Struct, frozen=True):
    """Facts that a trade must all have; none means every trade. Terms stand in the order of `FIELDS`."""

    terms: tuple[Term, ...] = ()

    def meets(self, facts: EntryFacts) -> bool | None:
        """Whether a trade meets it; None when that is not known."""
        found = [facts.meets(term.field, term.value) for term in self.terms]
        return False if False in found else None if None in found else True


def make_condition(terms: Mapping[str, Any]) -> Condition | None:
    """A condition from names and values; None when it is not in the grammar."""
    if len(terms) > MOST_TERMS or not all(isinstance(value, str) for value in terms.values()):
        return None
    known = [Term(field, terms[field]) for field in FIELDS if field in terms]
    if len(known) < len(terms) or not all(VALUES[term.field].fullmatch(term.value) for term in known):
        return None
    return Condition(tuple(known))


Direction = Literal["worse", "better"]
Baseline = Literal["rest", "nothing"]


class Claim(msgspec.Struct, frozen=True):
    """What is said of trades that meet a condition: their metric is worse or better than that of the rest, or zero.

    After an exit, better means that the market went on in the favour of the position that was left.
    """

    metric: Metric
    direction: Direction
    baseline: Baseline

    @property
    def sign(self) -> int:
        """1 when more is claimed, -1 when less is."""
        return 1 if self.direction == "better" else -1


class Hypothesis(msgspec.Struct, frozen=True):
    """A condition and a claim, with the numbers they had when they were registered.

    `effect_ppm` and its 95 % interval are in the direction of the claim. `n` trades met the condition, `rest_n` did
    not. Later results are clipped to `clip_ppm` around `centre_ppm`; a lesson that is true makes at least `least_ppm`
    of a difference, which is half of what it made then, so clipped. `carried` says that the search found it; else it
    was proposed, and is not stated before it is confirmed. It is judged on trades that ended after `seq` of the log.
    """

    lesson_id: str
    slot: str
    condition: Condition
    claim: Claim
    n: int
    rest_n: int
    effect_ppm: int
    low_ppm: int
    high_ppm: int
    centre_ppm: int
    clip_ppm: int
    least_ppm: int
    carried: bool
    proposed_by: str
    registered_at: int
    seq: int


def lesson_id(condition: Condition, claim: Claim) -> str:
    """The id of a lesson: the same whenever the same is claimed of the same trades."""
    terms = [f"{term.field}={term.value}" for term in condition.terms]
    return short_id("lesson", claim.metric, claim.direction, claim.baseline, *terms)[:12]


def canonical_form(condition: Condition, claim: Claim) -> tuple[Condition, Claim]:
    """One form for two claims that are mirrored: longs do better than the rest when shorts do worse."""
    if claim.baseline == "rest" and claim.direction == "better" and len(condition.terms) == 1:
        (term,) = condition.terms
        if term.field == "side":
            other = Term("side", "short" if term.value == "long" else "long")
            return Condition((other,)), msgspec.structs.replace(claim, direction="worse")
    return condition, claim


_SLOT_OF_FIELD: tuple[tuple[str, frozenset[str]], ...] = (
    ("Entry timing", frozenset(("hour",))),
    ("Sizing", frozenset(("size", "confidence"))),
    ("Regime fit", frozenset(("regime", "volatility", "funding"))),
    ("Symbol selection", frozenset(("symbol", "side", "provider"))),
)


def slot_of(condition: Condition, claim: Claim) -> str:
    """The slot of the note that a lesson belongs to."""
    if claim.metric != "result":
        return "Exit timing"
    fields = {term.field for term in condition.terms}
    return next((slot for slot, own in _SLOT_OF_FIELD if fields & own), "Symbol selection")


Status = Literal["registered", "confirmed", "weakened", "retired"]


def bullet_text(hypothesis: Hypothesis, status: Status, later: int) -> str:
    """The bullet of a lesson: a function of its data; `later` trades met its condition since it was registered."""
    return f"{_claim_text(hypothesis)}; {_status_text(status, later)}"


def _status_text(status: Status, later: int) -> str:
    trades = f"{later} later trade{'' if later == 1 else 's'}"
    if status == "registered":
        return f"not yet confirmed ({trades})" if later else "not yet confirmed"
    return {"confirmed": f"confirmed on {trades}", "weakened": f"weakened by {trades}"}.get(
        status, f"retired after {trades}"
    )


def _claim_text(hypothesis: Hypothesis) -> str:
    claim, whom = hypothesis.claim, condition_text(hypothesis.condition)
    effect = bps_text(hypothesis.effect_ppm)
    interval = f"95% {bps_text(hypothesis.low_ppm)} to {bps_text(hypothesis.high_ppm)}"
    if claim.metric != "result":
        way = "on" if claim.direction == "better" else "back"
        hours = EXIT_SPANS[claim.metric] // HOUR
        return (
            f"after exits of {whom} the market went {way} by {effect} bps in {hours} h (n={hypothesis.n}, {interval})"
        )
    if claim.baseline == "nothing":
        return f"{whom} do {claim.direction} than nothing by {effect} bps a trade (n={hypothesis.n}, {interval})"
    counts = f"n={hypothesis.n} and {hypothesis.rest_n}"
    return f"{whom} do {claim.direction} than the rest by {effect} bps a trade ({counts}, {interval})"


def bps_text(ppm: int) -> str:
    """Millionths as basis points with one digit."""
    return decimal_text(ppm, 100, 1)


_PHRASES: dict[Field, str] = {
    "regime": "in {}",
    "hour": "entered {} UTC",
    "volatility": "at {} volatility a day",
    "funding": "at {} funding",
    "provider": "backed by {}",
    "confidence": "at confidence {}",
    "size": "of size {}",
}


def condition_text(condition: Condition) -> str:
    """A condition in words, such as `short BTC trades in chop_lowvol`."""
    values = {term.field: term.value for term in condition.terms}
    if not values:
        return "all trades"
    named = [values[field] for field in ("side", "symbol") if field in values]
    rest = [phrase.format(values[field]) for field, phrase in _PHRASES.items() if field in values]
    return " ".join([*named, "trades", *rest])


def overall_text(n: int, effect_ppm: int, low_ppm: int, high_ppm: int) -> str:
    """What holds for all trades, which a note says first."""
    return f"{bps_text(effect_ppm)} bps a trade (n={n}, 95% {bps_text(low_ppm)} to {bps_text(high_ppm)})"


def _language() -> re.Pattern[str]:
    """What a bullet may be, with its slot in front."""
    number, count = r"-?[0-9]{1,6}\.[0-9]", r"[0-9]{1,7}"
    named = f"(?:(?:long|short) )?(?:{_SYMBOL} )?trades"
    phrases = "".join(f"(?: {phrase.format(f'(?:{VALUES[field].pattern})')})?" for field, phrase in _PHRASES.items())
    whom = f"(?:all trades|{named}{phrases})"
    interval = f"95% {number} to {number}"
    claims = "|".join(
        (
            f"{whom} do (?:worse|better) than the rest by {number} bps a trade \\(n={count} and {count}, {interval}\\)",
            f"{whom} do (?:worse|better) than nothing by {number} bps a trade \\(n={count}, {interval}\\)",
            f"after exits of {whom} the market went (?:on|back) by {number} bps in [14] h \\(n={count}, {interval}\\)",
        )
    )
    later = f"{count} later trades?"
    status = f"(?:not yet confirmed(?: \\({later}\\))?|(?:confirmed on|weakened by) {later})"
    overall = f"{OVERALL}: {number} bps a trade \\(n={count}, {interval}\\)"
    return re.compile(f"(?:{'|'.join(SLOTS)}): (?:{claims}); {status}|{overall}")


_BULLET = _language()


def is_rendered_bullet(text: str) -> bool:
    """Whether a bullet, with its slot in front, is one that this module writes."""
    return _BULLET.fullmatch(text) is not None
