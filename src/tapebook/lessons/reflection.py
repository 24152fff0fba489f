"""One reflection: is it due, what does the reflector propose, and may the proposal become the active note?

1. `should_run_reflection` counts trades since the last note, not modulo the total, so two trades closed in one tick
   cannot skip it;
2. a `Reflector` turns closed trades into a proposed note;
3. `check_note` accepts what is well-formed, bounded, grounded in the trades' numbers, and no avoid rule in disguise;
4. `run_reflection` does 2 and 3. It writes nothing: the caller stores the note or the reason why there is none.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn, Protocol

import msgspec

from tapebook.domain.agent import AgentProfile, ReflectionSettings
from tapebook.domain.estimate import Estimate
from tapebook.domain.instants import DAY
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import Usage
from tapebook.domain.text import sanitise, sanitise_lines
from tapebook.errors import ConfigError
from tapebook.lessons.facts import TradeFacts, facts_of, result_bps
from tapebook.lessons.notes import SLOTS, hash_lessons_text, note_text, read_slots
from tapebook.llm import Asker


class ReflectorNote(msgspec.Struct, frozen=True):
    """A proposed note, who wrote it, and what it cost; `problem` says why there is none."""

    text: str
    written_by: str
    usage: Usage | None = None
    problem: str | None = None


class Reflector(Protocol):
    """Anything that can write a note."""

    def reflect(self, agent: AgentProfile, trades: Sequence[ClosedTrade], *, active: str | None) -> ReflectorNote:
        """A note on closed trades, oldest first, going on from the active one."""
        ...


def _no_asker(_provider: str, _model: str) -> NoReturn:
    raise ConfigError("this reflector can only be made by a home, which knows its models")


class ReflectorTerms(msgspec.Struct, frozen=True):
    """What a reflector may need to be made: a provider's model, and what it may spend on one note."""

    model: str = ""
    max_usd_e6: int = 0
    asker: Callable[[str, str], Asker] = _no_asker


class ReflectionState(msgspec.Struct, frozen=True):
    """How many trades were closed since the last note, when that was (None: never), and when the first one closed."""

    closed_since_note: int
    last_note_at: int | None
    first_close_at: int | None


def should_run_reflection(state: ReflectionState, reflection: ReflectionSettings, *, as_of: int) -> bool:
    """Whether a note is due. A daily one needs a day with a closed trade to be over."""
    if reflection.cadence == "off" or not state.closed_since_note:
        return False
    if reflection.cadence == "per_n_trades":
        return state.closed_since_note >= reflection.every_n_trades
    # Without a note yet, the first closed trade begins the count of days.
    since = state.first_close_at if state.last_note_at is None else state.last_note_at
    return since is not None and as_of // DAY > since // DAY


# As many as fit the budget of lessons in the packet.
MOST_CHARS = 2_000
# Twice the cap: a note that is a little long is cut, one that is no note is refused.
MOST_PROPOSED_CHARS = 4_000
_NUMBER = re.compile(r"(?<![\w.])[-+]?\$?\d[\d,]*(?:\.\d+)?")


class RejectedNote(msgspec.Struct, frozen=True):
    """Why there is no new note; the active one stays."""

    why: str
    usage: Usage | None = None


def check_note(
    text: str, *, avoid: Iterable[str], trades: Sequence[ClosedTrade], active: str | None
) -> str | RejectedNote:
    """The note in its canonical form, cut to whole bullets that fit; or why not."""
    if not text.strip():
        return RejectedNote("the note is empty")
    if len(text) > MOST_PROPOSED_CHARS:
        return RejectedNote(f"the note has {len(text)} characters; over {MOST_PROPOSED_CHARS} it is not read")
    text = "\n".join(sanitise_lines(text))
    slots = read_slots(text)
    if isinstance(slots, str):
        return RejectedNote(slots)
    copied = [rule for rule in avoid if rule.strip() and _normalise(rule) in _normalise(text)]
    if copied:
        return RejectedNote(f"it repeats the avoid rule {copied[0][:60]!r}: rules stand above lessons")
    strange = _unsupported_number(slots, trades, active)
    return RejectedNote(strange) if strange else _cut_to_size(slots)


def _cut_to_size(slots: dict[str, tuple[str, ...]]) -> str:
    """Drops the last bullet of the fullest slot until the text fits."""
    kept = {slot: list(bullets) for slot, bullets in slots.items()}
    while len(text := note_text(kept)) > MOST_CHARS:
        max((kept[slot] for slot in SLOTS), key=len).pop()
    return text


def _unsupported_number(
    slots: dict[str, tuple[str, ...]], trades: Sequence[ClosedTrade], active: str | None
) -> str | None:
    """The first bullet with a number that these trades do not give; a bullet of the active note may stay as it is."""
    before = read_slots(active) if active else {}
    known = set() if isinstance(before, str) else {bullet for bullets in before.values() for bullet in bullets}
    truth = sorted({abs(number) for number in _numbers_in_data(facts_of(trades), trades)})
    for bullet in (bullet for bullets in slots.values() for bullet in bullets if bullet not in known):
        numbers = _NUMBER.findall(bullet)
        if not numbers:
            return f"no number stands behind {bullet[:60]!r}"
        odd = [number for number in numbers if not _is_in_data(number, truth)]
        if odd:
            return f"the trades do not give {odd[0]} in {bullet[:60]!r}"
    return None


def _is_in_data(number: str, truth: Sequence[float]) -> bool:
    plain = number.replace(",", "").replace("$", "").lstrip("+-")
    wanted, slack = float(plain), 10 ** -len(plain.partition(".")[2])
    # The last digit may have been rounded or cut; the neighbours of where it would stand are the nearest there are.
    place = bisect_left(truth, wanted)
    return any(abs(value - wanted) <= slack for value in truth[max(place - 1, 0) : place + 1])


def _numbers_in_data(facts: TradeFacts, trades: Sequence[ClosedTrade]) -> Iterator[float]:
    estimates = [facts.all_bps, facts.wins, facts.capture.kept_by_winners, facts.capture.best_of_losers_bps]
    for group in facts.groups:
        estimates += [group.result_bps, group.rest_bps, group.wins]
        yield group.net_usd
        yield from (float(number) for number in re.findall(r"\d+", group.name))
    for estimate in estimates:
        yield from _ways_to_write(estimate)
    yield from (float(len(trades)), 95.0)
    for trade in trades:
        yield from (result_bps(trade), trade.state.net_usd_e6 / 1e6, trade.holding_ms / 60_000)


def _ways_to_write(estimate: Estimate) -> Iterator[float]:
    """An estimate as it may be written: as it is, or a share as a percentage; and its count."""
    for value in (estimate.value, estimate.low, estimate.high):
        yield value
        yield 100 * value
    yield float(estimate.n)


def _normalise(text: str) -> str:
    return " ".join(sanitise(text).lower().split())


class Lesson(msgspec.Struct, frozen=True):
    """A note that passed: its text, its hash, what it rests on, and what it cost."""

    text: str
    content_hash: str
    window_start: int
    window_end: int
    trades_considered: int
    written_by: str
    usage: Usage | None


def run_reflection(
    reflector: Reflector, agent: AgentProfile, trades: Sequence[ClosedTrade], *, active: str | None
) -> Lesson | RejectedNote:
    """The next note, or why the active one stays."""
    if not trades:
        return RejectedNote("there are no closed trades to learn from")
    reflected = reflector.reflect(agent, trades, active=active)
    if reflected.problem is not None:
        return RejectedNote(reflected.problem, reflected.usage)
    text = check_note(reflected.text, avoid=agent.avoid, trades=trades, active=active)
    if isinstance(text, RejectedNote):
        # A rejected note has been paid for as well.
        return RejectedNote(text.why, reflected.usage)
    return Lesson(
        text=text,
        content_hash=hash_lessons_text(text),
        window_start=min(trade.state.entry_tick_at for trade in trades),
        window_end=max(trade.exit_tick_at for trade in trades),
        trades_considered=len(trades),
        written_by=reflected.written_by,
        usage=reflected.usage,
    )
