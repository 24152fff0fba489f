"""The figures of DefiLlama about the world: value locked, supply of stablecoins, volume, fees and open interest.

All amounts follow the prices of the coins with a lag of hours, as capital does. Answers have the oddities of the real
ones: numbers that are text in one place, symbols that are null or a dash, exchanges among the protocols that dwarf all
else, chains under an old name, previous values that are empty, and changes that are missing.
"""

from typing import Any

from tapebook.domain.units import DAY, E8, HOUR, MINUTE, SECOND, floor_to_step
from tapebook.world.assets import asset_of
from tapebook.world.random_streams import stream_seed
from tapebook.world.server.exchange import Exchange

_LAG_MS = 6 * HOUR

# Name, symbol of its token as it is written, the coin it follows, value locked in billions, its number.
_CHAINS: tuple[tuple[str, str | None, str, float, int | str | None], ...] = (
    ("Ethereum", "ETH", "ETH", 62.0, 1),
    ("Solana", "SOL", "SOL", 8.4, None),
    ("Bitcoin", "BTC", "BTC", 6.1, None),
    ("BSC", "BNB", "ETH", 7.2, "56"),
    ("Binance", "BNB", "ETH", 0.0, None),
    ("Hyperliquid L1", "HYPE", "HYPE", 1.1, None),
    ("Base", None, "ETH", 4.6, 8453),
    ("Unichain", "-", "ETH", 0.4, "130"),
    ("Doge", "DOGE", "DOGE", 0.02, None),
)
# Name, slug, category, token, chains as protocols call them, the coin it follows, value locked in billions.
_PROTOCOLS: tuple[tuple[str, str, str, str, tuple[str, ...], str, float], ...] = (
    ("Binance CEX", "binance-cex", "CEX", "-", ("Bitcoin", "Ethereum"), "BTC", 180.0),
    ("Lido", "lido", "Liquid Staking", "LDO", ("Ethereum",), "ETH", 24.0),
    ("Aave V3", "aave-v3", "Lending", "AAVE", ("Ethereum", "Binance", "Optimism"), "ETH", 21.0),
    ("Uniswap V3", "uniswap-v3", "Dexs", "UNI", ("Ethereum", "Base"), "ETH", 3.1),
    ("Jupiter Perps", "jupiter-perps", "Derivatives", "JUP", ("Solana",), "SOL", 0.9),
    ("Hyperliquid HLP", "hyperliquid-hlp", "Derivatives", "HYPE", ("Hyperliquid L1",), "HYPE", 0.5),
    ("Base Chain", "base-chain", "Chain", "-", ("Base",), "ETH", 4.6),
)
_STABLECOINS: tuple[tuple[str, str, str, str, float], ...] = (
    ("1", "Tether", "USDT", "peggedUSD", 184.0),
    ("2", "USD Coin", "USDC", "peggedUSD", 74.0),
    ("5", "Dai", "DAI", "peggedUSD", 4.9),
    ("50", "Euro Coin", "EURC", "peggedEUR", 0.4),
)
# Millions a day, by kind of overview and what is counted, as shares of the protocols below.
_OVERVIEWS = {
    ("dexs", "dailyVolume"): 9_400.0,
    ("fees", "dailyFees"): 62.0,
    ("fees", "dailyRevenue"): 24.0,
    ("open-interest", "openInterestAtEnd"): 14_300.0,
}
_DEFAULT_TYPES = {"dexs": "dailyVolume", "fees": "dailyFees", "open-interest": "openInterestAtEnd"}
# Name, category, its share of the total, protocol or chain, the coin whose token it has.
_EARNERS: tuple[tuple[str, str, float, str, str], ...] = (
    ("Hyperliquid Perps", "Derivatives", 0.55, "protocol", "HYPE"),
    ("Uniswap V3", "Dexs", 0.20, "protocol", "UNI"),
    ("trade.xyz", "Interface", 0.12, "protocol", ""),
    ("Polymarket", "Prediction Market", 0.05, "protocol", ""),
    ("Ethereum", "Chain", 0.08, "chain", "ETH"),
)


class MacroFigures:
    """All figures at this instant of an exchange."""

    def __init__(self, exchange: Exchange, *, seed: int) -> None:
        self._exchange, self._seed = exchange, seed

    def chains(self) -> list[dict[str, Any]]:
        """Value locked by chain, in no order."""
        return [
            {
                "gecko_id": name.lower(),
                "tvl": 1e9 * size * self._level(coin),
                "tokenSymbol": symbol,
                "cmcId": None,
                "name": name,
                "chainId": number,
            }
            for name, symbol, coin, size, number in _CHAINS
        ]

    def protocols(self) -> list[dict[str, Any]]:
        """Value locked by protocol, the largest first; exchanges are among them."""
        rows: list[dict[str, Any]] = []
        for place, (name, slug, category, token, chains, coin, size) in enumerate(_PROTOCOLS):
            tvl = 1e9 * size * self._level(coin)
            held = {chain: tvl / len(chains) for chain in chains} | {"borrowed": tvl / 3, "staking": tvl / 9}
            row = {
                "id": str(100 + place),
                "name": name,
                "slug": slug,
                "category": category,
                "symbol": token,
                "chain": chains[0] if len(chains) == 1 else "Multi-Chain",
                "chains": list(chains),
                "tvl": tvl,
                "chainTvls": held,
                "change_1h": None,
                "change_1d": round(100 * (self._level(coin) / self._level(coin, DAY) - 1), 4),
            }
            rows.append(row if place % 2 else row | {"change_7d": 1.25})
        return rows

    def history(self) -> list[dict[str, Any]]:
        """The value locked in all chains by day; the last point is now."""
        now = self._exchange.now
        days = [floor_to_step(now, DAY) - back * DAY for back in range(30, -1, -1)]
        return [{"date": at // SECOND, "tvl": self._total(max(0, now - at))} for at in days[:-1]] + [
            {"date": now // SECOND, "tvl": self._total(0)}
        ]

    def _total(self, back: int) -> float:
        return sum(1e9 * size * self._level(coin, back) for _, _, coin, size, _ in _CHAINS)

    def stablecoins(self) -> dict[str, Any]:
        """The supply of stablecoins in USD, now and before."""
        rows = []
        for number, name, symbol, peg, size in _STABLECOINS:

            def supply(back: int, size: float = size) -> float:
                return 1e9 * size * (0.9 + 0.1 * self._level("BTC", back))

            rows.append(
                {
                    "id": number,
                    "name": name,
                    "symbol": symbol,
                    "gecko_id": None,
                    "pegType": peg,
                    "pegMechanism": "fiat-backed",
                    "price": "1.0001" if symbol == "DAI" else 1.0,
                    "circulating": {peg: supply(0)},
                    "circulatingPrevDay": {} if symbol == "EURC" else {peg: supply(DAY)},
                    "circulatingPrevWeek": supply(7 * DAY) if symbol == "DAI" else {peg: supply(7 * DAY)},
                    "circulatingPrevMonth": {},
                    "chains": ["Ethereum"],
                    "chainCirculating": {},
                }
            )
        return {"peggedAssets": rows, "chains": [{"name": "Ethereum", "totalCirculatingUSD": {"peggedUSD": 1.4e11}}]}

    def overview_status(self, kind: str, data_type: str) -> int:
        """What an overview is answered with: perps are for those who pay."""
        if kind == "derivatives":
            return 402
        known = (kind, data_type or _DEFAULT_TYPES.get(kind, "")) in _OVERVIEWS
        return 200 if known else 500

    def overview(self, kind: str, data_type: str, *, charts: bool) -> dict[str, Any]:
        """Volume, fees, revenue or open interest: totals, and by protocol."""
        million = 1e6 * _OVERVIEWS[kind, data_type or _DEFAULT_TYPES[kind]]
        now, before, week = (round(million * self._level("BTC", back)) for back in (0, DAY, 7 * DAY))
        chart = [[self._exchange.now // SECOND - DAY // SECOND, before], [self._exchange.now // SECOND, now // 2]]
        protocols = []
        for place, (name, category, share, of, token) in enumerate(_EARNERS):
            row: dict[str, Any] = {
                "defillamaId": str(place + 1) if of == "protocol" else f"chain#{name.lower()}",
                "name": name,
                "slug": name.lower().replace(" ", "-"),
                "category": category,
                "protocolType": of,
                "chains": ["Ethereum"],
                "total24h": round(now * share),
                "total7d": round(now * share * 6.5),
                "breakdown24h": {"ethereum": {name: round(now * share)}},
                "symbol": token,
            }
            # Of one that has just been listed nothing is known of the days before.
            protocols.append(row if place == 3 else row | {"total48hto24h": round(before * share), "change_1d": 1.1})
        return {
            "totalDataChart": chart if charts else [],
            "totalDataChartBreakdown": [],
            "breakdown24h": None,
            "chain": None,
            "allChains": ["Ethereum"],
            "total24h": now,
            "total48hto24h": before,
            "total7d": now * 7,
            "total7DaysAgo": week,
            "change_1d": round(100 * (now / before - 1), 2),
            "protocols": protocols,
        }

    def _level(self, coin: str, back: int = 0) -> float:
        """How a coin stood some hours ago against where it began; a little noise of each day."""
        perp = self._exchange.perp(coin)
        if perp is None:
            return 1.0
        at = self._exchange.now - _LAG_MS - back
        minutes = perp.bars.minutes
        place = (at - minutes[0].bucket_ts) // MINUTE if minutes else -1
        price = minutes[place].close_e8 / E8 if 0 <= place < len(minutes) else asset_of(coin).start_price_usd
        noise = stream_seed(self._seed, "macro", coin, minute=at // DAY) % 1_000 / 100_000
        return float((price / asset_of(coin).start_price_usd) ** 0.6 + noise)
