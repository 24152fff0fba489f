"""What an account holds: signed sizes with what was paid for them."""

import msgspec

from tapebook.domain.money import notional_usd_e6, price_e8_of


class Position(msgspec.Struct, frozen=True):
    """A holding in one perp. Cost is signed like the size: a short has a negative one."""

    symbol: str
    size_e8: int
    cost_usd_e6: int
    leverage: int = 1

    @property
    def entry_price_e8(self) -> int:
        """The average price of what is still held."""
        return price_e8_of(self.cost_usd_e6, self.size_e8)

    def unrealised_usd_e6(self, mark_e8: int) -> int:
        """What closing at the mark would realise, before fees."""
        return notional_usd_e6(self.size_e8, mark_e8) - self.cost_usd_e6


class Portfolio(msgspec.Struct, frozen=True):
    """A moment of an account: open positions by symbol, and cash including all that was realised."""

    positions: dict[str, Position]
    cash_usd_e6: int = 0

    def equity_usd_e6(self, marks: dict[str, int]) -> int:
        """Cash and what the positions would realise at the marks; every held symbol needs one."""
        return self.cash_usd_e6 + sum(held.unrealised_usd_e6(marks[held.symbol]) for held in self.positions.values())
