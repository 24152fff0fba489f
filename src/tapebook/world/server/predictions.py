"""The answer to `predictedFundings`: the rate to come here, and what two other venues charge for the same coin.

Each venue has its own interval, says nothing of some coins, and now and then forgets to name the interval.
"""

from typing import Any

from tapebook.domain.instants import HOUR, floor
from tapebook.world.server import wire
from tapebook.world.server.exchange import Exchange
from tapebook.world.streams import stream_seed

_HERE, _HERE_HOURS = "HlPerp", 1

# By venue and coin: hours between two payments, 0 where the interval is not named, None where the coin is not listed.
_ELSEWHERE: dict[str, dict[str, int | None]] = {
    "BinPerp": {"BTC": 8, "ETH": 8, "SOL": 8, "HYPE": 4, "DOGE": 0, "kPEPE": 4},
    "BybitPerp": {"BTC": 8, "ETH": 8, "SOL": 4, "HYPE": 1, "DOGE": 8, "kPEPE": None},
}
_UNNAMED_HOURS = 8
_RATE_E12 = 10_000


def predictions(exchange: Exchange) -> list[list[Any]]:
    """All perps of the main dex by name, the delisted among them."""
    rows: dict[str, list[list[Any]]] = {
        each.name: [["BinPerp", None], [_HERE, _slot(0, exchange.now, _HERE_HOURS)], ["BybitPerp", None]]
        for each in exchange.delisted.values()
    }
    for symbol, coin in exchange.main.perps.items():
        if symbol in rows:
            continue
        here = coin.drawn.context.funding_e12
        first, last = (
            [venue, _elsewhere(exchange, venue, symbol, rate_e12=here)] for venue in ("BinPerp", "BybitPerp")
        )
        rows[symbol] = [first, [_HERE, _slot(here, exchange.now, _HERE_HOURS)], last]
    return [[symbol, rows[symbol]] for symbol in sorted(rows)]


def _elsewhere(exchange: Exchange, venue: str, symbol: str, *, rate_e12: int) -> dict[str, Any] | None:
    """Another venue's rate for its own interval: near ours times the hours, and the same for the whole hour."""
    hours = _ELSEWHERE[venue].get(symbol, _UNNAMED_HOURS)
    if hours is None:
        return None
    span = hours or _UNNAMED_HOURS
    dice = stream_seed(exchange.seed, venue, symbol, minute=floor(exchange.now, HOUR))
    rate = rate_e12 * span * (50 + dice % 101) // 100
    slot = _slot(rate // _RATE_E12 * _RATE_E12, exchange.now, span)
    if not hours:
        del slot["fundingIntervalHours"]
    return slot


def _slot(rate_e12: int, now: int, hours: int) -> dict[str, Any]:
    following = floor(now, hours * HOUR) + hours * HOUR
    return {"fundingRate": wire.rate(rate_e12), "nextFundingTime": following, "fundingIntervalHours": hours}
