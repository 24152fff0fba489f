"""What can go wrong on the way, when, and a record of all that did.

A fault happens by a throw of dice that depends only on the seed, its kind, its subject and the
world's time (of requests, on how many there were before). So two runs with one seed have the same
faults, however fast they run and however many clients are there.
"""

import msgspec

from tapebook.domain.instants import MINUTE, SECOND
from tapebook.world.streams import stream_seed

_DICE = 2**128


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How often what goes wrong; all zero is a faithful exchange. Chances lie between 0 and 1.

    Per step of five seconds: `drop` closes all sockets; `silence` lets those now open say nothing
    more for `silence_ms`, not even pongs; `stall` is the same, but pings are answered.
    Per frame: `duplicate`, `reorder` (after the next of its kind, or after `reorder_ms`), `delay`
    (it and those behind it in its channel come `delay_ms` later), `corrupt` (broken JSON).
    Per bar: `late` hides a minute without trades from `candleSnapshot` for `late_ms`; `correct`
    changes close and volume of a bar that ended `correct_after_ms` ago.
    Per request: `too_many` (429), `error` (500 `null`), `timeout` (no answer for `timeout_ms` of the
    world, then the line ends; with 0 it ends at once, for a client that stands still with its world).
    Outside `window`, a first and a last instant, nothing happens.
    """

    seed: int = 0
    window: tuple[int, int] | None = None
    drop: float = 0.0
    silence: float = 0.0
    silence_ms: int = 90 * SECOND
    stall: float = 0.0
    stall_ms: int = 90 * SECOND
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_ms: int = 15 * SECOND
    delay: float = 0.0
    delay_ms: int = 15 * SECOND
    corrupt: float = 0.0
    late: float = 0.0
    late_ms: int = 3 * MINUTE
    correct: float = 0.0
    correct_after_ms: int = 5 * MINUTE
    too_many: float = 0.0
    error: float = 0.0
    timeout: float = 0.0
    timeout_ms: int = 60 * SECOND

    @classmethod
    def storm(cls, seed: int) -> "Faults":
        """Everything at once: a drop and a silence or stall every twenty minutes or so, one frame in a hundred hurt."""
        return cls(
            seed=seed,
            drop=1 / 240,
            silence=1 / 480,
            stall=1 / 480,
            duplicate=0.01,
            reorder=0.01,
            delay=0.005,
            corrupt=0.01,
            late=0.5,
            correct=0.02,
            too_many=0.03,
            error=0.03,
            timeout=0.01,
        )

    @property
    def touch_frames(self) -> bool:
        """Whether single frames can be hurt."""
        return bool(self.duplicate or self.reorder or self.delay or self.corrupt)

    def happens(self, kind: str, subject: str, at: int, *, number: int | None = None) -> bool:
        """Whether a fault strikes at this instant of the world; of what comes several times at once, say which."""
        chance: float = getattr(self, kind)
        if not chance or (self.window is not None and not self.window[0] <= at <= self.window[1]):
            return False
        return self.dice(kind, subject, at if number is None else number) < chance

    def dice(self, kind: str, subject: str, number: int) -> float:
        """A number from 0 up to 1 that belongs to this throw alone."""
        return stream_seed(self.seed, f"fault {kind}", subject, minute=number) / _DICE


class Injected(msgspec.Struct, frozen=True):
    """One fault that struck: its kind, the tape's channel and subject it fell on, and the span of the world's time."""

    kind: str
    channel: str
    subject: str
    from_ts: int
    to_ts: int


class Record:
    """All faults that struck, in the order they began."""

    def __init__(self) -> None:
        self.injected: list[Injected] = []
        self._places: dict[tuple[str, str, str, int], int] = {}

    def add(self, fault: Injected) -> None:
        """Writes a fault down."""
        self.injected.append(fault)

    def stretch(self, fault: Injected) -> None:
        """Writes a fault down once; told again, or by another socket, it can only become longer."""
        place = self._places.setdefault((fault.kind, fault.channel, fault.subject, fault.from_ts), len(self.injected))
        if place == len(self.injected):
            self.add(fault)
        elif fault.to_ts > self.injected[place].to_ts:
            self.injected[place] = fault
