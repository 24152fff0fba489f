"""The poll of contexts and predicted funding, every minute; it also brings the names that are listed now."""

from collections.abc import Mapping

from tapebook.domain.instants import MINUTE, floor
from tapebook.tape.sources.hyperliquid.answers import read_contexts, read_predicted
from tapebook.tape.sources.hyperliquid.contexts import contexts_of, delistings_of, predicted_of
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands
from tapebook.tape.sources.hyperliquid.gaps import NO_ANSWER, NOT_RUNNING, Cadence, subject_of
from tapebook.tape.sources.hyperliquid.outbox import Outbox
from tapebook.tape.sources.hyperliquid.polls import Poll
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Names
from tapebook.tape.sources.hyperliquid.wire import Malformed

_NOT_SAID = -1


class ContextPoll:
    """The contexts of all watched perps, dex by dex."""

    def __init__(self, settings: HyperliquidSettings, outbox: Outbox, errands: Errands, *, names: Names) -> None:
        self._every = settings.contexts_every_ms
        self._dexes = ("", *settings.dexes)
        self._outbox = outbox
        self._errands = errands
        self._names = names
        self._poll = Poll(self._every)
        self._cadences = {dex: Cadence("contexts", subject_of(dex), step=self._every) for dex in self._dexes}
        # What was said of each perp last: it is said when it changes, and once after a start.
        self._settled: dict[str, int | None] = {}
        self.trouble = NOT_RUNNING

    def resume(self, newest: Mapping[str, int | None]) -> None:
        """Begins where the tape ends, dex by dex; a bucket it has of all of them is not asked for again."""
        for dex, cadence in self._cadences.items():
            cadence.resume(newest[dex])
        known = [bucket for bucket in newest.values() if bucket is not None]
        self._poll = Poll(self._every, newest=min(known) if len(known) == len(newest) else None)

    def tick(self, at: int) -> None:
        """Queues the poll when it is due."""
        bucket = self._poll.due(at)
        if bucket is not None:
            expires = self._poll.ends(bucket)
            for dex in self._dexes:
                self._errands.add(Errand("contexts", dex, bucket, expires=expires))
            # Other venues are compared with the main dex alone.
            self._errands.add(Errand("predicted", "", bucket, expires=expires))

    def answered(self, errand: Errand, body: bytes, *, asked_at: int) -> bool:
        """An answer to either question; False when it cannot be read."""
        bucket = floor(asked_at, MINUTE)
        return self._contexts(errand, body, bucket) if errand.kind == "contexts" else self._predicted(body, bucket)

    def _contexts(self, errand: Errand, body: bytes, bucket: int) -> bool:
        answer = read_contexts(body)
        if isinstance(answer, Malformed):
            self._outbox.malformed([answer])
            return False
        self._names.learn_perps(errand.subject, answer.universe)
        watched = frozenset(self._names.watched.perps)
        facts, problems = contexts_of(answer, dex=errand.subject, watched=watched, bucket_ts=bucket)
        self._outbox.malformed([*answer.problems, *problems])
        listed = delistings_of(answer, dex=errand.subject, bucket_ts=bucket)
        news = [fact for fact in listed if self._settled.get(fact.symbol, _NOT_SAID) != fact.settlement_e8]
        self._settled |= {fact.symbol: fact.settlement_e8 for fact in news}
        self._outbox.put(news)
        if facts:
            gap = self._cadences[errand.subject].seen(floor(bucket, self._every), self.trouble)
            self.trouble = NO_ANSWER
            self._outbox.put(facts, gap)
        return True

    def _predicted(self, body: bytes, bucket: int) -> bool:
        answer = read_predicted(body)
        if isinstance(answer, Malformed):
            self._outbox.malformed([answer])
            return False
        watched = frozenset(self._names.watched.perps)
        facts, problems = predicted_of(answer.good(), watched=watched, bucket_ts=bucket)
        self._outbox.malformed([*answer.problems, *problems])
        self._outbox.put(facts)
        return True
