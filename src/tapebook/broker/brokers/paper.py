"""Paper trading against the recorded market, without a state of its own.

What happens to an account is a function of the account, its orders and the tape, so a process that
died asks again and gets the same answer. Each question is one walk (`broker/walk.py`): orders meet
observations (`matching`), pay for their size (`impact`), need margin (`margin`) and may be
liquidated (`stretches`, `liquidation`).
"""

from collections.abc import Sequence

from tapebook.broker.margin import Margins
from tapebook.broker.port import Account, Activity, OrderState, PaperTerms, Quotes
from tapebook.broker.walk import Walk
from tapebook.domain.order import Order

_PLACED, _NEVER_SEEN = OrderState("placed"), OrderState("never seen")


class PaperBroker:
    """Fills orders from recorded prices and books."""

    def __init__(self, terms: PaperTerms) -> None:
        self._terms = terms
        self._margins = Margins(terms.default_max_leverage)

    def place(self, order: Order) -> OrderState:
        """Takes every order. Nothing has to leave: the order is in the book, and the tape decides."""
        return _PLACED

    def order_state(self, client_id: str) -> OrderState:
        """No order ever left, so none is known here and placing one again does no harm."""
        return _NEVER_SEEN

    def activity(self, account: Account, orders: Sequence[Order], *, quotes: Quotes, until: int) -> Activity:
        """Fills, funding, liquidations and cancellations up to a moment."""
        walk = Walk(account, orders, quotes=quotes, terms=self._terms, margins=self._margins, until=until)
        return walk.activity()


def create(terms: PaperTerms) -> PaperBroker:
    """The adapter's entry point."""
    return PaperBroker(terms)
