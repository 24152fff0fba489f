"""Faults on single frames and single bars.

A frame passes, in this order: delayed with its whole channel, corrupted, held back behind the next
one, sent twice. Bars are changed where `candleSnapshot` answers them.
"""

import msgspec

from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Candle
from tapebook.world.faults import Faults, Injected, Record

_BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head></html>"


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


class Mangler:
    """What one socket's frames go through; it remembers those it holds back."""

    def __init__(self, faults: Faults, record: Record) -> None:
        self._faults = faults
        self._record = record
        self._delayed: dict[str, tuple[int, list[Frame]]] = {}
        self._held: dict[str, tuple[int, bytes]] = {}

    def send(self, frames: list[Frame], at: int) -> list[bytes]:
        """What to send at a step in place of its frames."""
        sent: list[bytes] = []
        for frame in self._on_time(frames, at):
            sent += self._hurt(frame, at)
        for lane, (latest, payload) in list(self._held.items()):
            if at >= latest:
                sent.append(payload)
                del self._held[lane]
        return sent

    def _on_time(self, frames: list[Frame], at: int) -> list[Frame]:
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
                self._record.stretch(Injected("delay", frame.channel, frame.subject, at, until))
            if frame.lane in self._delayed:
                self._delayed[frame.lane][1].append(frame)
            else:
                ready.append(frame)
        return ready

    def _hurt(self, frame: Frame, at: int) -> list[bytes]:
        payload = self._broken(frame, at) if self._strikes("corrupt", frame, at) else frame.payload
        if frame.lane in self._held:
            return [payload, self._held.pop(frame.lane)[1]]
        if self._strikes("reorder", frame, at):
            self._held[frame.lane] = at + self._faults.reorder_ms, payload
            return []
        return [payload] * (1 + self._strikes("duplicate", frame, at))

    def _strikes(self, kind: str, frame: Frame, at: int) -> bool:
        strikes = self._faults.happens(kind, frame.lane, at)
        if strikes:
            self._record.stretch(Injected(kind, frame.channel, frame.subject, at, at))
        return strikes

    def _broken(self, frame: Frame, at: int) -> bytes:
        """Cut off in the middle, or what a proxy says when the exchange is gone."""
        cut = self._faults.dice("cut", frame.lane, at) < 0.7
        return frame.payload[: len(frame.payload) * 2 // 3] if cut else _BAD_GATEWAY


class Amender:
    """Late and corrected bars."""

    def __init__(self, faults: Faults, record: Record) -> None:
        self._faults = faults
        self._record = record

    def __call__(self, bars: list[Candle], now: int) -> list[Candle]:
        """The bars as they are answered now; only minutes are touched."""
        faults = self._faults
        if not (faults.late or faults.correct) or not bars or bars[0].end - bars[0].bucket_ts != MINUTE:
            return bars
        return [self._corrected(bar, now) for bar in bars if not self._is_late(bar, now)]

    def _is_late(self, bar: Candle, now: int) -> bool:
        late = (
            not bar.sample_count
            and now < bar.end + self._faults.late_ms
            and self._faults.happens("late", bar.symbol, bar.bucket_ts)
        )
        if late:
            self._record.stretch(Injected("late", "candles", bar.symbol, bar.bucket_ts, bar.end))
        return late

    def _corrected(self, bar: Candle, now: int) -> Candle:
        due = bar.sample_count and now >= bar.end + self._faults.correct_after_ms
        if not due or not self._faults.happens("correct", bar.symbol, bar.bucket_ts):
            return bar
        self._record.stretch(Injected("correct", "candles", bar.symbol, bar.bucket_ts, bar.end))
        # The close moves to the far end of the bar, so it stays on the grid and within the bar.
        close = bar.low_e8 if bar.close_e8 - bar.low_e8 > bar.high_e8 - bar.close_e8 else bar.high_e8
        return msgspec.structs.replace(
            bar, close_e8=close, volume_base=bar.volume_base * 1.5, sample_count=bar.sample_count + 1
        )
