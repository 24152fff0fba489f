"""Horizons in the tick: the days of the book, roll-ups when a day is over, and how far the owner's word reaches."""

from collections.abc import Mapping

from tapebook.book.store import Book
from tapebook.domain.agent import Deployment
from tapebook.horizons import Aggregate, News, Period, exit_of, leaf_of
from tapebook.log import Draft
from tapebook.wiring import Rooms

_NO_END = 2**62


class BookDays:
    """The days of a book: closed trades by the day of their exit, and what was posted to the ledger."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def heads(self, scope: str) -> dict[str, int]:
        """A deployment, or with an empty scope all there are, each with its newest sequence number."""
        names = [scope] if scope else [name for name, _ in self._book.deployments()]
        return {name: self._book.head(name) for name in names}

    def changed(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> list[News]:
        """The days on which a trade ended or something was posted that became known in between."""
        found = []
        for name, seq in until.items():
            days = self._book.days_changed(name, after=after.get(name, 0), seq=seq)
            found += [News(name, first, day) for day, first in days]
        return found

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """The leaf of a day, as far as it is known."""
        exits, posted = [], []
        for name, seq in until.items():
            ended = self._book.closed_on(name, since=day.start, until=day.end, seq=seq)
            exits += [exit_of(each.trade, each.engine, each.confidence_e4) for each in ended]
            posted.append(self._book.posted_on(name, since=day.start, until=day.end, seq=seq))
        known = [amount for amount in posted if amount is not None]
        return leaf_of(day, exits, ledger_usd_e6=sum(known) if known else None)


def layers_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events of days that are over and are not in the layers yet; one lookup when no trade ended since the last."""
    scope, now = deployment.id, rooms.clock.now()
    quiet = rooms.horizons.quiet_until(scope, now=now)
    if quiet is not None and not rooms.book.closed_since(scope, after=quiet, seq=seq)[0]:
        return []
    return rooms.horizons.days_over(BookDays(rooms.book), scope, seq=seq, now=now)


def curated_until(rooms: Rooms, *, as_of: int | None = None) -> int:
    """Up to which event of the owner's stream something was written for every agent, by now or by a moment."""
    seq = _NO_END if as_of is None else rooms.book.seq_as_of("", as_of)
    return rooms.horizons.store.changed("", seq=seq)
