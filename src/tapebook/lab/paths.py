"""The way each symbol went over a plan's range, as numbers that somebody without memory could have traded at."""

import msgspec
import numpy as np

from tapebook.broker import PaperTerms
from tapebook.domain.market import FundingRate
from tapebook.lab.bars_of import Bars, Moments, Numbers, bars_of
from tapebook.lab.plan import Plan
from tapebook.tape.importer import GRACE_MS
from tapebook.tape.store import Tape, View
from tapebook.wiring import Rooms, paper_terms

_PPM = 1e6
_E12 = 1e12


class Costs(msgspec.Struct, frozen=True):
    """What a market order costs, as shares of its value: the fee, and half the spread."""

    fee: float
    half_spread: float

    @property
    def each_way(self) -> float:
        """Both together."""
        return self.fee + self.half_spread


class Path(msgspec.Struct, frozen=True):
    """Prices at moments: the open of every bar, and the close of the last.

    `funding` is what one unit held since the beginning has paid by each moment; a stretch paid the difference.
    """

    symbol: str
    step_ms: int
    at: Moments
    price: Numbers
    funding: Numbers

    def place(self, moments: Moments) -> Moments:
        """Where the newest price at or before each moment stands; -1 before the first."""
        return np.searchsorted(self.at, moments, side="right") - 1


def paths_of(rooms: Rooms, plan: Plan) -> list[Path]:
    """The way of every symbol that has bars, in the order of the plan."""
    found = (bars_of(rooms.tape, plan, symbol) for symbol in plan.symbols)
    return [_path(rooms.tape, plan, bars) for bars in found if bars is not None]


def costs_of(rooms: Rooms) -> Costs:
    """What the paper broker charges for taking, where no book was recorded and size does not matter."""
    terms: PaperTerms = paper_terms(rooms.config)
    return Costs(terms.taker_fee_ppm / _PPM, terms.spread_ppm / 2 / _PPM)


def _path(tape: Tape, plan: Plan, bars: Bars) -> Path:
    at = np.append(bars.at, bars.end[-1])
    price = np.append(bars.open, bars.close[-1])
    bare = Path(bars.symbol, bars.step_ms, at, price, np.zeros(len(at)))
    return msgspec.structs.replace(bare, funding=_funding(tape, plan, bare))


def _funding(tape: Tape, plan: Plan, path: Path) -> Numbers:
    view = View(plan.end + GRACE_MS, plan.tape_seq)
    rates = tape.facts(FundingRate, path.symbol, since=int(path.at[0]) + 1, view=view)
    if not rates:
        return path.funding
    hours = np.array([rate.bucket_ts for rate in rates], dtype=np.int64)
    due = path.price[path.place(hours)] * np.array([rate.rate_e12 for rate in rates], dtype=np.float64) / _E12
    paid = np.concatenate([[0.0], np.cumsum(due)])
    return paid[np.searchsorted(hours, path.at, side="right")]
