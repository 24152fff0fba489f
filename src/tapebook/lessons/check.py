"""Whether a proposed note may become the active one: well-formed, bounded, grounded, and no rule in disguise."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tapebook.domain.estimate import Estimate
from tapebook.domain.run import Usage
from tapebook.domain.text import sanitise, sanitise_lines
from tapebook.domain.trade import ClosedTrade
from tapebook.lessons.facts import Facts, facts_of, result_bps
from tapebook.lessons.slots import SLOTS, note_text, read_slots

MOST_CHARS = 2_000
OFF_THE_RAILS = 4_000
_NUMBER = re.compile(r"(?<![\w.])[-+]?\$?\d[\d,]*(?:\.\d+)?")


class Rejected(msgspec.Struct, frozen=True):
    """Why there is no new note; the active one stays."""

    why: str
    usage: Usage | None = None


def checked(
    text: str, *, avoid: Iterable[str], trades: Sequence[ClosedTrade], active: str | None
) -> str | Rejected:
    """The note in its canonical form, cut to whole bullets that fit; or why not."""
    if not text.strip():
        return Rejected("the note is empty")
    if len(text) > OFF_THE_RAILS:
        return Rejected(f"the note has {len(text)} characters; over {OFF_THE_RAILS} it is not read")
    text = "\n".join(sanitise_lines(text))
    slots = read_slots(text)
    if isinstance(slots, str):
        return Rejected(slots)
    copied = [rule for rule in avoid if rule.strip() and _plain(rule) in _plain(text)]
    if copied:
        return Rejected(f"it repeats the avoid rule {copied[0][:60]!r}: rules stand above lessons")
    strange = _strange_number(slots, trades, active)
    return Rejected(strange) if strange else _cut(slots)


def _cut(slots: dict[str, tuple[str, ...]]) -> str:
    """Drops the last bullet of the fullest slot until the text fits."""
    kept = {slot: list(bullets) for slot, bullets in slots.items()}
    while len(text := note_text(kept)) > MOST_CHARS:
        max((kept[slot] for slot in SLOTS), key=len).pop()
    return text


def _strange_number(slots: dict[str, tuple[str, ...]], trades: Sequence[ClosedTrade], active: str | None) -> str | None:
    """The first bullet with a number that these trades do not give; a bullet of the active note may stay as it is."""
    before = read_slots(active) if active else {}
    known = set() if isinstance(before, str) else {bullet for bullets in before.values() for bullet in bullets}
    truth = sorted({abs(number) for number in _numbers(facts_of(trades), trades)})
    for bullet in (bullet for bullets in slots.values() for bullet in bullets if bullet not in known):
        numbers = _NUMBER.findall(bullet)
        if not numbers:
            return f"no number stands behind {bullet[:60]!r}"
        odd = [number for number in numbers if not _given(number, truth)]
        if odd:
            return f"the trades do not give {odd[0]} in {bullet[:60]!r}"
    return None


def _given(number: str, truth: Sequence[float]) -> bool:
    plain = number.replace(",", "").replace("$", "").lstrip("+-")
    wanted, slack = float(plain), 10 ** -len(plain.partition(".")[2])
    # The last digit may have been rounded or cut; the neighbours of where it would stand are the nearest there are.
    place = bisect_left(truth, wanted)
    return any(abs(value - wanted) <= slack for value in truth[max(place - 1, 0) : place + 1])


def _numbers(facts: Facts, trades: Sequence[ClosedTrade]) -> Iterator[float]:
    estimates = [facts.all_bps, facts.wins, facts.capture.kept_by_winners, facts.capture.best_of_losers_bps]
    for group in facts.groups:
        estimates += [group.result_bps, group.rest_bps, group.wins]
        yield group.net_usd
        yield from (float(number) for number in re.findall(r"\d+", group.name))
    for estimate in estimates:
        yield from _spoken(estimate)
    yield from (float(len(trades)), 95.0)
    for trade in trades:
        yield from (result_bps(trade), trade.state.net_usd_e6 / 1e6, trade.holding_ms / 60_000)


def _spoken(estimate: Estimate) -> Iterator[float]:
    """An estimate as it may be written: as it is, or a share as a percentage; and its count."""
    for value in (estimate.value, estimate.low, estimate.high):
        yield value
        yield 100 * value
    yield float(estimate.n)


def _plain(text: str) -> str:
    return " ".join(sanitise(text).lower().split())
