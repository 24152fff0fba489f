"""Orders and round trips of agents."""

from typing import Any

from tapebook import views
from tapebook.api.open_home import HomePart
from tapebook.lab.explain import known_order_view, trade_times_view


class Trades(HomePart):
    """The orders and trades of a home."""

    def orders(self, agent: str | None = None, *, working: bool = False, most: int = 20) -> list[dict[str, Any]]:
        """The newest orders, of one agent or of all; when asked, only those that have not ended."""
        with self._home.read() as rooms:
            deployment = rooms.book.find_agent(agent, removed=True).id if agent else ""
            return [known_order_view(known) for known in rooms.book.orders(deployment, working=working, most=most)]

    def trades(self, agent: str, *, status: str | None = None, most: int = 50) -> list[dict[str, Any]]:
        """An agent's round trips: open ones by symbol, then closed ones, newest exit first."""
        with self._home.read() as rooms:
            deployment, book = rooms.book.find_agent(agent, removed=True).id, rooms.book
            seq = book.head(deployment)
            rows = []
            if status in (None, "open"):
                for trade in book.account(deployment, seq=seq).open_trades.values():
                    maker = book.trade_agent(trade.trade_id)
                    view = views.open_trade_view(trade, deployment=deployment, maker=maker)
                    rows.append(view | trade_times_view(book, trade.trade_id))
            if status in (None, "closed"):
                for closed in book.all_closed_trades(deployment, seq=seq, most=most):
                    maker = book.trade_agent(closed.state.trade_id)
                    view = views.closed_trade_view(closed, deployment=deployment, maker=maker)
                    rows.append(view | trade_times_view(book, closed.state.trade_id))
            return rows[:most]
