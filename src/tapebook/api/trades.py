"""Trades: orders and round trips of agents, and the lessons they drew from them or were told by others."""

from typing import Literal

from tapebook.api.open_home import AsOf, HomePart, OpenHome, listed_deployment, require_rows
from tapebook.book.pages import BookPages
from tapebook.book.store import Book
from tapebook.db import Database
from tapebook.domain.agent import SkillNote
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.views import NoteView, OrderView, Page, TradeView, note_view, stored_integers
from tapebook.errors import BadInput
from tapebook.lab.explain import known_order_view, listed_trade_view
from tapebook.log import Log
from tapebook.tick import memory
from tapebook.tick.memory import Promotion

__all__ = ["HomeSkills", "LessonNotes", "MemoryClient", "Promotion", "Trades"]

# Beyond what an agent watches, and beyond the notes that are refused between two that stand.
_MOST_OPEN, _NOTES_READ = 1_000, 100


class Trades(HomePart):
    """The orders and trades of a home."""

    def orders(
        self,
        agent: str | None = None,
        *,
        working: bool = False,
        most: int = 20,
        before: str | None = None,
        as_of: AsOf = None,
    ) -> Page[OrderView]:
        """The newest orders, of one agent or of all; when asked, only those that have not ended.

        As they stand, or as they stood at a moment. `before` is the client id of the last order of the page before, or
        its `next`.
        """
        require_rows(most)
        with self._home.read() as rooms:
            moment = None if as_of is None else self._home.moment(as_of)
            deployment, pages = (
                listed_deployment(rooms.book, agent, moment),
                _pages(rooms.book, rooms.log, rooms.book_db),
            )
            if deployment is None:
                return Page()
            found = pages.orders(deployment, until=pages.until(moment), before=before, working=working, most=most + 1)
            views, exact = list(map(known_order_view, found)), [stored_integers(each.order) for each in found]
            return Page.of_rows(views, most=most, cursor=lambda order: order["client_id"], exact=exact)

    def trades(
        self,
        agent: str,
        *,
        status: Literal["open", "closed"] | None = None,
        most: int = 50,
        before: str | None = None,
        as_of: AsOf = None,
    ) -> Page[TradeView]:
        """An agent's round trips: open ones by symbol, then closed ones, newest exit first.

        As they stand, or as they stood at a moment. `before` is the `next` of the page before, with which trades are
        those that stood when the first page was read; or the id of its last trade, with which they are those of now.
        """
        require_rows(most)
        with self._home.read() as rooms:
            moment = None if as_of is None else self._home.moment(as_of)
            deployment, book = listed_deployment(rooms.book, agent, moment), rooms.book
            if deployment is None:
                return Page()
            # With the place up to which the first page read: a trade that ends meanwhile would be met twice.
            trade_id, _, read_until = (before or "").partition("@")
            if moment is not None:
                seq = book.seq_as_of(deployment, moment)
            else:
                seq = _sequence_number(read_until, newest=book.head(deployment))
            last = None if before is None else trade_id
            found = _pages(rooms.book, rooms.log, rooms.book_db).trades(
                deployment, seq=seq, before=last, status=status, most=most + 1
            )
            views = [listed_trade_view(each, deployment=deployment) for each in found]
            exact = [_trade_integers(each.trade) for each in found]
            return Page.of_rows(views, most=most, cursor=lambda trade: f"{trade['id']}@{seq}", exact=exact)


def _pages(book: Book, log: Log, book_db: Database) -> BookPages:
    return BookPages(book, log, book_db)


def _trade_integers(trade: TradeState | ClosedTrade) -> dict[str, int]:
    """The stored integers of a round trip, with the net result that follows from them."""
    parts = (trade.state, trade) if isinstance(trade, ClosedTrade) else (trade,)
    return stored_integers(*parts) | {"net_usd_e6": parts[0].net_usd_e6}


def _sequence_number(text: str, *, newest: int) -> int:
    """How far the first page of a list had read, by what its cursor says; a bare id says nothing of it."""
    if not text:
        return newest
    if not text.isdecimal() or not 0 < int(text) <= newest:
        raise BadInput(f"{text!r} is no place in the book: give the id of the last trade, or `next` of a page")
    return int(text)


class LessonNotes(HomePart):
    """The lessons of a home's agents."""

    def lessons(self, agent: str, *, most: int = 10, as_of: AsOf = None) -> list[NoteView]:
        """An agent's notes, the active one and those before it, newest first; as they stand or stood at a moment."""
        with self._home.read() as rooms:
            moment, book = None if as_of is None else self._home.moment(as_of), rooms.book
            deployment = listed_deployment(book, agent, moment)
            if deployment is None:
                return []
            seq = book.head(deployment) if moment is None else book.seq_as_of(deployment, moment)
            return [note_view(each) for each in rooms.notes.reflections(deployment, most=most, seq=seq)]


class MemoryClient:
    """What a trading agent is given of its own past, by the names that agents of other systems know it by.

    `recentClosed`, `openWithMfeMae` and `activeLessons` are the same in the spelling of TypeScript.
    """

    def __init__(self, home: OpenHome, agent: str, *, as_of: AsOf = None) -> None:
        self._trades = Trades(home)
        self._lessons = LessonNotes(home)
        self._agent = agent
        self._as_of = as_of

    def recent_closed(self, *, limit: int = 10) -> Page[TradeView]:
        """Trades that ended, newest first."""
        return self._trades.trades(self._agent, status="closed", most=limit, as_of=self._as_of)

    def open_with_mfe_mae(self) -> Page[TradeView]:
        """Open trades with the best and the worst they have been worth, by symbol."""
        return self._trades.trades(self._agent, status="open", most=_MOST_OPEN, as_of=self._as_of)

    def active_lessons(self) -> str | None:
        """The text of the note that stands, or None."""
        notes = self._lessons.lessons(self._agent, most=_NOTES_READ, as_of=self._as_of)
        return next((note["lessons_text"] for note in notes if note["status"] == "active"), None)

    recentClosed = recent_closed
    openWithMfeMae = open_with_mfe_mae
    activeLessons = active_lessons


class HomeSkills(HomePart):
    """Lessons that hold for a skill: those of one agent, promoted to others."""

    def promote(self, agent: str, *, to: str | None = None, skill: str | None = None) -> Promotion:
        """Has others told an agent's lessons: one other agent, all with a skill, or else its own other deployments."""
        with self._home.write() as rooms:
            own = rooms.book.find_agent(agent, removed=True)
            name = rooms.book.find_agent(to, removed=True).agent.name if to else skill or own.agent.name
            return memory.promote(rooms, own, name)

    def demote(self, skill: str) -> Promotion:
        """Takes back what was promoted to a skill or an agent."""
        with self._home.write() as rooms:
            return memory.demote(rooms, skill)

    def promoted_notes(self, *, as_of: AsOf = None) -> list[SkillNote]:
        """What holds for each skill now, or held at a moment."""
        with self._home.read() as rooms:
            return memory.promotions(rooms.book, rooms.notes, as_of=None if as_of is None else self._home.moment(as_of))

    def notes_for(self, agent: str, *, as_of: AsOf = None) -> list[SkillNote]:
        """What an agent is told of others' lessons at its next decision, or was to be told at a moment."""
        with self._home.read() as rooms:
            own = rooms.book.find_agent(agent, as_of=None if as_of is None else self._home.moment(as_of), removed=True)
            wanted = memory.skills_of(own.agent)
            return [each for each in self.promoted_notes(as_of=as_of) if each.skill in wanted and each.source != own.id]
