"""Portfolio and risk caps: what is held, what it is worth, how much more is allowed."""

from tapebook.context.sections import Layout, fact_line
from tapebook.context.situation import Situation
from tapebook.domain.money import E6, decimal_text, short_price
from tapebook.domain.packet import Section


def build(situation: Situation) -> Section | None:
    """Names and values; the position is that of the packet's symbol."""
    portfolio, caps = situation.portfolio, situation.deployment.agent.caps
    rows = [
        ("cash_usd", _usd(portfolio.cash_usd_e6)),
        ("equity_usd", _usd(portfolio.equity_usd_e6(situation.marks))),
        *_position(situation),
        ("open_symbols", " ".join(sorted(portfolio.positions)) or "none"),
        ("max_position_usd", _usd(caps.max_position_usd_e6)),
        ("max_leverage", str(caps.max_leverage)),
    ]
    return Section("portfolio", "Portfolio and risk caps", ("name", "value"), tuple(rows))


def _position(situation: Situation) -> list[tuple[str, str]]:
    held = situation.portfolio.positions.get(situation.symbol)
    if held is None:
        return [("position_side", "flat")]
    mark = situation.marks[situation.symbol]
    return [
        ("position_side", "long" if held.size_e8 > 0 else "short"),
        ("position_usd", _usd(abs(situation.held_usd_e6()))),
        ("entry_price", short_price(held.entry_price_e8)),
        ("mark", short_price(mark)),
        ("unrealised_usd", _usd(held.unrealised_usd_e6(mark))),
    ]


def _usd(amount_e6: int) -> str:
    return decimal_text(amount_e6, E6, 2)


LAYOUT = Layout(cap=350, build=build, line=fact_line)
