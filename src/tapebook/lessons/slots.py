"""The five slots of a note, and its text form: a heading each, at most four bullets, or that nothing is clear yet."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

SLOTS = ("Entry timing", "Sizing", "Symbol selection", "Exit timing", "Regime fit")
NOTHING = "(no clear pattern yet)"
MOST_BULLETS = 4

Slots = Mapping[str, Sequence[str]]


def note_text(slots: Slots) -> str:
    """A note as text; every slot is there, so that an empty one is seen to be empty."""
    parts = []
    for slot in SLOTS:
        lines = [f"- {bullet}" for bullet in slots.get(slot, ())] or [NOTHING]
        parts.append("\n".join([f"### {slot}", *lines]))
    return "\n\n".join(parts)


def read_slots(text: str) -> dict[str, tuple[str, ...]] | str:
    """The bullets of each slot; or, as a text, why this is not a note."""
    found: dict[str, list[str]] = {}
    slot = ""
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("#"):
            slot = line.lstrip("# ").strip()
            if slot not in SLOTS or slot in found:
                return f"{slot[:40]!r} is not a slot, or stands twice"
            found[slot] = []
        elif line.startswith("- ") and slot:
            found[slot].append(line[2:].strip())
        elif line and line != NOTHING:
            return f"{line[:60]!r} is neither a heading nor a bullet"
    missing = [name for name in SLOTS if name not in found]
    if missing:
        return f"the slot {missing[0]!r} is missing"
    crowded = [name for name in SLOTS if len(found[name]) > MOST_BULLETS]
    return f"more than {MOST_BULLETS} bullets in {crowded[0]!r}" if crowded else {k: tuple(v) for k, v in found.items()}


@lru_cache(maxsize=1_024)
def bullets(text: str) -> tuple[str, ...]:
    """The bullets of a note that was checked, each with its slot in front; a note is read by many ticks."""
    slots = read_slots(text)
    if isinstance(slots, str):
        return ()
    return tuple(f"{slot}: {bullet}" for slot in SLOTS for bullet in slots[slot])
