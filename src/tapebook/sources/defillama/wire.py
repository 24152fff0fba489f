"""Answers of DefiLlama as values. Pure; a row that cannot be read is left out and counted.

What is odd about them, and where it is handled:

- amounts are JSON numbers, a few of them text, null or missing (`_polling.number_of`); times are seconds;
- chains stand in no order, share symbols, and have null or a dash for none (`read_chains`);
- exchanges and chains are among the protocols and dwarf all else (`NOT_DEFI`); parts of a protocol's value must not be
  summed, and its chains have older names than those of the list of chains (`NEW_CHAIN_NAMES`);
- supply of a stablecoin lies under its peg, the value of a day ago may be an empty object or a bare number (`_supply`);
- open interest of a day is what is open now, its sums over a week mean nothing, and front ends repeat the venues behind
  them (`OPEN_INTEREST`); changes are missing where they cannot be computed;
- errors are plain text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tapebook.sources._polling import decode_answer, number_of, text_of

NOT_DEFI = frozenset(("CEX", "Chain"))
"""Categories of protocols that are no protocols."""

OPEN_INTEREST = frozenset(("Derivatives", "Interest Rate Derivatives", "Synthetics"))
"""Categories whose open interest counts: others repeat that of venues, or are no derivatives."""

NEW_CHAIN_NAMES = {
    **{"Binance": "BSC", "Optimism": "OP Mainnet", "xDai": "Gnosis", "Ripple": "XRPL", "zkSync Era": "ZKsync Era"},
}
"""What the list of chains calls chains that protocols still name as before."""

_NO_SYMBOL = frozenset(("", "-"))


class ChainRow(msgspec.Struct, frozen=True):
    """The value locked on a chain; its token's symbol if it has one."""

    name: str
    symbol: str
    tvl: float


class ProtocolRow(msgspec.Struct, frozen=True):
    """The value locked in a protocol, and how it has changed in percent."""

    slug: str
    name: str
    category: str
    symbol: str
    chains: tuple[str, ...]
    tvl: float
    change_1d: float | None
    change_7d: float | None


class StablecoinRow(msgspec.Struct, frozen=True):
    """The supply of a stablecoin in USD, now, a day and a week ago."""

    id: str
    name: str
    symbol: str
    supply: float
    day_ago: float | None
    week_ago: float | None


class EarnerRow(msgspec.Struct, frozen=True):
    """One row of an overview: what of a day, and of the day before."""

    id: str
    slug: str
    name: str
    category: str
    is_chain: bool
    day: float
    day_before: float | None


class Overview(msgspec.Struct, frozen=True):
    """Volume, fees, revenue or open interest: the total of a day, its change in percent, and by protocol."""

    day: float
    day_before: float | None
    change_1d: float | None
    rows: tuple[EarnerRow, ...]


def symbol_of(row: Mapping[str, Any], name: str) -> str:
    """A symbol in capitals; empty where there is none."""
    found = text_of(row, name, 40).strip()
    return "" if found in _NO_SYMBOL else found.upper()


def _rows(value: Any, what: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise ValueError(f"no list of {what}: {str(value)[:60]!r}")
    return [row for row in value if isinstance(row, dict)]


def read_chains(body: bytes) -> list[ChainRow]:
    """Chains by their value; ValueError when it is no list."""
    found = [
        ChainRow(name, symbol_of(row, "tokenSymbol"), tvl)
        for row in _rows(decode_answer(body), "chains")
        if (name := text_of(row, "name", 80)) and (tvl := number_of(row, "tvl")) is not None and tvl >= 0
    ]
    return sorted(found, key=lambda row: (-row.tvl, row.name))


def chain_by_symbol(chains: Sequence[ChainRow]) -> dict[str, ChainRow]:
    """The chain of each symbol: of several with one symbol, that with the largest value."""
    found: dict[str, ChainRow] = {}
    for row in sorted(chains, key=lambda row: (-row.tvl, row.name)):
        if row.symbol:
            found.setdefault(row.symbol, row)
    return found


def read_protocols(body: bytes) -> list[ProtocolRow]:
    """Protocols by their value, without exchanges and chains; ValueError when it is no list."""
    found = []
    for row in _rows(decode_answer(body), "protocols"):
        slug, tvl, category = text_of(row, "slug", 80), number_of(row, "tvl"), text_of(row, "category", 60)
        # `tvl` is without what is borrowed or staked; the parts in `chainTvls` are with it, so they are not read.
        if slug and tvl is not None and tvl >= 0 and category not in NOT_DEFI:
            names = row.get("chains")
            chains = [each for each in names if isinstance(each, str)] if isinstance(names, list) else []
            found.append(
                ProtocolRow(
                    slug=slug,
                    name=text_of(row, "name", 80),
                    category=category,
                    symbol=symbol_of(row, "symbol"),
                    chains=tuple(NEW_CHAIN_NAMES.get(each, each) for each in chains),
                    tvl=tvl,
                    change_1d=number_of(row, "change_1d"),
                    change_7d=number_of(row, "change_7d"),
                )
            )
    return sorted(found, key=lambda row: (-row.tvl, row.slug))


def read_history(body: bytes) -> list[tuple[int, float]]:
    """The value of all chains by day, oldest first, in milliseconds; dates are numbers or text of seconds."""
    found = []
    for row in _rows(decode_answer(body), "days"):
        at, tvl = number_of(row, "date"), number_of(row, "tvl")
        if at is not None and tvl is not None:
            found.append((int(at) * 1_000, tvl))
    return sorted(found)


def read_stablecoins(body: bytes) -> list[StablecoinRow]:
    """Stablecoins by their supply; ValueError when it is no such list."""
    answer = decode_answer(body)
    found = []
    for row in _rows(answer.get("peggedAssets") if isinstance(answer, dict) else answer, "stablecoins"):
        peg, number = text_of(row, "pegType", 40), text_of(row, "id", 20)
        supply = _supply(row.get("circulating"), peg)
        if number and supply is not None and row.get("delisted") is not True:
            found.append(
                StablecoinRow(
                    id=number,
                    name=text_of(row, "name", 80),
                    symbol=symbol_of(row, "symbol"),
                    supply=supply,
                    day_ago=_supply(row.get("circulatingPrevDay"), peg),
                    week_ago=_supply(row.get("circulatingPrevWeek"), peg),
                )
            )
    return sorted(found, key=lambda row: (-row.supply, row.id))


def _supply(value: Any, peg: str) -> float | None:
    """What lies under the peg, or under whatever key there is; a bare number is itself, an empty object is unknown."""
    if isinstance(value, dict):
        key = peg if peg in value else next(iter(value), "")
        return number_of(value, key)
    return number_of({"bare": value}, "bare")


def read_overview(body: bytes) -> Overview:
    """An overview; ValueError when it is none."""
    answer = decode_answer(body)
    if not isinstance(answer, dict) or (day := number_of(answer, "total24h")) is None:
        raise ValueError(f"no overview: {str(answer)[:60]!r}")
    rows = []
    for row in _rows(answer.get("protocols"), "protocols"):
        number, total = text_of(row, "defillamaId", 60), number_of(row, "total24h")
        if number and total is not None:
            rows.append(
                EarnerRow(
                    id=number,
                    slug=text_of(row, "slug", 80) or number,
                    name=text_of(row, "name", 80),
                    category=text_of(row, "category", 60),
                    is_chain=text_of(row, "protocolType", 20) == "chain",
                    day=total,
                    day_before=number_of(row, "total48hto24h"),
                )
            )
    rows.sort(key=lambda row: (-row.day, row.id))
    return Overview(day, number_of(answer, "total48hto24h"), number_of(answer, "change_1d"), tuple(rows))
