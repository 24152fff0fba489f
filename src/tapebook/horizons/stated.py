"""Days whose sums somebody wrote, for a database without a book: L6 entries stand in for closed trades."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tapebook.domain.instants import DAY
from tapebook.domain.money import E6, divide, scaled
from tapebook.horizons.aggregate import Aggregate, Sums
from tapebook.horizons.layers import ContextLayer
from tapebook.horizons.path import step
from tapebook.horizons.period import Period, parse_period
from tapebook.horizons.rollup import News
from tapebook.horizons.store import Horizons
from tapebook.log import Log, Stream


class StatedDays:
    """Leaves from the keys total_pnl, trade_count, win_rate and avg_confidence of a day, as far as they are numbers."""

    def __init__(self, store: Horizons, log: Log) -> None:
        self._store = store
        self._log = log

    def heads(self, scope: str) -> dict[str, int]:
        """The scope's own stream, for that is where entries are."""
        return {scope: self._log.head(Stream(self._store.owner, scope)).seq}

    def changed(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> list[News]:
        """The days that were written since."""
        since, head = after.get(scope, 0), until[scope]
        days = self._store.observed_days(scope, after=since, until=head)
        return [News(scope, since + 1, parse_period("day", day).start) for day in days]

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """What was written of a day."""
        found = self._store.values(scope, ContextLayer.L6_DAILY, day.key, seq=until[scope])
        said = {each.key: msgspec.json.decode(each.value) for each in found if each.origin == "observed"}
        return stated_leaf(day, said)


def stated_leaf(day: Period, said: Mapping[str, Any]) -> Aggregate:
    """A leaf from the values of a day; without a result there is none."""
    net, trades = _scaled(said, "total_pnl", E6), _scaled(said, "trade_count", 1)
    if net is None:
        return Aggregate()
    count, sure = max(trades or 0, 0), _scaled(said, "avg_confidence", 10_000)
    won = divide(count * (_scaled(said, "win_rate", E6) or 0), 100 * E6)
    return Aggregate(
        trades=count,
        wins=max(0, min(count, won)),
        net_usd_e6=net,
        gross_usd_e6=net,
        first_day=day.start // DAY,
        last_day=day.start // DAY,
        daily=Sums(1, net, net * net),
        confidence_e4=Sums() if sure is None else Sums(1, sure, sure * sure),
        path=step(net),
        years=(int(day.key[:4]),),
    )


def _scaled(said: Mapping[str, Any], key: str, unit: int) -> int | None:
    value = said.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return scaled(value, unit)
    except ValueError:
        return None
