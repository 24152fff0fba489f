"""Watching one connection: when to ping, when to give it up, how long to wait before the next. Pure.

Connections die in two ways: they stop answering pings, or they answer and send nothing any more.
The second is told by the silence of a channel. Backoff doubles from 250 ms to 30 s; its jitter
comes from a hash of the connection's name and the attempt, so that two runs wait alike.
"""

import zlib
from collections.abc import Sequence

import msgspec

from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 30.0


class Verdict(msgspec.Struct, frozen=True):
    """What to do now: give the connection up for a reason, ping, or nothing."""

    give_up: str = ""
    channel: str = ""
    ping: bool = False


class Watch:
    """The watch over one connection, from its opening on."""

    def __init__(self, settings: HyperliquidSettings) -> None:
        self._settings = settings
        self._silences: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._pinged = 0.0
        self._unanswered: float | None = None

    def opened(self, now: float, channels: Sequence[str]) -> None:
        """A new connection that is to carry these channels, named once for every subscription."""
        mids, candle = self._settings.mids_silence_s, self._settings.candles_silence_s
        # A quiet coin sends no candles for minutes, but the more there are, the less likely all are quiet at once.
        self._silences = {"mids": mids, "candles": max(mids, candle / max(1, channels.count("candles")))}
        self._heard = dict.fromkeys(channels, now)
        self._pinged, self._unanswered = now, None

    def heard(self, channel: str, now: float) -> None:
        """A channel has sent something."""
        if channel in self._heard:
            self._heard[channel] = now

    def pinged(self, now: float) -> None:
        """A ping was sent."""
        self._pinged = now
        if self._unanswered is None:
            self._unanswered = now

    def ponged(self) -> None:
        """A ping was answered."""
        self._unanswered = None

    def verdict(self, now: float) -> Verdict:
        """What to do now."""
        if self._unanswered is not None and now - self._unanswered > self._settings.pong_s:
            return Verdict(give_up=f"no pong within {self._settings.pong_s:g} s")
        for channel, at in self._heard.items():
            if now - at > self._silences[channel]:
                return Verdict(give_up=f"no {channel} for {self._silences[channel]:g} s", channel=channel)
        return Verdict(ping=now - self._pinged >= self._settings.ping_s)


def wait_s(name: str, attempt: int) -> float:
    """How long a connection waits before its next attempt, `attempt` failures after it last worked."""
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt, 16))
    jitter = zlib.crc32(f"{name}/{attempt}".encode()) / 2**32
    return longest * (0.5 + jitter / 2)
