"""The poll of settled funding, every hour, and its backfill: both ask from the newest rate known.

That rate comes back too, so a missing hour shows as a hole between two rows. An hour that is not
published yet is asked for again a little later.
"""

from collections.abc import Mapping

import msgspec

from tapebook.domain.instants import HOUR, floor
from tapebook.domain.market import FundingRate
from tapebook.tape.sources.hyperliquid.answers import read_funding
from tapebook.tape.sources.hyperliquid.contexts import funding_of
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands
from tapebook.tape.sources.hyperliquid.gaps import holes
from tapebook.tape.sources.hyperliquid.outbox import Outbox
from tapebook.tape.sources.hyperliquid.polls import Moment, Poll
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Names, dex_of
from tapebook.tape.sources.hyperliquid.wire import Malformed

PAGE_ROWS = 500
_ASK_AGAIN_S = 60.0
_TRIES = 3


class FundingPoll:
    """The settled rates of all watched perps."""

    def __init__(self, settings: HyperliquidSettings, outbox: Outbox, errands: Errands, *, names: Names) -> None:
        self._settings = settings
        self._outbox = outbox
        self._errands = errands
        self._names = names
        self._poll = Poll(settings.funding_every_ms, delay=settings.funding_delay_ms)
        self._newest: dict[str, int] = {}
        self._start: dict[str, int] = {}

    def resume(self, newest: Mapping[str, int | None], *, at: int) -> None:
        """Begins where the tape ends, dex by dex; under virtual time an hour it has of all is not asked for again."""
        first, every, delay = floor(at - self._settings.history_ms, HOUR), self._poll.every, self._poll.delay
        self._start = {dex: first if hour is None else hour for dex, hour in newest.items()}
        # Asked at once, the next rate would be known some seconds before a process that was not stopped asks for it.
        if self._settings.stepped and min(self._start.values()) >= floor(at - delay, every):
            self._poll = Poll(every, delay=delay, newest=at - delay)

    def tick(self, at: int) -> None:
        """Queues the poll when it is due."""
        if self._poll.due(at) is not None:
            for symbol in self._names.watched.perps:
                since = self._newest.get(symbol, self._start[dex_of(symbol)])
                self._errands.add(Errand("funding", symbol, since))

    def answered(self, errand: Errand, body: bytes, now: Moment) -> bool:
        """Rates of one symbol; False when they cannot be read."""
        answer = read_funding(body)
        if isinstance(answer, Malformed):
            self._outbox.malformed([answer])
            return False
        rates, problems = funding_of(errand.subject, answer.good(), until=now.at)
        self._outbox.malformed([*answer.problems, *problems])
        self._take(errand.subject, rates)
        if len(answer.rows) >= PAGE_ROWS and rates:
            self._errands.add(Errand("funding", errand.subject, rates[-1].bucket_ts + HOUR))
        elif self._is_late(errand.subject, now.at) and errand.tries < _TRIES:
            again = msgspec.structs.replace(errand, tries=errand.tries + 1, not_before=now.elapsed + _ASK_AGAIN_S)
            self._errands.add(again)
        return True

    def _take(self, symbol: str, rates: list[FundingRate]) -> None:
        newest = self._newest.get(symbol, -1)
        new = [rate for rate in rates if rate.bucket_ts > newest]
        if not new:
            return
        known = [newest] if newest >= 0 else []
        for bounds in holes([*known, *(rate.bucket_ts for rate in new)], step=HOUR):
            self._outbox.gap("funding", symbol, bounds, "the exchange has no rate")
        self._newest[symbol] = new[-1].bucket_ts
        self._outbox.put(new)

    def _is_late(self, symbol: str, at: int) -> bool:
        return self._newest.get(symbol, -1) < floor(at - self._settings.funding_delay_ms, HOUR)
