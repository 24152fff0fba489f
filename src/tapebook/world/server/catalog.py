"""What is listed, as `meta`, `spotMeta` and `perpDexs` tell it.

The order of a universe is the asset id, so the delisted perps keep their places among the living.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from tapebook.world.assets import asset_of
from tapebook.world.server.spots import DELISTED, SPOTS, Delisted

BUILDER_DEX = "xyz"

# Tables below 50 are not listed by the exchange: their number is the leverage itself.
_TIERED = {
    10: (51, "3000000.0", 5),
    20: (53, "40000000.0", 10),
    25: (55, "100000000.0", 15),
    40: (56, "150000000.0", 20),
}

# Where the first delisted perp stands in the main universe.
_DELISTED_FROM = 2


def universe(symbols: list[str], *, dex: str) -> list[str]:
    """All names of a dex in the order of their ids."""
    if dex:
        return symbols
    return [*symbols[:_DELISTED_FROM], *(each.name for each in DELISTED), *symbols[_DELISTED_FROM:]]


def meta(symbols: list[str], *, dex: str, delisted: Iterable[Delisted] = DELISTED) -> dict[str, Any]:
    """The answer to `meta`."""
    gone = {each.name: each for each in delisted}
    rows = []
    for name in universe(symbols, dex=dex):
        if name in gone:
            row = _perp(name, gone[name].size_decimals, gone[name].max_leverage)
            rows.append({**row, "isDelisted": True})
        else:
            asset = asset_of(name)
            row = _perp(name, asset.size_decimals, asset.max_leverage)
            rows.append({**row, "onlyIsolated": True, "marginMode": "strictIsolated"} if dex else row)
    return {"universe": rows, "marginTables": _margin_tables(), "collateralToken": 0}


def _perp(name: str, size_decimals: int, max_leverage: int) -> dict[str, Any]:
    table = _TIERED.get(max_leverage, (max_leverage,))[0]
    return {"szDecimals": size_decimals, "name": name, "maxLeverage": max_leverage, "marginTableId": table}


def _margin_tables() -> list[list[Any]]:
    return [
        [
            number,
            {
                "description": f"tiered {leverage}x",
                "marginTiers": [
                    {"lowerBound": "0.0", "maxLeverage": leverage},
                    {"lowerBound": bound, "maxLeverage": less},
                ],
            },
        ]
        for leverage, (number, bound, less) in _TIERED.items()
    ]


def spot_meta() -> dict[str, Any]:
    """The answer to `spotMeta`: an `index` is not a position, neither of pairs nor of tokens."""
    pairs = [
        {"tokens": [spot.token, 0], "name": spot.name, "index": spot.index, "isCanonical": spot.index == 0}
        for spot in SPOTS
    ]
    tokens = [_token("USDC", 0, 8), *(_token(spot.token_name, spot.token, spot.size_decimals) for spot in SPOTS)]
    return {"universe": pairs, "tokens": tokens}


def _token(name: str, index: int, size_decimals: int) -> dict[str, Any]:
    return {
        "name": name,
        "szDecimals": size_decimals,
        "weiDecimals": 8,
        "index": index,
        "tokenId": f"0x{_digest(f'token {name}')[:32]}",
        "isCanonical": index <= 1,
        "evmContract": None,
        "fullName": None,
        "deployerTradingFeeShare": "0.0",
    }


def perp_dexs(builder_symbols: list[str]) -> list[Any]:
    """The answer to `perpDexs`: null stands for the main dex."""
    return [
        None,
        {
            "name": BUILDER_DEX,
            "fullName": BUILDER_DEX.upper(),
            "deployer": address(f"deployer {BUILDER_DEX}"),
            "oracleUpdater": None,
            "feeRecipient": address(f"fees {BUILDER_DEX}"),
            "assetToStreamingOiCap": [[symbol, "25000000.0"] for symbol in builder_symbols],
            "subDeployers": [["setOracle", [address(f"oracle {BUILDER_DEX}")]]],
            "deployerFeeScale": "1.0",
            "lastDeployerFeeScaleChangeTime": "1970-01-01T00:00:00",
            "assetToFundingMultiplier": [[symbol, "0.5"] for symbol in builder_symbols],
            "assetToFundingInterestRate": [],
        },
    ]


def address(of: str) -> str:
    """A made-up account, the same for the same name."""
    return f"0x{_digest(of)[:40]}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
