"""ContextAggregator: rolls closed trades up into days, and days into everything above them.

Every call repairs all ancestors of the days it finds new, so that sums agree at any moment. The methods of the
single layers carry their names from a chain of layers; here each is built from days.
"""

from tapebook.horizons.connection import Connection, Opened, connection_of
from tapebook.horizons.period import LEGACY, Kind, parse_period, period_of
from tapebook.horizons.rollup import catch_up, roll_again
from tapebook.horizons.values import Terms


class ContextAggregator:
    """Rolls up the layers of a deployment, or of all of them together (an empty scope)."""

    def __init__(self, conn: Connection | Opened, *, scope: str = "", terms: Terms | None = None) -> None:
        self._conn = connection_of(conn)
        self._scope = scope
        self._terms = terms

    def aggregate_daily_from_trades(self, date: str | None = None) -> None:
        """Sums up the trades that ended on a day, today by default; a day without any stays as it is."""
        self._roll("day", date)

    def aggregate_weekly_from_daily(self, week: str | None = None) -> None:
        """Rolls up a week such as 2026-W06."""
        self._roll("week", week)

    def aggregate_monthly_from_weekly(self, month: str | None = None) -> None:
        """Rolls up a month such as 2026-02, from its days."""
        self._roll("month", month)

    def aggregate_quarterly_from_monthly(self, quarter: str | None = None) -> None:
        """Rolls up a quarter such as 2026-Q1, from its days."""
        self._roll("quarter", quarter)

    def aggregate_annual_from_quarterly(self, year: str | None = None) -> None:
        """Rolls up a year such as 2026, from its days."""
        self._roll("year", year)

    def aggregate_legacy_from_annual(self) -> None:
        """Rolls up all time, from its days."""
        self._roll("legacy", LEGACY)

    def run_all_aggregations(self) -> None:
        """Brings every layer up to date, whatever was missed; twice in a row, the second writes nothing."""
        conn, seq = self._conn, self._conn.head(self._scope)
        drafts = catch_up(conn.store, conn.days, self._scope, seq=seq, at=conn.now(), terms=self._terms)
        conn.append(self._scope, drafts, expected_seq=seq)

    def _roll(self, kind: Kind, key: str | None) -> None:
        conn, seq = self._conn, self._conn.head(self._scope)
        period = period_of(kind, conn.now()) if key is None else parse_period(kind, key)
        drafts = roll_again(conn.store, conn.days, self._scope, period, seq=seq, at=conn.now(), terms=self._terms)
        conn.append(self._scope, drafts, expected_seq=seq)
