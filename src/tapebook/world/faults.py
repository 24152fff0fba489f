"""Faults on the way to a client: what can go wrong, when, a log of all that did, and the damage to frames and bars.

A fault happens by a random draw that depends only on the seed, its kind, its subject and the world's time (of
requests, on how many there were before). So two runs with one seed have the same faults, however fast they run and
however many clients are there.

A frame passes, in this order: delayed with its whole channel, corrupted, held back behind the next one, sent twice.
Bars are changed where `candleSnapshot` answers them.
"""

import msgspec

from tapebook.domain.market import Candle
from tapebook.domain.units import MINUTE, SECOND
from tapebook.world.random_streams import stream_seed

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
    `down` are servers that answer with a proxy's page for a while: a prefix such as `gamma`, or `info`
    for the requests of Hyperliquid, whose socket stays; since when, until when.
    Outside `window`, a first and a last instant, nothing else happens.
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
    down: tuple[tuple[str, int, int], ...] = ()

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
        return self.uniform_draw(kind, subject, at if number is None else number) < chance

    def is_down(self, server: str, at: int) -> bool:
        """Whether a server behind a prefix is away at this instant."""
        return any(name == server and since <= at < until for name, since, until in self.down)

    def uniform_draw(self, kind: str, subject: str, number: int) -> float:
        """A number from 0 up to 1 that belongs to this throw alone."""
        return stream_seed(self.seed, f"fault {kind}", subject, minute=number) / _DICE


class InjectedFault(msgspec.Struct, frozen=True):
    """One fault that struck: its kind, the tape's channel and subject it fell on, and the span of the world's time."""

    kind: str
    channel: str
    subject: str
    from_ts: int
    to_ts: int


class FaultLog:
    """All faults that struck, in the order they began."""

    def __init__(self) -> None:
        self.injected: list[InjectedFault] = []
        self._places: dict[tuple[str, str, str, int], int] = {}

    def add(self, fault: InjectedFault) -> None:
        """Writes a fault down."""
        self.injected.append(fault)

    def add_or_extend(self, fault: InjectedFault) -> None:
        """Writes a fault down once; told again, or by another socket, it can only become longer."""
        place = self._places.setdefault((fault.kind, fault.channel, fault.subject, fault.from_ts), len(self.injected))
        if place == len(self.injected):
            self.add(fault)
        elif fault.to_ts > self.injected[place].to_ts:
            self.injected[place] = fault


BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head></html>"


class Frame(msgspec.Struct, frozen=True):
    """A message to a subscriber: the tape's channel and the subject it tells of, its bytes, and which kind of it.

    Frames of one lane come in order; bars of two intervals are two lanes.
    """

    channel: str
    subject: str
    payload: bytes
    variant: str = ""

    @property
    def lane(self) -> str:
        """The name of the lane."""
        return f"{self.channel}/{self.subject}/{self.variant}"


class FrameMangler:
    """What one socket's frames go through; it remembers those it holds back."""

    def __init__(self, faults: Faults, record: FaultLog) -> None:
        self._faults = faults
        self._record = record
        self._delayed: dict[str, tuple[int, list[Frame]]] = {}
        self._held: dict[str, tuple[int, bytes]] = {}

    def payloads_at(self, frames: list[Frame], at: int) -> list[bytes]:
        """What to send at a step in place of its frames."""
        sent: list[bytes] = []
        for frame in self._frames_due(frames, at):
            sent += self._damaged_payloads(frame, at)
        for lane, (latest, payload) in list(self._held.items()):
            if at >= latest:
                sent.append(payload)
                del self._held[lane]
        return sent

    def _frames_due(self, frames: list[Frame], at: int) -> list[Frame]:
        """The frames that go now: those whose delay is over first."""
        ready: list[Frame] = []
        for lane, (until, waiting) in list(self._delayed.items()):
            if at >= until:
                ready += waiting
                del self._delayed[lane]
        for frame in frames:
            if frame.lane not in self._delayed and self._faults.happens("delay", frame.lane, at):
                until = at + self._faults.delay_ms
                self._delayed[frame.lane] = until, []
                self._record.add_or_extend(InjectedFault("delay", frame.channel, frame.subject, at, until))
            if frame.lane in self._delayed:
                self._delayed[frame.lane][1].append(frame)
            else:
                ready.append(frame)
        return ready

    def _damaged_payloads(self, frame: Frame, at: int) -> list[bytes]:
        payload = self._break_frame(frame, at) if self._strikes("corrupt", frame, at) else frame.payload
        if frame.lane in self._held:
            return [payload, self._held.pop(frame.lane)[1]]
        if self._strikes("reorder", frame, at):
            self._held[frame.lane] = at + self._faults.reorder_ms, payload
            return []
        return [payload] * (1 + self._strikes("duplicate", frame, at))

    def _strikes(self, kind: str, frame: Frame, at: int) -> bool:
        strikes = self._faults.happens(kind, frame.lane, at)
        if strikes:
            self._record.add_or_extend(InjectedFault(kind, frame.channel, frame.subject, at, at))
        return strikes

    def _break_frame(self, frame: Frame, at: int) -> bytes:
        """Cut off in the middle, or what a proxy says when the exchange is gone."""
        cut = self._faults.uniform_draw("cut", frame.lane, at) < 0.7
        return frame.payload[: len(frame.payload) * 2 // 3] if cut else BAD_GATEWAY


class BarAmender:
    """Late and corrected bars."""

    def __init__(self, faults: Faults, record: FaultLog) -> None:
        self._faults = faults
        self._record = record

    def __call__(self, bars: list[Candle], now: int) -> list[Candle]:
        """The bars as they are answered now; only minutes are touched."""
        faults = self._faults
        if not (faults.late or faults.correct) or not bars or bars[0].end - bars[0].bucket_ts != MINUTE:
            return bars
        return [self._correct(bar, now) for bar in bars if not self._is_late(bar, now)]

    def _is_late(self, bar: Candle, now: int) -> bool:
        late = (
            not bar.sample_count
            and now < bar.end + self._faults.late_ms
            and self._faults.happens("late", bar.symbol, bar.bucket_ts)
        )
        if late:
            self._record.add_or_extend(InjectedFault("late", "candles", bar.symbol, bar.bucket_ts, bar.end))
        return late

    def _correct(self, bar: Candle, now: int) -> Candle:
        due = bar.sample_count and now >= bar.end + self._faults.correct_after_ms
        if not due or not self._faults.happens("correct", bar.symbol, bar.bucket_ts):
            return bar
        self._record.add_or_extend(InjectedFault("correct", "candles", bar.symbol, bar.bucket_ts, bar.end))
        # The close moves to the far end of the bar, so it stays on the grid and within the bar.
        close = bar.low_e8 if bar.close_e8 - bar.low_e8 > bar.high_e8 - bar.close_e8 else bar.high_e8
        return msgspec.structs.replace(
            bar, close_e8=close, volume_base=bar.volume_base * 1.5, sample_count=bar.sample_count + 1
        )
