"""Paper trading against the recorded market, without a state of its own.

What happens to an account is a function of the account, its orders and the tape, so a process that died asks again
and gets the same answer. Each question is one simulation (`broker/simulation.py`): orders meet observations and pay
for their size (`matching`), need margin and may be liquidated (`margin`).
"""

from collections.abc import Sequence

from tapebook.broker.margin import MarginTiers
from tapebook.broker.port import BrokerAccount, BrokerActivity, OrderState, PaperTerms, Quotes
from tapebook.broker.simulation import AccountSimulation
from tapebook.domain.order import Order

_PLACED, _NEVER_SEEN = OrderState("placed"), OrderState("never seen")


class PaperBroker:
    """Fills orders from recorded prices and books."""

    def __init__(self, terms: PaperTerms) -> None:
        self._terms = terms
        self._margins = MarginTiers(terms.default_max_leverage)

    def place(self, order: Order) -> OrderState:
        """Takes every order. Nothing has to leave: the order is in the book, and the tape decides."""
        return _PLACED

    def order_state(self, client_id: str) -> OrderState:
        """No order ever left, so none is known here and placing one again does no harm."""
        return _NEVER_SEEN

    def activity(
        self, account: BrokerAccount, orders: Sequence[Order], *, quotes: Quotes, until: int
    ) -> BrokerActivity:
        """Fills, funding, liquidations and cancellations up to a moment."""
        walk = AccountSimulation(account, orders, quotes=quotes, terms=self._terms, margins=self._margins, until=until)
        return walk.simulate()


def create(terms: PaperTerms) -> PaperBroker:
    """The adapter's entry point."""
    return PaperBroker(terms)
