"""Hyperliquid as a source: mids and candles over WebSocket, contexts, books and funding over REST.

`create` gives the source. Everything it concludes is in pure modules (`session.py` is the map); `connection.py`,
`rest.py` (`post_request`) and `client.py` are the shell that touches the network.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tapebook.domain.market import Liquidity
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.tape.source import RecordPayload, Sink

if TYPE_CHECKING:
    from tapebook.sources.hyperliquid.client import Health, HyperliquidSource

__all__ = ["Health", "HyperliquidSource", "HyperliquidSourceSettings", "create"]

_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_BOOKS: Mapping[str, Liquidity] = MappingProxyType({})


def create(
    settings: HyperliquidSourceSettings,
    *,
    sink: Sink,
    clock: Callable[[], int],
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    resume: Mapping[str, int] = _NOTHING,
    books: Mapping[str, Liquidity] = _NO_BOOKS,
    record: RecordPayload | None = None,
) -> "HyperliquidSource":
    """The source. `resume` names the newest bucket the tape has of each channel, so that an outage becomes a gap.

    Channels: mids, candles, books, contexts, funding; those of a builder dex but books as `mids:xyz`. A channel the
    tape has nothing of is left out. `books` are the newest books the tape has, with which later ones are compared.
    `record` is given every payload as it was received, an answer with its question as a frame of its own.
    """
    # What speaks HTTP takes longer to load than all else together, and most commands never listen.
    from tapebook.sources.hyperliquid.client import HyperliquidSource

    return HyperliquidSource(
        settings,
        sink=sink,
        clock=clock,
        monotonic=monotonic,
        sleep=sleep,
        resume=resume,
        books=books,
        record=record,
    )
