"""Orders and round trips of agents."""

from tapebook.api.open_home import HomePart
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.views import OrderView, TradeView
from tapebook.lab.explain import known_order_view, recorded_trade_view


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
