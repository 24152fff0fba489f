"""Mark prices from a table, kept as midpoints at their moment.

The tape has no rows for marks alone. Contexts hold one, but beside funding, premium, open interest and oracle price: a
file of marks does not state these, and zeros in their place would be read as facts. A midpoint is one price of a symbol
at a moment, and what positions are marked by; so a mark becomes the midpoint of its five seconds. Of a bar of marks
only the open is the price at a known moment: high, low and close are not kept.
"""

import math
from collections.abc import Sequence

from tapebook.domain.instants import floor
from tapebook.domain.market import Mid
from tapebook.tape.importer import MID_BUCKET, Ask, Parsed, Problems, Progress, known_at
from tapebook.tape.importers import columns as column_names
from tapebook.tape.importers import numbers, series
from tapebook.tape.importers.points import Points
from tapebook.tape.importers.table import Block, Table
from tapebook.tape.importers.times import BAD, why_bad


def parse(table: Table, ask: Ask, *, problems: Problems, progress: Progress) -> Parsed:
    """A table as midpoints of one symbol."""
    assert ask.symbol is not None
    columns = column_names.find(table, "marks")
    price = "open" if columns.has("open") and not columns.has("price") else "price"
    points = _Marks(table, columns, ask.symbol, field=price)
    points.read(ask, problems=problems, progress=progress)
    mids, thinned = _first_of_bucket(points.found)
    values = f"prices as written, to 8 decimals (the file uses {_decimals(mids)})"
    notes = [*_notes(price), *([f"{thinned:,} prices have another in their five seconds"] if thinned else [])]
    told = points.told(used=("time", price), values=values, notes=notes)
    return Parsed(mids, known_at, ("price_e8",), problems.first(), problems.count, told)


class _Marks(Points[Mid]):
    """Prices, each in its five seconds."""

    def _read(self, block: Block, problems: Problems) -> None:
        """Adds the rows of a block; what is no price becomes a problem."""
        given = block.columns[self._columns.at["time"]], block.columns[self._columns.at[self._field]]
        times, prices = self._times.read(given[0]), numbers.prices_e8(given[1])
        for place, (number, at, price) in enumerate(zip(block.numbers, times, prices, strict=True)):
            if at == BAD:
                problems.add(number, why_bad(given[0][place]))
            elif price == numbers.BAD_PRICE:
                problems.add(number, numbers.why_bad("price", given[1][place]))
            else:
                self.found.add(number, at, Mid(self._symbol, floor(at, MID_BUCKET), price))


def _first_of_bucket(found: series.Series[Mid]) -> tuple[list[Mid], int]:
    """The first price of each five seconds, as live midpoints are; and how many others there were."""
    first: dict[int, Mid] = {}
    for mid in found.facts:
        first.setdefault(mid.bucket_ts, mid)
    return list(first.values()), len(found.facts) - len(first)


def _decimals(mids: Sequence[Mid]) -> int:
    return numbers.decimals_used(math.gcd(*(mid.price_e8 for mid in mids)))


def _notes(price: str) -> list[str]:
    notes = ["kept as midpoints: each is the price of its five seconds"]
    if price == "open":
        notes.append("of each bar the open is kept, the price when it began; high, low and close are not")
    return notes
