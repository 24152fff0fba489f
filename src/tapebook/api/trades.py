"""Trades: orders and round trips of agents, and the lessons they drew from them or were told by others."""

from tapebook.api.open_home import HomePart
from tapebook.domain.agent import SkillNote
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.views import NoteView, OrderView, TradeView, note_view
from tapebook.lab.explain import known_order_view, recorded_trade_view
from tapebook.tick import memory
from tapebook.tick.memory import Promotion


class Trades(HomePart):
    """The orders and trades of a home."""

    def orders(self, agent: str | None = None, *, working: bool = False, most: int = 20) -> list[OrderView]:
        """The newest orders, of one agent or of all; when asked, only those that have not ended."""
        with self._home.read() as rooms:
            deployment = rooms.book.find_agent(agent, removed=True).id if agent else ""
            return [known_order_view(known) for known in rooms.book.orders(deployment, working=working, most=most)]

    def trades(self, agent: str, *, status: str | None = None, most: int = 50) -> list[TradeView]:
        """An agent's round trips: open ones by symbol, then closed ones, newest exit first."""
        with self._home.read() as rooms:
            deployment, book = rooms.book.find_agent(agent, removed=True).id, rooms.book
            seq = book.head(deployment)
            found: list[TradeState | ClosedTrade] = []
            if status in (None, "open"):
                found += book.account(deployment, seq=seq).open_trades.values()
            if status in (None, "closed"):
                found += book.all_closed_trades(deployment, seq=seq, most=most)
            return [recorded_trade_view(book, trade, deployment=deployment) for trade in found[:most]]


class LessonNotes(HomePart):
    """The lessons of a home's agents."""

    def lessons(self, agent: str, *, most: int = 10) -> list[NoteView]:
        """An agent's notes, the active one and those before it, newest first."""
        with self._home.read() as rooms:
            kept = rooms.notes.reflections(rooms.book.find_agent(agent, removed=True).id, most=most)
            return [note_view(each) for each in kept]


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

    def promoted_notes(self) -> list[SkillNote]:
        """What holds for each skill now."""
        with self._home.read() as rooms:
            return memory.promotions(rooms)

    def notes_for(self, agent: str) -> list[SkillNote]:
        """What an agent is told of others' lessons at its next decision."""
        with self._home.read() as rooms:
            own = rooms.book.find_agent(agent, removed=True)
            wanted = memory.skills_of(own.agent)
            return [each for each in memory.promotions(rooms) if each.skill in wanted and each.source != own.id]
