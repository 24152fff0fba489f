"""The price of a market order: half the spread, and what its size does to the book.

A book is told in four points a side: nothing up to the best price, then what is offered within
0.1, 0.5 and 1 % of the mid, evenly in between. An order takes it from the best price outwards and
pays the average. Beyond 1 % the book is assumed to go on as in its last band, up to the farthest
price an order may reach (`max_impact_ppm`), where all of the rest is had; a book with nothing in
its last band has nothing beyond it either.

Where no book was recorded, the average grows by `impact_ppm_per_100k` with every 100,000 USD, up
to the same limit. Either way more size is never cheaper, and nothing is better than the best price.
"""

from fractions import Fraction
from itertools import pairwise

from tapebook.broker.port import Book, PaperTerms
from tapebook.domain.money import E6

_PPM = 1_000_000
_BANDS_PPM = (1_000, 5_000, 10_000)
# A size times a price, both e8, is USD e16.
_E16_PER_USD_E6 = 10**10

# How far from the mid, in millionths, and how much is offered up to there, in USD e16.
_Point = tuple[Fraction, Fraction]


def touch_price_e8(mid_e8: int, book: Book | None, terms: PaperTerms, *, buying: bool) -> int:
    """The best price there is: half a spread away from the mid."""
    return _away(mid_e8, _half_spread(book, terms), buying=buying)


def market_price_e8(signed_size_e8: int, mid_e8: int, book: Book | None, terms: PaperTerms) -> int:
    """The average price of taking a size from the book, rounded to the worse side."""
    buying = signed_size_e8 > 0
    wanted = Fraction(abs(signed_size_e8) * mid_e8)
    half = _half_spread(book, terms)
    limit = max(Fraction(terms.max_impact_ppm), half)
    if book is None:
        per_e16 = Fraction(terms.impact_ppm_per_100k, 100_000 * E6 * _E16_PER_USD_E6)
        return _away(mid_e8, min(limit, half + per_e16 * wanted), buying=buying)
    side = book.asks_usd_e6 if buying else book.bids_usd_e6
    return _away(mid_e8, _average_ppm(wanted, _points(side, half, limit), limit), buying=buying)


def _half_spread(book: Book | None, terms: PaperTerms) -> Fraction:
    return Fraction(terms.spread_ppm if book is None else book.spread_ppm, 2)


def _away(mid_e8: int, offset_ppm: Fraction, *, buying: bool) -> int:
    distance = -(-mid_e8 * offset_ppm // _PPM)
    return mid_e8 + distance if buying else max(1, mid_e8 - distance)


def _points(side_usd_e6: tuple[int, int, int], half: Fraction, limit: Fraction) -> list[_Point]:
    """The book from the best price to the limit; a band that holds less than the one within it adds nothing."""
    points: list[_Point] = [(half, Fraction(0))]
    for band, depth in zip(_BANDS_PPM, side_usd_e6, strict=True):
        offered = max(points[-1][1], Fraction(depth * _E16_PER_USD_E6))
        points.append((max(half, Fraction(band)), offered))
    (inner, less), (outer, more) = points[-2:]
    if outer > inner and limit > outer:
        points.append((limit, more + (more - less) * (limit - outer) / (outer - inner)))
    return points


def _average_ppm(wanted: Fraction, points: list[_Point], limit: Fraction) -> Fraction:
    """How far from the mid the average of what is taken lies."""
    left, paid = wanted, Fraction(0)
    for (inner, less), (outer, more) in pairwise(points):
        offered = more - less
        taken = min(left, offered)
        if taken:
            paid += taken * (inner + (outer - inner) * taken / (2 * offered))
            left -= taken
    return (paid + left * limit) / wanted
