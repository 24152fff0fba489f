"""The market as a broker may see it: the tape, cut off at what is known now."""

from collections.abc import Sequence

from tapebook.domain.instants import HOUR
from tapebook.domain.market import AssetContext, Liquidity, Mid
from tapebook.tape.store import Tape, View


class TapeQuotes:
    """Answers a broker's questions from the tape."""

    def __init__(self, tape: Tape, view: View) -> None:
        self._tape = tape
        self._view = view

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """Midpoints between two moments, oldest first."""
        return self._tape.mids(symbol, since=since, until=until, view=self._view)

    def spread_ppm(self, symbol: str, *, at: int) -> int | None:
        """The spread last recorded at a moment, if that was within the hour."""
        book = self._tape.newest(Liquidity, symbol, view=self._known(at))
        return None if book is None or at - book.bucket_ts > HOUR else round(book.spread_bps * 100)

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The midpoint last observed at a moment."""
        mid = self._tape.newest(Mid, symbol, view=self._known(at))
        return None if mid is None else mid.price_e8

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The rate settled at an hour; until it is published, the rate the exchange showed before the hour."""
        settled = self._tape.funding_at(symbol, hour=hour, view=self._view)
        if settled is not None:
            return settled.rate_e12
        shown = self._tape.newest(AssetContext, symbol, view=self._known(hour))
        return None if shown is None else shown.funding_e12

    def _known(self, at: int) -> View:
        """What was known at a moment, and never more than is known now."""
        return View(min(at, self._view.as_of), self._view.watermark)
