"""Funding rates from a table: each row is one settlement, kept as it is at its hour.

A rate of a file is what was paid at that moment, whether an hour or eight after the last: eight-hourly rates stay one
payment every eight hours and are not spread over the hours between. Packets show them by the hour: for how many hours a
rate was paid, the distance of settlements says (`features/funding.py`). Freqtrade keeps rates as bars with the rate as
open and zeros elsewhere. A premium that is not in the file is stored as 0.
"""

from collections.abc import Sequence
from typing import Any

from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import FundingRate
from tapebook.domain.money import E12, decimal_text
from tapebook.errors import BadInput
from tapebook.tape.importer import Ask, Parsed, Problems, Progress, known_at, span_text
from tapebook.tape.importers import columns as column_names
from tapebook.tape.importers import numbers
from tapebook.tape.importers.columns import Columns
from tapebook.tape.importers.points import Points
from tapebook.tape.importers.table import Block, Table
from tapebook.tape.importers.times import BAD, why_bad

# Rates are stamped a few milliseconds past the hour.
_PAST_THE_HOUR = MINUTE
# More than any exchange lets be paid in one settlement, so the file counts in percent.
_MOST_RATE = E12 // 10
_MOST_PREMIUM = E12
_ELSEWHERE = ("high", "low", "close")


def parse(table: Table, ask: Ask, *, problems: Problems, progress: Progress) -> Parsed:
    """A table as the rates of one symbol."""
    assert ask.symbol is not None
    columns = column_names.find(table, "funding")
    rate = "rate" if columns.has("rate") or not columns.has("open", *_ELSEWHERE) else "open"
    points = _Rates(table, columns, ask.symbol, field=rate)
    points.read(ask, problems=problems, progress=progress)
    rates = points.found.facts
    notes = _notes(columns, rate, points.step)
    told = points.told(used=("time", rate, "premium"), values=_range(rates), notes=notes)
    stated = ("rate_e12", "premium_e12") if columns.has("premium") else ("rate_e12",)
    return Parsed(rates, known_at, stated, problems.first(), problems.count, told)


class _Rates(Points[FundingRate]):
    """Rates, each at its hour."""

    def _read(self, block: Block, problems: Problems) -> None:
        """Adds the rows of a block; what is no rate becomes a problem."""
        raw = {field: block.columns[place] for field, place in self._columns.at.items()}
        if self._field == "open" and any(numbers.rate_e12(value) for name in _ELSEWHERE for value in raw[name]):
            raise BadInput("there is no column for the rate: these are bars with prices, not funding rates")
        premiums = raw.get("premium", [0] * len(block.numbers))
        values = zip(raw["time"], raw[self._field], premiums, strict=True)
        for number, at, (time, rate, premium) in zip(block.numbers, self._times.read(raw["time"]), values, strict=True):
            if why := why_bad(time) if at == BAD else _why(at, rate, premium):
                problems.add(number, why)
                continue
            hour = floor(at, HOUR)
            fact = FundingRate(self._symbol, hour, numbers.rate_e12(rate) or 0, numbers.rate_e12(premium) or 0)
            self.found.add(number, hour, fact)


def _why(at: int, rate: Any, premium: Any) -> str:
    """What is wrong with a row; empty when nothing is."""
    if at % HOUR > _PAST_THE_HOUR:
        return f"is {span_text(at % HOUR)} past the hour: funding is settled at full hours"
    for name, value, most in (("rate", rate, _MOST_RATE), ("premium", premium, _MOST_PREMIUM)):
        number = numbers.rate_e12(value)
        if number is None:
            return numbers.why_bad(name, value)
        if abs(number) > most:
            limit = decimal_text(100 * most, E12, 0)
            return f"{name} {str(value)[:40]} is over {limit} %: write it as a fraction, not in percent"
    return ""


def _range(rates: Sequence[FundingRate]) -> str:
    if not rates:
        return "no rates"
    least, most = min(rate.rate_e12 for rate in rates), max(rate.rate_e12 for rate in rates)
    low, high = (decimal_text(100 * rate, E12, 4) for rate in (least, most))
    return f"rates as fractions per settlement, from {low} % to {high} %"


def _notes(columns: Columns, rate: str, step: int | None) -> list[str]:
    notes = [] if columns.has("premium") else ["no premium: stored as 0"]
    if rate == "open":
        notes.append("rates stand in the column open, as freqtrade keeps them")
    if step is not None and step != HOUR:
        notes.append(f"settled every {span_text(step)}: each rate is one payment, hours between have none")
    return notes
